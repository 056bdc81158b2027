"""What the resources of all operator families share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_origin

from dagster import ConfigurableResource, InitResourceContext
from pydantic import Field, PrivateAttr, create_model

from rs_assets.common.home import Home
from rs_assets.common.node import Family
from rs_assets.common.scratch import new_folder
from rs_assets.compile.planner.context import Flow
from rs_assets.errors import TopologyError
from rs_assets.runtime.job.session import JobSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.topology.topology import Topology

# Steps of the fluent API: a function from streams to a stream or a table.
Steps = Callable[..., Any]
# The flows of one step, by query.
Flows = Mapping[str, Flow]


class FamilyResource(ConfigurableResource[None]):
    """One family of operators: its settings, the wiring of its steps, and its work for ops without a pipeline.

    The frames that its methods return read temporary files, which are removed when Dagster's run ends; outside of a run
    when the process ends.
    """

    family: ClassVar[Family]

    _folder: Path | None = PrivateAttr(default=None)

    @classmethod
    def configure_at_launch(cls, **kwargs: Any) -> Any:
        """The resource with defaults for the Launchpad: also those of fixed choices, which Dagster itself ignores."""
        return super(FamilyResource, _with_choices(cls, kwargs)).configure_at_launch(**kwargs)

    def settings(self) -> Mapping[str, Any]:
        """The options of a run (see `RunOptions`) that this family sets."""
        return {}

    def wire(self, session: JobSession, step: str, inputs: Mapping[str, Flows]) -> Flows:
        """Wire the step of a pipeline: its flows, by query, from those of its inputs."""
        return session.options.driver.call(lambda _: session.wire(step, inputs))

    def teardown_after_execution(self, context: InitResourceContext) -> None:  # noqa: ARG002  Dagster's form
        """Remove the files of the frames."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def folder(self) -> Path:
        """A new folder, which lives as long as the frames of this resource."""
        if self._folder is None:
            self._folder = new_folder(f"rs-{self.family}-")
        return Path(tempfile.mkdtemp(dir=self._folder))

    def computed(self, steps: Steps, frames: Mapping[str, DataFrame], home: Home | None = None) -> DataFrame:
        """The rows after `steps` over `frames`, by the names of their sources, to the end of all windows.

        Runs the steps as a pipeline of its own, which reads all rows of a frame in one batch: none is late. Tables and
        dimensions that are given by name are those of `home` (default RS_HOME).
        """
        from rs_assets.dagster.resources.frames import computed

        return computed(steps, frames, self.folder(), check=self._check, home=home or Home.default(), **self.settings())

    def _check(self, topology: Topology) -> None:
        """TopologyError if the steps have none of this family."""
        if all(node.family != self.family for node in topology):
            found = sorted({node.family for node in topology} - {"source", "sink"})
            raise TopologyError(
                f"the steps have no {self.family}; there is: {', '.join(found) or 'no step'}",
                remedy=f"use the resource of that family: {', '.join(f'rs_{name}' for name in found)}"
                if found
                else "add a step",
            )


def _with_choices(kind: type[FamilyResource], defaults: Mapping[str, Any]) -> type[FamilyResource]:
    """`kind`, whose fields with fixed choices have these `defaults`."""
    known = kind.model_fields
    chosen = {name: known[name] for name in defaults if name in known and get_origin(known[name].annotation) is Literal}
    if not chosen:
        return kind
    fields: dict[str, Any] = {
        name: (each.annotation, Field(default=defaults[name], description=each.description))
        for name, each in chosen.items()
    }
    return create_model(kind.__name__, __base__=kind, __module__=kind.__module__, __doc__=kind.__doc__, **fields)

"""Pipelines as a component of Dagster: `defs.yaml` names their modules."""

from __future__ import annotations

from dagster import Component, ComponentLoadContext, Definitions, Model, Resolvable
from pydantic import Field

from rs_assets.dagster.definitions_of import build_definitions
from rs_assets.dagster.discovery import find_pipelines


class PipelineComponent(Component, Model, Resolvable):
    """The pipelines at the top level of some modules, with all definitions of `build_definitions`.

    ```yaml
    type: rs_assets.PipelineComponent
    attributes:
      modules: [shop.pipelines.orders]
    ```

    A subclass overrides `build_defs` to pass resources or a translator. ConfigurationError if a module has no pipeline.
    """

    modules: list[str] = Field(
        default_factory=list, description="Python modules with pipelines; default: those in pyproject.toml"
    )

    def build_defs(self, context: ComponentLoadContext) -> Definitions:  # noqa: ARG002  Dagster's form
        """Assets, checks, jobs, sensors and schedules of the pipelines."""
        return build_definitions(find_pipelines(self.modules))

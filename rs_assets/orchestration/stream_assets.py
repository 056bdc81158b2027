"""The assets of one pipeline: one a step that leaves something behind, as a translator describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dagster import AssetKey, AssetSpec

from rs_assets.engine.home import Home
from rs_assets.errors import ConfigurationError
from rs_assets.orchestration.roles import ROLE_OF, looked_up, upstream_roles
from rs_assets.orchestration.translator import StreamStep, StreamTranslator
from rs_assets.pipeline.stream.pipeline import Pipeline
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.sink import DeltaSink
from rs_assets.pipeline.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class StreamAssets:
    """A pipeline and the specs of its assets, by step. Everything in Dagster that names an asset asks here."""

    pipeline: Pipeline
    specs: Mapping[str, AssetSpec]

    @classmethod
    def of(cls, pipeline: Pipeline, translator: StreamTranslator | None = None) -> StreamAssets:
        """The assets as `translator` describes them, with the dependencies between them.

        ConfigurationError for what describes none, and for two steps of one key.
        """
        topology, describe = pipeline.topology, (translator or StreamTranslator()).get_asset_spec
        nodes = [node for node in topology if node.family in ROLE_OF]
        bare = {node.name: _spec(describe(StreamStep(pipeline, node)), node.name) for node in nodes}
        _check_keys(bare)
        above = {node.name: [bare[step].key for step, _ in upstream_roles(topology, node)] for node in nodes}
        return cls(pipeline, {step: spec.merge_attributes(deps=above[step]) for step, spec in bare.items()})

    def reading(self, written: Mapping[str, AssetKey]) -> StreamAssets:
        """The same, where assets depend on those `written`, by path, whose rows they have looked up."""
        deps = {
            node.name: sorted(written[path] for path in self._looked_up(node) if path in written)
            for node in self.topology
            if node.name in self.specs
        }
        return replace(self, specs={name: spec.merge_attributes(deps=deps[name]) for name, spec in self.specs.items()})

    @property
    def tables(self) -> Mapping[str, AssetKey]:
        """The Delta tables that it writes, by path, with their assets."""
        sinks = (sink for sink in self.topology.sinks if isinstance(sink, DeltaSink))
        return {self._path(sink.table): self.key(sink.name) for sink in sinks}

    @property
    def dimensions(self) -> frozenset[str]:
        """The paths of the Delta tables that rows of it are looked up in."""
        return frozenset().union(*(self._looked_up(node) for node in self.topology))

    def _looked_up(self, node: Node) -> frozenset[str]:
        return frozenset(map(self._path, looked_up(self.topology, node)))

    def _path(self, table: str) -> str:
        """Where a table lies, in any home: pipelines of one code location share one."""
        return Home(Path("/")).table(self.topology.namespace, table)

    @property
    def topology(self) -> Topology:
        """The pipeline as data."""
        return self.pipeline.topology

    @property
    def name(self) -> str:
        """Namespace and job, joined by a dot."""
        return self.pipeline.name

    @property
    def label(self) -> str:
        """The name of the pipeline's graph, and what those of its jobs and sensors begin with."""
        return self.topology.label

    def key(self, step: str) -> AssetKey:
        """The key of the asset of `step`."""
        return self.specs[step].key


def _spec(described: object, step: str) -> AssetSpec:
    if isinstance(described, AssetSpec):
        return described
    raise ConfigurationError(
        f"the translator describes {step!r} by a {type(described).__name__}", remedy="return an AssetSpec for each step"
    )


def _check_keys(specs: Mapping[str, AssetSpec]) -> None:
    known: dict[AssetKey, str] = {}
    for step, spec in specs.items():
        other = known.setdefault(spec.key, step)
        if other != step:
            raise ConfigurationError(
                f"the translator gives {other!r} and {step!r} one key, {spec.key.to_user_string()}",
                remedy="have the name of the step in it: step.node.name",
            )


def with_lineage(every: Sequence[StreamAssets]) -> list[StreamAssets]:
    """`every`, where what looks rows up in a table of another pipeline depends on the asset of that table.

    Pipelines that look rows up in tables of each other, or in their own, go round in a circle, of which Dagster knows
    nothing: there the dependencies are left out.
    """
    reads = {one.name: {other.name for other in every if other.tables.keys() & one.dimensions} for one in every}

    def above(name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            fresh = reads[waiting.pop()] - found
            found |= fresh
            waiting += fresh
        return found

    def written(one: StreamAssets) -> dict[str, AssetKey]:
        others = [other for other in every if other.name in reads[one.name] and one.name not in above(other.name)]
        return {path: key for other in others if other is not one for path, key in other.tables.items()}

    return [one.reading(written(one)) for one in every]

"""The assets of one pipeline, one for each step that stores data, as a translator describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dagster import AssetKey, AssetSpec

from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.dagster.assets.roles import ROLE_OF, looked_up, looking_up, upstream_roles
from rs_assets.dagster.assets.translator import StreamStep, StreamTranslator
from rs_assets.errors import ConfigurationError
from rs_assets.operators.dimension.spec import DeltaOrigin
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class StreamAssets:
    """A pipeline and the specs of its assets, by step. All keys of assets come from here.

    `dimensions` are assets that runs only read, by the step that joins them. Dimensions that are tables of pipelines
    are in `tables_read`, by that step, and have their specs in the pipeline that writes them.
    """

    pipeline: Pipeline
    specs: Mapping[str, AssetSpec]
    dimensions: Mapping[str, AssetSpec] = field(default_factory=dict)
    tables_read: Mapping[str, AssetKey] = field(default_factory=dict)

    @classmethod
    def of(cls, pipeline: Pipeline, translator: StreamTranslator | None = None) -> StreamAssets:
        """The assets as `translator` describes them, with the dependencies between them.

        ConfigurationError if it does not return a spec, and for two steps with one key.
        """
        topology, describe = pipeline.topology, (translator or StreamTranslator()).get_asset_spec
        nodes = [node for node in topology if node.family in ROLE_OF]
        bare = {node.name: _spec(describe(StreamStep(pipeline, node)), node.name) for node in nodes}
        found = [node for node in topology if isinstance(node, VersionedTable)]
        dimensions = {node.name: _spec(describe(StreamStep(pipeline, node)), node.name) for node in found}
        _check_keys(bare | dimensions)
        above = {node.name: [bare[step].key for step, _ in upstream_roles(topology, node)] for node in nodes}
        specs = {step: spec.merge_attributes(deps=above[step]) for step, spec in bare.items()}
        return cls(pipeline, specs, dimensions)

    def reading(self, written: Mapping[str, AssetKey], known: Mapping[str, AssetKey]) -> StreamAssets:
        """The same assets, which also depend on their dimensions and on the tables `written`, by path.

        `known` are all tables of pipelines: a dimension among them is not an asset of its own.
        """
        origins = {
            name: node.dimension.origin
            for name in self.dimensions
            if isinstance(node := self.topology[name], VersionedTable)
        }
        paths = {name: self._path(each.table) for name, each in origins.items() if isinstance(each, DeltaOrigin)}
        read = {name: known[path] for name, path in paths.items() if path in known}
        own = {name: spec for name, spec in self.dimensions.items() if name not in read}

        def deps(name: str) -> list[AssetKey]:
            node = self.topology[name]
            tables = {written[path] for path in self._looked_up(node) if path in written}
            return sorted(tables | {own[each.name].key for each in looking_up(self.topology, node) if each.name in own})

        specs = {name: spec.merge_attributes(deps=deps(name)) for name, spec in self.specs.items()}
        return replace(self, specs=specs, dimensions=own, tables_read=read)

    @property
    def tables(self) -> Mapping[str, AssetKey]:
        """The Delta tables that it writes, by path, with their assets."""
        sinks = (sink for sink in self.topology.sinks if isinstance(sink, DeltaSink))
        return {self._path(sink.table): self.key(sink.name) for sink in sinks}

    @property
    def looked_up(self) -> frozenset[str]:
        """The paths of the Delta tables that are its dimensions or sources."""
        return frozenset().union(*(self._looked_up(node) for node in self.topology))

    def _looked_up(self, node: Node) -> frozenset[str]:
        return frozenset(map(self._path, looked_up(self.topology, node)))

    def _path(self, table: str) -> str:
        """The path of a table in any home: pipelines of one code location share a home."""
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
        """The name of the pipeline's graph, with which the names of its jobs and sensors begin."""
        return self.topology.label

    def key(self, step: str) -> AssetKey:
        """The key of the asset of `step`; for a dimension join, that of the dimension."""
        if step in self.tables_read:
            return self.tables_read[step]
        return (self.specs.get(step) or self.dimensions[step]).key


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
                remedy="include the name of the step: step.node.name",
            )


def with_lineage(every: Sequence[StreamAssets]) -> list[StreamAssets]:
    """`every`, where pipelines that read a table of another pipeline depend on the asset of that table.

    Pipelines that read each other's tables, or their own, would be a cycle, which Dagster does not allow: these
    dependencies are left out.
    """
    reads = {one.name: {other.name for other in every if other.tables.keys() & one.looked_up} for one in every}

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

    known = {path: key for one in every for path, key in one.tables.items()}
    return [one.reading(written(one), known) for one in every]

"""The translation of steps into assets, and how to customise it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dagster import AssetKey, AssetSpec

from rs_assets.common.node import Node
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.dagster.assets.descriptions import describe_step
from rs_assets.dagster.assets.roles import Role, role_of
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.topology import Topology

# The kind of an asset; Dagster shows it with an icon next to that of the system.
KIND_OF: Mapping[Role, str] = MappingProxyType(
    {"checkpoint": "source", "state": "spark", "output": "table", "dimension": "table"}
)


@dataclass(frozen=True, slots=True)
class StreamStep:
    """A step that is an asset, the argument of a translator."""

    pipeline: Pipeline
    node: Node

    @property
    def topology(self) -> Topology:
        """The pipeline as data."""
        return self.pipeline.topology

    @property
    def role(self) -> Role:
        """What the step produces: a checkpoint (sources), state (windows, joins) or an output (sinks).

        A dimension join represents the dimension itself, which no run writes.
        """
        return role_of(self.node)


class StreamTranslator:
    """Describes a step as an asset: key, group, description, owners, tags and kinds.

    Write a subclass and pass an object of it to `build_definitions(translator=...)`. Its changes apply to the assets,
    their checks, and all their events. Keys must differ. The dependencies between the steps of a pipeline are added to
    those of the spec.

    >>> from rs_assets import StreamBuilder, StreamStep, StreamTranslator, build_definitions
    >>> class Lake(StreamTranslator):
    ...     def get_asset_spec(self, step: StreamStep) -> AssetSpec:
    ...         return super().get_asset_spec(step).replace_attributes(group_name="lake", owners=["team:orders"])
    >>> pipeline = StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}]).to_delta("pages").build()
    >>> specs = build_definitions([pipeline], translator=Lake()).resolve_all_asset_specs()
    >>> sorted((spec.key.to_user_string(), spec.group_name, *spec.owners) for spec in specs)
    [('shop/hello/array', 'lake', 'team:orders'), ('shop/hello/pages', 'lake', 'team:orders')]
    """

    def get_asset_spec(self, step: StreamStep) -> AssetSpec:
        """The spec of a step's asset: `namespace/job/table` for a table, `namespace/job/step` for anything else.

        If a step has the name of a table of the pipeline, its role is added: `pages_state`. A dimension has the name of
        its join and the role: `users_dimension`.
        """
        topology, node, pipeline = step.topology, step.node, step.pipeline
        return AssetSpec(
            key=AssetKey([topology.namespace, topology.job, _last_part(step)]),
            group_name=topology.label,
            kinds={KIND_OF[step.role], node.icon} - {""},
            description=_described(step),
            owners=list(pipeline.owners),
            tags={"rs/pipeline": topology.name, "rs/step": node.name, "rs/family": node.family, "rs/role": step.role},
            code_version=topology.fingerprint,
        )


def _described(step: StreamStep) -> str:
    """What the step does, which lists of assets show, and the description of the pipeline."""
    return f"{describe_step(step.node)}\n\n{step.pipeline.description}".strip()


def _last_part(step: StreamStep) -> str:
    """The part of the key that the graph shows: a table's own name, or the name of the step."""
    tables = [_table(sink) for sink in step.topology.sinks]
    table, name = _table(step.node), step.node.name
    if table and tables.count(table) == 1:
        return table
    return f"{name}_{step.role}" if name in tables or step.role == "dimension" else name


def _table(node: Node) -> str:
    return node.table.rstrip("/").rpartition("/")[2] if isinstance(node, DeltaSink) else ""

"""A pipeline as assets over an op graph: the run page draws the pipeline, the asset graph its state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dagster import AssetKey, AssetsDefinition, AssetSpec, GraphDefinition, GraphOut, graph

from rs_assets.orchestration.ops import FACTORIES, process_op
from rs_assets.orchestration.roles import ROLE_OF, asset_path, output_name, roles_of, upstream_roles
from rs_assets.pipeline.stream.pipeline import Pipeline
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.sink import DeltaSink, KafkaSink
from rs_assets.pipeline.topology.source import FileSource, KafkaSource
from rs_assets.pipeline.topology.topology import Topology

# The icons of assets beside Spark's.
KINDS: Mapping[type[Node], str] = MappingProxyType(
    {DeltaSink: "deltalake", FileSource: "file", KafkaSource: "kafka", KafkaSink: "kafka"}
)


def pipeline_name(topology: Topology) -> str:
    """The name of a pipeline's graph and jobs in Dagster."""
    return f"{topology.namespace}_{topology.job}"


def pipeline_graph(pipeline: Pipeline) -> GraphDefinition:
    """The op graph: one op a node, and one that processes the batches."""
    topology = pipeline.topology
    ops = {node.name: FACTORIES[node.family](topology, node) for node in topology}
    process = process_op(topology)
    outputs = [output_name(step, role) for step, role in roles_of(topology)]

    @graph(name=pipeline_name(topology), out={name: GraphOut() for name in outputs})
    def wired() -> dict[str, Any]:
        values: dict[str, Any] = {}
        for node in topology:
            inputs = {f"from_{name}": values[name] for name in node.follows}
            values[node.name] = ops[node.name].alias(node.name)(**inputs)
        results = process.alias("process")(**{f"after_{sink.name}": values[sink.name] for sink in topology.sinks})
        return {name: getattr(results, name) for name in outputs} if len(outputs) > 1 else {outputs[0]: results}

    return wired


def pipeline_assets(pipeline: Pipeline) -> AssetsDefinition:
    """One asset a step and role, with the dependencies between the steps. Launching one launches the pipeline."""
    topology = pipeline.topology
    return AssetsDefinition(
        node_def=pipeline_graph(pipeline),
        keys_by_input_name={},
        keys_by_output_name={
            output_name(step, role): AssetKey(asset_path(topology, step, role)) for step, role in roles_of(topology)
        },
        specs=[_spec(topology, node) for node in topology if node.family in ROLE_OF],
    )


def _spec(topology: Topology, node: Node) -> AssetSpec:
    role = ROLE_OF[node.family]
    return AssetSpec(
        key=AssetKey(asset_path(topology, node.name, role)),
        deps=[AssetKey(asset_path(topology, step, above)) for step, above in upstream_roles(topology, node)],
        group_name=node.family,
        kinds=_kinds(node),
        description=f"{node.kind}: {node.detail()}".rstrip(": "),
        tags={"rs/pipeline": f"{topology.namespace}.{topology.job}", "rs/step": node.name},
        code_version=topology.fingerprint,
    )


def _kinds(node: Node) -> set[str]:
    """The icons of an asset."""
    return {"spark"} | {kind for node_type, kind in KINDS.items() if isinstance(node, node_type)}

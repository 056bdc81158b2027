"""A pipeline as assets over an op graph: the run page draws the pipeline, the asset graph its state."""

from __future__ import annotations

from typing import Any

from dagster import AssetsDefinition, GraphDefinition, GraphOut, graph

from rs_assets.dagster.assets.roles import PROCESS, op_name, output_name, roles_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.assets.verdicts import judged_anyway
from rs_assets.dagster.runs.ops import FACTORIES, process_op


def pipeline_graph(assets: StreamAssets) -> GraphDefinition:
    """The op graph: one op for each node, and one that processes the batches."""
    topology = assets.topology
    refused = judged_anyway(assets)
    ops = {node.name: FACTORIES[node.family](topology, node, refused) for node in topology}
    process = process_op(assets, refused)
    outputs = [output_name(step, role) for step, role in roles_of(topology)]

    @graph(name=assets.label, out={name: GraphOut() for name in outputs}, description=assets.pipeline.description)
    def wired() -> dict[str, Any]:
        values: dict[str, Any] = {}
        for node in topology:
            inputs = {f"from_{name}": values[name] for name in node.follows}
            values[node.name] = ops[node.name].alias(op_name(node.name))(**inputs)
        results = process.alias(PROCESS)(**{f"after_{sink.name}": values[sink.name] for sink in topology.sinks})
        return {name: getattr(results, name) for name in outputs} if len(outputs) > 1 else {outputs[0]: results}

    return wired


def pipeline_assets(assets: StreamAssets) -> AssetsDefinition:
    """One asset for each step and role, with their dependencies. Launching one launches the pipeline."""
    return AssetsDefinition(
        node_def=pipeline_graph(assets),
        keys_by_input_name={},
        keys_by_output_name={output_name(step, role): assets.key(step) for step, role in roles_of(assets.topology)},
        specs=list(assets.specs.values()),
    )

"""Shuffles."""

from __future__ import annotations

from pipelines.compile.wiring import Flow, Wiring
from pipelines.topology.shuffle import Shuffle
from resources.shuffle.memory import shuffle
from resources.window.aggregate import check_fields


def compile_shuffle(wiring: Wiring, node: Shuffle, inputs: tuple[Flow, ...]) -> Flow:  # noqa: ARG001  the table's form
    """Spark's exchange inside the query."""
    df = inputs[0].df
    check_fields(df, node.keys, step=node.name)
    return Flow(shuffle(df, node.partitions, node.keys))

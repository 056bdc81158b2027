"""Sources: a frame of good records, behind a gate that keeps bad ones out."""

from __future__ import annotations

from pyspark.sql import DataFrame

from rs_assets.compile.planner.wiring import Flow, Wiring
from rs_assets.records.columns import REASON
from rs_assets.records.poison import reason_of
from rs_assets.records.policy import BadRecords
from rs_assets.topology.nodes.source import Source

# Behind the name of a source: the gate of the records that an examination found.
POISON = "/poison"


def compile_source(wiring: Wiring, node: Source, inputs: tuple[Flow, ...]) -> Flow:  # noqa: ARG001  the table's form
    """Read `node` as the wiring says, and admit what can be used; of a pruned stream that is every row."""
    good = wiring.read(wiring, node)
    if not (wiring.streaming and node.name in wiring.pruned):
        good = wiring.gates.admit(good, step=node.name, policy=node.bad_records, counted=True)
    return Flow(_without_poison(wiring, node, good))


def _without_poison(wiring: Wiring, node: Source, good: DataFrame) -> DataFrame:
    """`good` without the records that made a batch fail, and without all that equal them.

    A step that computes a record from its fields alone fails on equal fields wherever they stand, so that the address,
    which Spark's own readers do not give to a stream, is not needed. A step that rolls dice may be wronged by it.
    """
    poisons = wiring.poisons.get(wiring.stored_name(node.name))
    if not poisons:
        return good
    judged = good.withColumn(REASON, reason_of(good, poisons))
    return wiring.gates.admit(judged, step=f"{node.name}{POISON}", policy=BadRecords.QUARANTINE, counted=True)

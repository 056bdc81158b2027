"""Sources: a frame of good records, behind a gate that keeps bad ones out."""

from __future__ import annotations

from pipelines.compile.wiring import Flow, Wiring
from pipelines.topology.source import Source


def compile_source(wiring: Wiring, node: Source, inputs: tuple[Flow, ...]) -> Flow:  # noqa: ARG001  the table's form
    """Read `node` as the wiring says, and admit what can be used."""
    frame = wiring.read(wiring, node)
    return Flow(wiring.gates.admit(frame, step=node.name, policy=node.bad_records, counted=not node.pushes_down))

"""The plan of one Spark query of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from rs_assets.common.node import Node
from rs_assets.connectors.nodes import Source
from rs_assets.topology.chain import inputs_of
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.nodes.table import TableVersions
from rs_assets.topology.nodes.timed import Side, TimedState
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import calls_python

OutputMode = Literal["append", "update", "complete"]
# The source name of a query's control rows; with several watermarks each has a source of its own.
CONTROL_SOURCE = "rs_control"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """One Spark query: everything up to `streaming_output` is streaming, later steps are applied to each batch.

    `name` keys the query's checkpoint: its last stateful step, or its sources. `states` are its stateful steps, inputs
    first; the last is `stateful`. `watermark_steps` are those with an input without stateful steps upstream. There a
    watermark begins, at `watermark_inputs`. `counted_sources` are the sources whose rows count for the pipeline as this
    query counts them: a source that several queries read is counted by the first. `shared_nodes` are the nodes that an
    earlier query has too. `late` are those of its sinks that get the late rows of one of its `watermark_steps`. `held`
    are the sources without rows in each stage of the first start; those of the tables that are loaded are `awaited`.
    """

    name: str
    nodes: tuple[str, ...]
    streaming_output: str
    sinks: tuple[str, ...]
    sources: tuple[str, ...]
    counted_sources: tuple[str, ...]
    shared_nodes: frozenset[str] = frozenset()
    states: tuple[str, ...] = ()
    watermark_steps: tuple[str, ...] = ()
    watermark_inputs: tuple[str, ...] = ()
    output_mode: OutputMode = "append"
    late: tuple[str, ...] = ()
    held: tuple[frozenset[str], ...] = ()
    awaited: frozenset[str] = frozenset()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The sinks that get rows of the last streaming step."""
        return tuple(name for name in self.sinks if name not in self.late)

    @property
    def stateful(self) -> str | None:
        """The last stateful step, which every row of the sinks has passed; None without any."""
        return self.states[-1] if self.states else None

    @property
    def forgettable(self) -> tuple[str, ...]:
        """The names by which a start can discard the query's state: its stateful steps, else its own name."""
        return self.states or (self.name,)

    @property
    def controls(self) -> Mapping[str, str]:
        """The name of the source of control rows, for each input at which a watermark begins."""
        if len(self.watermark_inputs) == 1:
            return dict.fromkeys(self.watermark_inputs, CONTROL_SOURCE)
        return {gate: f"{CONTROL_SOURCE}_{gate.replace('.', '__')}" for gate in self.watermark_inputs}

    def feeding(self, topology: Topology) -> Mapping[str, frozenset[str]]:
        """The sources whose rows reach each input at which a watermark begins."""
        found = {side.gate: topology.ancestors(name) | {name} for side, name in self._inputs(topology)}
        return {gate: found[gate] & frozenset(self.sources) for gate in self.watermark_inputs}

    def sides(self, topology: Topology) -> tuple[Side, ...]:
        """The inputs at which a watermark begins."""
        return tuple(side for side, _ in self._inputs(topology) if side.gate in self.watermark_inputs)

    def time_fields(self, topology: Topology) -> tuple[str, ...]:
        """The fields with the event times by which a watermark begins."""
        return tuple(dict.fromkeys(side.time_field for side in self.sides(topology) if side.time_field is not None))

    def _inputs(self, topology: Topology) -> Iterator[tuple[Side, str]]:
        for node in map(topology.__getitem__, self.watermark_steps):
            if isinstance(node, TimedState):
                yield from inputs_of(node)

    def late_steps(self, topology: Topology) -> frozenset[str]:
        """The steps whose late rows a sink gets."""
        return frozenset(step for name in self.late for step in topology[name].inputs)

    def judging(self, topology: Topology) -> tuple[Source, ...]:
        """The sources whose strictest policy decides about records without event time or key.

        Rows of a durable shuffle may have come from any of the pipeline.
        """
        own = tuple(source for source in topology.origins if source.name in self.sources)
        return own if len(own) == len(self.sources) else topology.origins

    def follows_state(self, topology: Topology, name: str) -> bool:
        """Whether the rows of step `name` have passed a stateful step in this query."""
        return not topology.ancestors(name).isdisjoint(self.watermark_steps)

    def shared(self, topology: Topology) -> frozenset[str]:
        """The steps that reject the same records in an earlier query, which counts them and writes their dead letters.

        Steps in SQL do not count: Spark computes only what a query needs, so a record may fail in one query alone.
        """
        nodes = (topology[name] for name in self.shared_nodes)
        judging = (Expect, TableVersions)
        return frozenset(
            node.name for node in nodes if node.family != "step" or isinstance(node, judging) or calls_python(node)
        )

    def batch_nodes(self, topology: Topology) -> tuple[Node, ...]:
        """The nodes that are applied to each batch, inputs first."""
        return tuple(
            topology[n] for n in self.nodes if self.streaming_output in topology.ancestors(n) and n not in self.late
        )

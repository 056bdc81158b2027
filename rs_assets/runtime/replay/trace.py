"""Follows one record of a batch through the steps: which of them passed it on, refused it, dropped it or kept it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rs_assets.common.node import Node
from rs_assets.compile.source import POISON
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.operators.window.assign import last_end
from rs_assets.records.admit import refusing_step, step_of
from rs_assets.records.columns import LINE, PASSED, REASON, SPLIT, visible
from rs_assets.records.poison import digest
from rs_assets.records.policy import BadRecords
from rs_assets.runtime.replay.refused_rows import RefusedRows
from rs_assets.runtime.replay.replay import Replay
from rs_assets.topology.nodes.dim_join import DimJoin
from rs_assets.topology.nodes.distinct import Distinct
from rs_assets.topology.nodes.match import MatchRules
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.nodes.step import Filter, FlatMap, Script, Select
from rs_assets.topology.nodes.window import WindowAggregate

Outcome = Literal["read", "passed", "refused", "dropped", "late", "kept", "written"]
# How many rows of a record are followed through one step.
MOST_ROWS = 1000
# The outcomes with which rows reach the next steps, and the sinks of late rows.
GO_ON: Final[frozenset[Outcome]] = frozenset({"read", "passed"})
LATE: Final[frozenset[Outcome]] = frozenset({"late"})
LAST_END, BY = "_rs_last_end", "_rs_by"

# Why a step passes on no row of those that it got, by its type.
DROPPED: Final[Mapping[type[Node], str]] = MappingProxyType(
    {
        Filter: "its condition is not true: {detail}",
        FlatMap: "it makes no row: {detail}",
        Select: "the label is another than {detail}",
        DimJoin: "no row of the dimension matches",
        MatchRules: "no rule matches",
        Script: "the script drops it",
    }
)
# What follows for a refused record.
REFUSED: Final[Mapping[BadRecords, str]] = MappingProxyType(
    {
        BadRecords.FAIL: "it ends the run",
        BadRecords.SKIP: "it is skipped",
        BadRecords.DEAD_LETTER: "it is a dead letter",
        BadRecords.QUARANTINE: "it is a dead letter",
    }
)


@dataclass(frozen=True, slots=True)
class Found:
    """A record of a source: its place, its text as far as the source has one, and its fields."""

    source: str
    split: str
    line: int
    digest: str
    text: str | None
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepTrace:
    """What a step did with the rows of a record that reached it.

    `rows` are those that left the step, at most MOST_ROWS. `because` is the reason, empty if they were passed on.
    """

    step: str
    outcome: Outcome
    because: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Trace:
    """A record in a replay of its batch, which is limited to that record; `watermark` is the query's newest one.

    `refused` are the rows of the batch that sinks have refused.
    """

    replay: Replay
    record: Found
    watermark: datetime
    refused: RefusedRows = field(default_factory=RefusedRows)

    def steps(self) -> Iterator[StepTrace]:
        """The steps that the record reached, in order, up to the first state of each way."""
        plan, topology = self.replay.plan, self.replay.topology
        done: dict[str, tuple[StepTrace, ...]] = {}
        for name in plan.nodes:
            node = topology[name]
            goes_on = LATE if name in plan.late else GO_ON
            came = [each for above in node.inputs for each in done.get(above, ()) if each.outcome in goes_on]
            after_state = plan.follows_state(topology, name) and name not in plan.watermark_steps
            if not (came or name == self.record.source) or (after_state and name not in plan.late):
                continue
            done[name] = tuple(self._into(node, came) if isinstance(node, Sink) else self._at(node))
            yield from done[name]

    def _at(self, node: Node) -> Iterator[StepTrace]:
        refused = self._refused.get(node.name, ())
        yield from (StepTrace(node.name, "refused", because) for because in refused)
        if node.name in self.replay.plan.watermark_steps:
            yield from self._kept(node)
        elif rows := tuple(map(_shown, self._of(self.replay.wired.flows[node.name].df))):
            yield StepTrace(node.name, "read" if isinstance(node, Source) else "passed", rows=rows)
        elif not refused:
            because = DROPPED.get(type(node), "it makes no row").format(detail=node.detail())
            yield StepTrace(node.name, "dropped", because)

    def _kept(self, node: Node) -> Iterator[StepTrace]:
        """What a step with state did with its rows: those that came late, and those that it has taken."""
        came_late = self.replay.wired.late_rows.get(node.name)
        late = [] if came_late is None else self._of(_with_end(node, came_late))
        yield from (StepTrace(node.name, "late", _past(node, row), (_shown(row),)) for row in late)
        # As texts: NaN is unequal to itself.
        left = [repr(_shown(row)) for row in late]
        for row in self._of(_with_end(node, self.replay.wired.flows[node.name].df)):
            if (text := repr(_shown(row))) in left:
                left.remove(text)
            else:
                yield StepTrace(node.name, "kept", self._until(node, row), (_shown(row),))

    def _until(self, node: Node, row: Mapping[str, Any]) -> str:
        """Where a row is in the state of `node`, and for windows whether the last one has closed."""
        end = row.get(LAST_END)
        if isinstance(node, Distinct):
            return (
                f"in its state, and dropped if an earlier row has equal {', '.join(node.fields)} within {node.within}"
            )
        if end is None:
            return "in its state"
        now = self.replay.reaching(node.name, self.watermark)
        state = "closed" if end <= now else "open"
        return f"in {_window(node)} {_time(end)}, {state}: the watermark is {_time(now)}"

    def _into(self, sink: Node, came: Sequence[StepTrace]) -> Iterator[StepTrace]:
        """The rows that a sink gets: those that its system has refused, and those that it has written."""
        to = "the shuffle" if isinstance(sink, ShuffleWrite) else sink.detail() or sink.kind
        judged = [(row, self.refused.reason(sink.name, row)) for each in came for row in each.rows]
        for row, because in judged:
            if because is not None:
                yield StepTrace(sink.name, "refused", f"{because}; {REFUSED[BadRecords.DEAD_LETTER]}", (row,))
        written = tuple(row for row, because in judged if because is None)
        if written or not judged:
            yield StepTrace(sink.name, "written", f"to {to}", written)

    @cached_property
    def _refused(self) -> Mapping[str, list[str]]:
        """The reasons for which steps refused rows of the record, by step."""
        found: dict[str, list[str]] = {}
        for dead in self.replay.wired.dead:
            then = REFUSED[self.replay.policy_of(dead.step)]
            # Fused steps share a gate; the reason names the step that raised. A poison does not leave its source.
            source = dead.step.removesuffix(POISON)
            by = refusing_step(step_of(dead.step)) if source == dead.step else F.lit(source)
            for row in self._of(dead.rows.withColumn(BY, by)):
                found.setdefault(row[BY], []).append(f"{row[REASON]}; {then}")
        return found

    def _of(self, rows: DataFrame) -> list[Mapping[str, Any]]:
        """The rows that come from the record."""
        own = rows.filter((F.col(SPLIT) == self.record.split) & (F.col(LINE) == self.record.line))
        found: list[Mapping[str, Any]] = own.limit(MOST_ROWS).toArrow().to_pylist()
        return found


def limited_to(record: Found, *, whole_splits: bool) -> Callable[[Source, DataFrame], DataFrame]:
    """The rows of each source that a replay for `record` reads: that record; with `whole_splits` all of its source.

    By the progress of its split a record may be late because of records before it. Those have no LINE.
    """

    def only(source: Source, rows: DataFrame) -> DataFrame:
        if source.name != record.source:
            return rows.filter(F.lit(False))  # noqa: FBT003
        # Files of one name in several folders are one split.
        placed = (F.col(SPLIT) == record.split) & (F.col(LINE) == record.line)
        same = placed & (digest(rows) == record.digest)
        return rows.withColumn(LINE, F.when(same, F.col(LINE))) if whole_splits else rows.filter(same)

    return only


def _with_end(node: Node, rows: DataFrame) -> DataFrame:
    """`rows` with the end of the last window of each, if windows of `node` end by the watermark."""
    if not isinstance(node, WindowAggregate) or node.window.endless or node.window.in_order:
        return rows
    return rows.withColumn(LAST_END, last_end(node.window))


def _window(node: Node) -> str:
    merges = isinstance(node, WindowAggregate) and node.window.merges
    return "a session that lasts at least until" if merges else "a last window that ends at"


def _past(node: Node, row: Mapping[str, Any]) -> str:
    end, passed = row.get(LAST_END), row[PASSED]
    # By record, a session takes no row whose own time has passed.
    said = f"{_window(node)} {_time(end)}" if end is not None and end <= passed else "its time had passed"
    return f"{said}; the watermark was {_time(passed)}"


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in visible(list(row))}


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".")

"""A pipeline of one's own over the same rows in several ways: what differs, and which step is the cause."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal
from uuid import uuid4

from rs_assets.common.names import one_or_more
from rs_assets.common.node import Node
from rs_assets.common.plural import count_of
from rs_assets.connectors.console.nodes import PrintSink
from rs_assets.connectors.memory import Record
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import ConfigurationError, RsError, TopologyError
from rs_assets.records.columns import ORDER, visible
from rs_assets.runtime.capture.values import rounded
from rs_assets.runtime.run.preview import preview
from rs_assets.runtime.run.rows import computed
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.pipeline import Pipeline
from rs_assets.testing.driver import PipelineDriver
from rs_assets.testing.rows import SINK, given_rows
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology
from rs_assets.topology.updates import UPSERTS, Upserting

Rows = Sequence[Mapping[str, Any]]
Way = Literal["again", "restarted", "other batches", "one batch", "other order"]
# Ways in which every pipeline gives the same rows, if its functions are deterministic and keep nothing in the process.
ALWAYS: Final[tuple[Way, ...]] = ("again", "restarted")
WAYS: Final[tuple[Way, ...]] = (*ALWAYS, "other batches", "one batch", "other order")
# Fields with the time of the clock at which a window was emitted.
CLOCK: Final = ("fire_time",)
# The variable by which processes of Python are other ones than before.
FRESH: Final = "RS_CHECKED"
# How many rows of each side are shown.
SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFinding:
    """Rows of a sink that differ if the input is processed in another `way`.

    `missing` and `added` count rows of the first run that the other one lacks, and the reverse; `examples` are the
    first of each. `late` are the late rows of both runs. `step` is the first step without state whose rows differ when
    it is computed twice, None if there is none. `error` is the error of the other run, which then has no rows.
    """

    way: Way
    sink: str
    missing: int = 0
    added: int = 0
    examples: tuple[str, ...] = ()
    late: tuple[int, int] = (0, 0)
    step: str | None = None
    error: str = ""

    @property
    def wrong(self) -> bool:
        """Whether no correct pipeline has it: equal batches gave other rows, or an error."""
        return self.way in ALWAYS or bool(self.error)

    def __str__(self) -> str:
        """A line with the numbers, one with the cause, and one for each example.

        >>> print(PipelineFinding(way="one batch", sink="totals", missing=1, examples=("- {'n': 2}",), late=(1, 0)))
        one batch: totals has 0 rows more and 1 fewer
          late rows: 1, then 0: a longer water_mark makes results independent of batches
          - {'n': 2}
        """
        if self.error:
            return f"{self.way}: {self.error}"
        lines = [f"{self.way}: {self.sink} has {count_of(self.added, 'row')} more and {self.missing:,} fewer"]
        before, after = self.late
        if before != after:
            lines.append(f"late rows: {before}, then {after}: a longer water_mark makes results independent of batches")
        if self.step:
            lines.append(f"step {self.step!r} gives other rows if it is computed twice")
        return "\n  ".join([*lines, *self.examples])


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCheck:
    """What differed, by way and sink; `rows` are those of each sink in the first run, `ways` the others that ran."""

    ways: tuple[Way, ...]
    rows: Mapping[str, int]
    findings: tuple[PipelineFinding, ...] = ()

    @property
    def wrong(self) -> tuple[PipelineFinding, ...]:
        """The findings that no correct pipeline has."""
        return tuple(finding for finding in self.findings if finding.wrong)

    def __str__(self) -> str:
        """A line for what ran, and the findings."""
        rows = ", ".join(f"{name} {count:,}" for name, count in self.rows.items())
        ran = f"rows: {rows}; the same {', '.join(way for way in self.ways if way not in self._differing())}"
        return "\n".join([ran, *map(str, self.findings)])

    def _differing(self) -> set[Way]:
        return {finding.way for finding in self.findings}


def check_pipeline(
    pipeline: Pipeline,
    rows: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
    *,
    batches: int = 4,
    ways: Sequence[Way] = WAYS,
    seed: int = 1,
    ignore: Collection[str] = CLOCK,
    spark: SparkDriver | None = None,
) -> PipelineCheck:
    """Run a pipeline over the same rows in several ways, on real Spark, and compare the rows of its sinks.

    Typical uses: a test of functions of one's own, before a pipeline is trusted with data. Sources become memory
    channels, sinks collect rows, and the input ends. Each way takes some seconds. TopologyError without rows; the
    error of the first run is raised, that of another one is a finding.

    | way | what differs from the first run | a difference means |
    |---|---|---|
    | again | nothing | a function is not deterministic: a repeated batch would write other rows |
    | restarted | queries and processes start again before each batch | a function keeps something in the process |
    | other batches | the rows are cut in other places | late rows, or results for each batch, such as updates |
    | one batch | all rows at once | the same |
    | other order | the rows within each batch | a function or an aggregate takes the first or last row |

    The first two are `wrong`; whether the others are depends on what is promised. In these the rows that are there at
    the end are compared: of a sink that replaces rows by key the newest of each key, of a complete one the last
    windows. Floating-point numbers are compared to twelve digits. Fields of the clock, such as that of `now()`, differ
    in each run: leave them out by `ignore`.

    - `rows` (rows, or a dict of them by source; default: those of the arrays).
    - `batches` (int, default 4): in how many batches they come.
    - `ways` (default: all).
    - `seed` (int, default 1): chooses cuts and orders.
    - `ignore` (names of fields, default `fire_time`, which is by the clock): they are not compared.
    - `spark` (SparkDriver, default: the process's own).

    >>> from rs_assets import StreamBuilder
    >>> hits = StreamBuilder.data_stream("shop", "checked").from_file("hits.jsonl", schema="id int, ms int")
    >>> pipeline = hits.filter("ms > 100").to_print(name="slow").build()
    >>> print(check_pipeline(pipeline, [{"id": n, "ms": 60 * n} for n in range(5)], ways=["again", "one batch"]))
    rows: slow 3; the same again, one batch
    """
    unknown = sorted(set(ways) - set(WAYS))
    if unknown:
        raise ConfigurationError(f"a way must be one of {', '.join(WAYS)}, not {unknown[0]!r}")
    given, chance = given_rows(pipeline.topology, rows), random.Random(seed)  # noqa: S311  not for secrets
    trial = _Trial(pipeline, spark or SparkDriver.shared(), frozenset(one_or_more(ignore)))
    cuts = _cut(given, batches, None)
    first = trial.run(cuts)
    plans: Mapping[Way, Callable[[], _Outcome]] = {
        "again": lambda: trial.run(cuts),
        "restarted": lambda: trial.run(cuts, restart=True),
        "other batches": lambda: trial.run(_cut(given, batches, chance)),
        "one batch": lambda: trial.run([given]),
        "other order": lambda: trial.run([_shuffled(batch, chance) for batch in cuts]),
    }
    found = [finding for way in WAYS if way in ways for finding in trial.compared(way, first, plans[way], given)]
    sums = {name: sum(map(len, rows)) for name, rows in first.rows.items()}
    return PipelineCheck(ways=tuple(way for way in WAYS if way in ways), rows=sums, findings=tuple(found))


def sample(pipeline: Pipeline, records: int, spark: SparkDriver | None = None) -> Mapping[str, list[Record]]:
    """The first `records` of each source that ends or is a file or a table; TopologyError for other sources."""
    topology, spark = pipeline.topology, spark or SparkDriver.shared()

    def first(source: Source) -> list[Record]:
        try:
            return preview(_ending_in(topology, source), records, spark)[SINK]
        except TopologyError as error:
            raise TopologyError(
                error.what,
                remedy=f"give records of it: check_pipeline(pipeline, {{{source.name!r}: [...]}}), or by the command:"
                f" --rows {source.name}=records.jsonl",
                step=source.name,
            ) from error

    return {source.name: first(source) for source in topology.origins}


# The rows of each source, by its name; one for each batch.
Given = Mapping[str, Rows]


def _cut(given: Given, batches: int, chance: random.Random | None) -> list[Given]:
    """The rows of each source in so many batches: of equal size, or cut anywhere."""
    if batches < 1:
        raise ConfigurationError(f"batches must be at least 1, not {batches}")

    def ends(rows: Rows) -> list[int]:
        if chance is None:
            return [len(rows) * number // batches for number in range(batches + 1)]
        return [0, *sorted(chance.randint(0, len(rows)) for _ in range(batches - 1)), len(rows)]

    at = {name: ends(rows) for name, rows in given.items()}
    return [{name: rows[at[name][n] : at[name][n + 1]] for name, rows in given.items()} for n in range(batches)]


def _shuffled(batch: Given, chance: random.Random) -> Given:
    return {name: chance.sample(list(rows), len(rows)) for name, rows in batch.items()}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The rows of each sink, batch by batch, and the number of late rows."""

    rows: Mapping[str, list[list[Record]]]
    late: int


@dataclass(frozen=True, slots=True)
class _Trial:
    """Runs of one pipeline."""

    pipeline: Pipeline
    spark: SparkDriver
    ignored: frozenset[str]

    def run(self, batches: Sequence[Given], *, restart: bool = False) -> _Outcome:
        """One run over `batches`, to the end of all windows."""
        sinks = [each for each in self.pipeline.topology.sinks if not isinstance(each, ShuffleWrite)]
        rows: dict[str, list[list[Record]]] = {sink.name: [] for sink in sinks}
        late = 0
        with (
            self._processes(fresh=restart),
            PipelineDriver(self.pipeline, spark=self.spark, arrays=False) as driver,
        ):
            for number, batch in enumerate(batches):
                if restart and number:
                    late += driver.report().rows_late
                    self._forget()
                    driver.restart()
                for name, pushed in batch.items():
                    driver.push(pushed, name)
                driver.step()
                self._take(driver, rows)
            driver.finish()
            self._take(driver, rows)
            return _Outcome(rows, late + driver.report().rows_late)

    @contextmanager
    def _processes(self, *, fresh: bool) -> Iterator[None]:
        """With `fresh` processes of Python of its own for a run."""
        if fresh:
            self._forget()
        try:
            yield
        finally:
            self.spark.call(lambda spark: spark.sparkContext.environment.pop(FRESH, None))

    def _forget(self) -> None:
        """Let the next queries start new processes of Python: modules in earlier ones may have kept something.

        Spark keeps its processes, and distinguishes them by their environment.
        """
        self.spark.call(lambda spark: spark.sparkContext.environment.update({FRESH: uuid4().hex}))

    def _take(self, driver: PipelineDriver, rows: Mapping[str, list[list[Record]]]) -> None:
        """Add what each sink got since the last time, without the fields that are not compared."""
        for name, batches in rows.items():
            taken = driver.take(name)
            batches.append([{k: value for k, value in row.items() if k not in self.ignored} for row in taken])

    def compared(self, way: Way, first: _Outcome, run: Callable[[], _Outcome], given: Given) -> list[PipelineFinding]:
        """What differs in another run."""
        try:
            other = run()
        except RsError as error:
            return [PipelineFinding(way=way, sink="", error=str(error))]
        sinks = [each for each in self.pipeline.topology.sinks if each.name in first.rows]
        found = [_difference(way, sink, first, other) for sink in sinks]
        return [self._with_cause(each, given) for each in found if each is not None]

    def _with_cause(self, found: PipelineFinding, given: Given) -> PipelineFinding:
        if found.way not in ALWAYS:
            return found
        return replace(found, step=self._unsteady(found.sink, given))

    def _unsteady(self, sink: str, given: Given) -> str | None:
        """The first step upstream of a sink, without state before it, that gives other rows if it is computed twice."""
        topology = self.pipeline.topology
        for node in topology:
            if node.name not in topology.ancestors(sink) or isinstance(node, Source):
                continue
            part = _ending_in(topology, node)
            if any(step.stateful or isinstance(step, VersionedTable | ShuffleRead) for step in part):
                continue
            rows = {source.name: given[source.name] for source in part.sources}
            try:
                once, twice = (Counter(map(_text, computed(self.spark, part, rows))) for _ in range(2))
            except RsError:
                # It has not failed in the first run.
                return node.name
            if once != twice:
                return node.name
        return None


def _ending_in(topology: Topology, node: Node) -> Topology:
    """The part of a topology up to a step, whose rows come to SINK."""
    names = {*topology.ancestors(node.name), node.name}
    end = PrintSink(name=SINK, inputs=(node.name,))
    return Topology(topology.namespace, topology.job, (*(each for each in topology if each.name in names), end))


def _difference(way: Way, sink: Sink, first: _Outcome, other: _Outcome) -> PipelineFinding | None:
    one, two = (_compared(sink, each.rows[sink.name], whole=way in ALWAYS) for each in (first, other))
    missing, added = one - two, two - one
    if not missing and not added:
        return None
    examples = [f"{sign} {text}" for sign, rows in (("-", missing), ("+", added)) for text in sorted(rows)[:SHOWN]]
    return PipelineFinding(
        way=way,
        sink=sink.name,
        missing=missing.total(),
        added=added.total(),
        examples=tuple(examples),
        late=(first.late, other.late),
    )


def _compared(sink: Sink, batches: Sequence[Sequence[Record]], *, whole: bool) -> Counter[str]:
    """The rows of a sink as text: all of them, or of one whose rows replace others those that are there at the end."""
    mode = getattr(sink, "mode", None)
    if not whole and mode == "complete":
        # Each batch has all windows.
        return Counter({_text(row): 1 for row in next((rows for rows in reversed(batches) if rows), ())})
    if not whole and mode != "history" and isinstance(sink, UPSERTS) and sink.keys:
        return Counter(map(_text, _kept(sink, batches)))
    return Counter(_text(row) for rows in batches for row in rows)


def _kept(sink: Upserting, batches: Sequence[Sequence[Record]]) -> Iterable[Record]:
    """The row of each key that a sink keeps: the newest by its order, else the last one."""
    kept: dict[str, Record] = {}
    for rows in batches:
        for row in sorted(rows, key=partial(_age, sink)):
            key = _text({name: row.get(name) for name in sink.keys})
            before = kept.get(key)
            if before is not None and _rank(before, sink.order_by) > _rank(row, sink.order_by):
                continue
            kept.pop(key, None)
            if not (sink.flag and row.get(sink.flag)):
                kept[key] = row
    return kept.values()


def _age(sink: Upserting, row: Record) -> list[Any]:
    """What the rows of a batch are sorted by: the newest last; without an order a row wins over one that deletes it."""
    by = (*sink.order_by, *(name for name in ORDER if name in row))
    return _rank(row, by) if by else [not (sink.flag and row.get(sink.flag))]


def _rank(row: Record, by: Sequence[str]) -> list[Any]:
    """Values that can be compared: null before all, NaN after all."""
    values = [row.get(name) for name in by]
    # Only NaN is not equal to itself.
    return [(value is not None, value != value, value if value == value else 0) for value in values]  # noqa: PLR0124


def _text(row: Mapping[str, Any]) -> str:
    """A row as text, without hidden columns; of equal rows the same, with floating-point numbers to twelve digits."""
    return repr({name: rounded(row[name]) for name in sorted(visible(list(row)))})

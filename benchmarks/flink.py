"""Nexmark's queries beside Flink: whole runs over the same files in turns, in a warm session and a warm Java.

Both read the same lines of JSON with two threads, keep state on disk and write what does not change: ours into a Delta
table, Flink into JSON files. What changes ours merges into a Delta table, and Flink hands to `blackhole`.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import Figure, Taken, timed
from benchmarks.nexmark import Measured, sizes
from benchmarks.peers import flink
from benchmarks.peers.flink import Flink
from benchmarks.peers.flink_events import deal
from benchmarks.peers.flink_sql import BY_CLOCK, CHANGING, DIFFERS, FlinkSql
from benchmarks.peers.peer import PeerError
from pipelines.nexmark.queries import QUERIES

NAME = f"Nexmark beside Flink {flink.VERSION}"
NONE = "-"
MOST_PAIRS, MOST_WARM_UPS = 3, 2
# Of what a failed job says, in letters: its first causes.
TOLD = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A Flink that runs, or why there is none."""

    running: Flink | None = None
    lacking: str = ""

    @classmethod
    def start(cls, stack: ExitStack, scratch: Path) -> Peer:
        """Install it if need be, and start it."""
        try:
            return cls(running=stack.enter_context(Flink(flink.install(), scratch)))
        except PeerError as error:
            return cls(lacking=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """What the measured runs of a query took; none of Flink's where it is left out, and `why`."""

    measured: Measured
    rows: int
    ours: tuple[Taken, ...]
    flinks: tuple[Taken, ...]
    why: str = ""

    def figure(self) -> Figure:
        """The ratio of medians of seconds, or our rows a second without Flink."""
        query, events, state = self.measured.query, self.measured.events, self.measured.state
        seconds, cpu_s = _medians(self.ours)
        theirs = _medians(self.flinks) if self.flinks else None
        cells = {
            "query": query,
            "ours, rows/s": f"{events / seconds:,.0f}",
            "rows of state": f"{state.rows:,}",
            "MB of state": f"{state.size / 1e6:.1f}",
            "Flink, rows/s": f"{events / theirs[0]:,.0f}" if theirs else NONE,
            "seconds": f"{seconds / theirs[0]:.2f} x" if theirs else NONE,
            "processor time": f"{cpu_s / theirs[1]:.2f} x" if theirs else NONE,
            "rows out": f"{self.rows:,}",
            "what differs": "; ".join(filter(None, (DIFFERS.get(query, ""), self.why))),
        }
        note = "; ".join(f"{name}: {cell}" for name, cell in cells.items() if cell and name != "query")
        return Figure(
            benchmark=NAME,
            what=f"{query}: a run, against Flink" if theirs else f"{query}: ours alone",
            value=seconds / theirs[0] if theirs else events / seconds,
            unit="x" if theirs else "rows/s",
            note=note,
            cells=tuple(cells.items()),
        )


def flink_figures(bench: Bench) -> Iterator[Figure]:
    """A figure for each query; ours alone where Flink cannot be had."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=bench.folder)))
        bench.say(f"Flink {flink.VERSION}: making its environment")
        peer = Peer.start(stack, scratch)
        for query in QUERIES:
            if not bench.queries or query in bench.queries:
                bench.say(f"{NAME}: {query}")
                # Flink lets all windows fire when its input ends.
                yield _both(replace(sizes(bench, query)[0], finish=True), peer, scratch).figure()


def _both(measured: Measured, peer: Peer, scratch: Path) -> Both:
    """Run both in turns, behind a warm-up that looks whether their rows are equal."""
    bench, flinks, why, rows = measured.bench, None, peer.lacking, 0
    if peer.running is not None:
        flinks = Theirs(query=measured.query, events=measured.folder, flink=peer.running, scratch=scratch)
    for _ in range(min(max(bench.warm_up, 1), MOST_WARM_UPS)):
        rows = measured.ours()
        if flinks is not None and (why := flinks.refusal(rows)):
            flinks = None
    try:
        ours, theirs = in_turns(measured, flinks)
    except PeerError as error:
        why = _failed(error)
        ours, theirs = in_turns(measured, None)
    return Both(measured=measured, rows=rows, ours=ours, flinks=theirs, why=why)


def in_turns(measured: Measured, flinks: Theirs | None) -> tuple[tuple[Taken, ...], tuple[Taken, ...]]:
    """The measured runs of ours, and of Flink's if there is one; who goes first changes with each pair."""
    ours, theirs = list[Taken](), list[Taken]()
    for number in range(min(measured.bench.pairs, MOST_PAIRS)):
        if flinks is not None and number % 2:
            theirs.append(flinks.run()[0])
        ours.append(timed(measured.ours)[0])
        if flinks is not None and not number % 2:
            theirs.append(flinks.run()[0])
    return tuple(ours), tuple(theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """One query in a running Flink."""

    query: str
    events: Path
    flink: Flink
    scratch: Path

    def run(self) -> tuple[Taken, int | None]:
        """What a whole job took, and the rows that it wrote; None where they change."""
        rows = self.scratch / "rows"
        sql = self._sql(rows)
        try:
            ran = self.flink.run(sql.prepare, sql.insert)
            return Taken(seconds=ran.seconds, cpu_s=ran.cpu_s), None if self.query in CHANGING else lines_below(rows)
        finally:
            shutil.rmtree(rows, ignore_errors=True)

    def refusal(self, ours: int) -> str:
        """Why it cannot be compared with our run that has so many rows, by a run that is not measured; else empty."""
        try:
            rows = self.run()[1]
            if rows is None:
                sql = self._sql(self.scratch / "rows")
                # Flink gives no count of nothing.
                rows = self.flink.run(sql.prepare, sql.count).value or 0
        except PeerError as error:
            return _failed(error)
        same = rows == ours or self.query in BY_CLOCK
        return "" if same else f"not compared: our run has {ours:,} rows, Flink's {rows:,}"

    def _sql(self, rows: Path) -> FlinkSql:
        dealt = self.scratch / self.events.name
        events = dealt if dealt.exists() else deal(self.events, dealt, files=flink.PARALLELISM)
        return FlinkSql.of(self.query, events=events, rows=rows)


def lines_below(folder: Path) -> int:
    """The lines of the files that Flink has committed; those that it has not are hidden."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    total = 0
    for path in files:
        with path.open("rb") as file:
            total += sum(1 for _ in file)
    return total


def _failed(error: PeerError) -> str:
    return f"Flink: {error}"[:TOLD]


def _medians(runs: tuple[Taken, ...]) -> tuple[float, float]:
    return statistics.median(run.seconds for run in runs), statistics.median(run.cpu_s for run in runs)

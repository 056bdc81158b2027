"""One history: what is known of the pipeline so far, and what must hold after each thing that people do."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rs_assets.errors import RsError
from rs_assets.runtime.report import BatchProgress
from rs_assets.runtime.run.running import RunningPipeline
from tests.torture.gate import Gate
from tests.torture.model import STRICT, Copy, Row, Windows, difference, record, too_strict
from tests.torture.site import COPY, WINDOWS, Site

Deed = Callable[[], object]


class Finding(Exception):
    """The output is not what it must be, or a refusal has changed something, or nothing helps any more."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a query's table held behind a batch, and what the query had read then; None for what nobody saw."""

    rows: tuple[Row, ...] | None
    read: Copy | Windows | None


UNKNOWN = Known(None, None)
EMPTY: Mapping[str, Known] = {COPY: Known((), Copy()), WINDOWS: Known((), Windows())}
# The batches of one line of generations, with what was seen behind each.
Trail = dict[int, Known]


@dataclass(frozen=True, slots=True)
class Saved:
    """A savepoint, with all that was known when it was taken."""

    id: str
    trails: Mapping[str, Trail]
    now: Mapping[str, Known]
    sources: tuple[str, ...]
    names: Mapping[str, str]
    unseen: frozenset[str]


@dataclass(slots=True)
class History:
    """What was done to a site and what is known of it; `now` is what both queries' tables must hold."""

    site: Site
    gate: Gate | None
    chance: random.Random
    now: dict[str, Known] = field(default_factory=lambda: dict(EMPTY))
    trails: dict[str, Trail] = field(default_factory=lambda: {COPY: {}, WINDOWS: {}})
    saved: list[Saved] = field(default_factory=list)
    # How many changes of files an action makes, as seen when it was done the last time.
    changes: dict[str, int] = field(default_factory=dict)
    # The sources of runs that were killed since one ended: nobody knows which batches are there, and how far they read.
    unseen: frozenset[str] = frozenset()
    # Whether the newest upload is that of the outputs: a run has ended, and nobody has gone back since.
    uploaded: bool = False
    # Records were refused by strict code, or forgotten: a table does not hold just what its query has read.
    mixed: bool = False
    # Dead letters went with a home that was lost.
    letters_lost: bool = False
    # The queries of a new generation that have written no row: until then a table has those of the former one, which a
    # rewind removes.
    former: set[str] = field(default_factory=set)
    forks: int = 0
    steps: int = 0
    told: list[str] = field(default_factory=list)

    # What is done.

    def run(self, *, finish: bool = False, **options: object) -> None:
        """Process what is there; right or refused."""
        made = replace(self.site.options, on_progress=self.saw, **options)  # type: ignore[arg-type]
        self.site.pipeline().run(made, finish=finish)

    def stream(self, *, meanwhile: Deed = lambda: None) -> None:
        """Start, process what is there, let something happen, process that, stop."""
        running = self.site.pipeline().start(replace(self.site.options, on_progress=self.saw_streaming))
        try:
            process_all(running)
            meanwhile()
            process_all(running)
        finally:
            running.stop()

    def saw(self, progress: BatchProgress) -> None:
        """Note what a batch has left in the query's table; called by the run behind each batch."""
        query = self._query(progress)
        if any(progress.rows_out.values()):
            self.former.discard(query)
        held = None if query in self.former else tuple(self.site.held_by(query))
        self.trails[query][progress.batch_id] = Known(held, self._all_read(query))

    def saw_streaming(self, progress: BatchProgress) -> None:
        """The same while the input grows: what was read is not known."""
        query = self._query(progress)
        self.trails[query][progress.batch_id] = Known(tuple(self.site.held_by(query)), None)

    def _query(self, progress: BatchProgress) -> str:
        return WINDOWS if progress.query == self.site.code.names["window"] else COPY

    def _all_read(self, query: str) -> Copy | Windows | None:
        """What a query has read once it has caught up with the sources of today."""
        read, there = self.now[query].read, self.site.input.of(self.site.code.sources)
        if self.unseen - {*self.site.code.sources}:
            return None
        if isinstance(read, Windows):
            return read.read(there)
        if read is not None:
            return read.read(there, strict=self.site.code.usual == STRICT)
        # Behind what nobody saw: known again once every source is read.
        return Copy(there) if query == COPY and self._every_source and not self.mixed else None

    @property
    def _every_source(self) -> bool:
        return {*self.site.input.numbers} <= {*self.site.code.sources}

    # What must hold.

    def caught_up(self, *, finished: bool = False) -> None:
        """A run has ended: the outputs are those of all input that it could read."""
        windows = self._all_read(WINDOWS)
        if finished and isinstance(windows, Windows):
            windows = windows.finished()
        copy = self._all_read(COPY)
        wanted = {}
        if isinstance(copy, Copy):
            wanted[COPY] = copy.rows
        if isinstance(windows, Windows):
            wanted[WINDOWS] = windows.closed
        self.expect(wanted, "behind a run")
        self._check_letters(copy, windows)
        held, self.unseen, self.uploaded = self.site.held(), frozenset(), self.site.uploaded
        self.now = {COPY: Known(tuple(held[COPY]), copy), WINDOWS: Known(tuple(held[WINDOWS]), windows)}

    def _check_letters(self, copy: Copy | Windows | None, windows: Copy | Windows | None) -> None:
        sources = self.site.code.sources
        held, wanted = Counter(self.site.held()["letters"]), Counter(self.site.input.letters(sources))
        known = Counter(self.site.input.letters(self.site.input.bad))
        refused = copy.refused if isinstance(copy, Copy) else ()
        wanted.update((record(number),) for number in refused)
        known.update((record(number),) for number in refused or filter(too_strict, self.site.input.of("ab")))
        if isinstance(windows, Windows):
            # As are rows of a source that came back behind a new generation which began without it.
            known.update((record(number),) for number in self.site.input.of(sources) - windows.taken)
        lost = wanted - held if not self.letters_lost else Counter()
        if lost or held - known:
            raise Finding(f"dead letters: missing are {[*lost][:3]}, too much is {[*(held - known)][:3]}")

    def went_back(self, query: str, known: Known, trail: Trail) -> None:
        """A query stands at an earlier batch: its table holds what it held then."""
        if known.rows is not None:
            self.expect({query: list(known.rows)}, "behind going back")
        self.uploaded = False
        self.now[query] = replace(known, rows=tuple(self.site.held_by(query)))
        self.trails[query] = dict(trail)

    def settled(self) -> bool:
        """Process what is there; whether it is known then what both queries have read."""
        self.run()
        self.caught_up()
        return not self.unseen and None not in (self.now[COPY].read, self.now[WINDOWS].read)

    def redriven(self) -> None:
        """The records that were refused are rows of the copy, as of its last batch."""
        copy = self.now[COPY].read
        assert isinstance(copy, Copy)
        self.expect({COPY: copy.redriven().rows}, "behind a redrive")
        self._check_letters(copy.redriven(), self.now[WINDOWS].read)
        now = Known(tuple(self.site.held_by(COPY)), copy.redriven())
        self.now[COPY] = self.trails[COPY][max(self.trails[COPY], default=-1)] = now

    def forgot(self, page: str) -> None:
        """The records of a page that were read are gone, and no way leads to a batch before."""
        copy, windows = self.now[COPY].read, self.now[WINDOWS].read
        assert isinstance(copy, Copy)
        assert isinstance(windows, Windows)
        copy, windows = copy.without(page), windows.without(page)
        self.expect({COPY: copy.rows, WINDOWS: windows.closed}, "behind forgetting")
        self._check_letters(copy, windows)
        self.mixed, read = True, {COPY: copy, WINDOWS: windows}
        for query, trail in self.trails.items():
            self.now[query] = Known(tuple(self.site.held_by(query)), read[query])
            # The last batch that was seen may be none: a killed run counts as one.
            self.trails[query] = {-1: self.now[query], max(trail, default=-1): self.now[query]}
        self.saved.clear()

    def at(self, query: str, batch: int) -> Known:
        """What is known of a query behind a batch: the last that was seen until then, for others change nothing."""
        seen = [each for each in self.trails[query] if each <= batch]
        return self.trails[query][max(seen)] if seen else EMPTY[query]

    def expect(self, wanted: Mapping[str, list[Row]], when: str) -> None:
        """The outputs hold just that."""
        wrong = difference(self.site.held(), wanted)
        if wrong:
            raise Finding(f"{when}: {wrong}")

    def killed(self) -> None:
        """Whatever was being done was killed: batches may be there that nobody saw."""
        self.unseen |= {*self.site.code.sources}
        for query, trail in self.trails.items():
            trail[max(trail, default=-1) + 1] = UNKNOWN
            self.now[query] = replace(self.now[query], rows=None)
        forget_state(self.site)

    def forgotten(self) -> None:
        """The checkpoints are not those that were seen: all that is known is what was read.

        Of records that were refused not even that: behind a savepoint from before they are read again.
        """
        self.trails = {COPY: {-1: UNKNOWN}, WINDOWS: {-1: UNKNOWN}}
        copy = self.now[COPY].read
        if isinstance(copy, Copy) and copy.refused:
            self.now[COPY] = replace(self.now[COPY], read=None)

    def begun_anew(self) -> None:
        """Nothing that was read counts any more: rows of sources that were taken out go with the rest."""
        self.now, self.unseen, self.former = dict(EMPTY), frozenset(), {COPY, WINDOWS}

    @contextmanager
    def refusable(self) -> Iterator[Refusal]:
        """What is in the block may be refused; then nothing may have changed."""
        before, refusal = self.site.held(), Refusal()
        try:
            yield refusal
        except RsError as error:
            refusal.error = error
            changed = difference(self.site.held(), before)
            if changed:
                raise Finding(f"{type(error).__name__}, but the outputs changed: {changed}\n{error}") from error

    def say(self, text: str) -> None:
        """A line of what was done, for people."""
        self.told.append(text)


@dataclass(slots=True)
class Refusal:
    """Whether something was refused, and how."""

    error: RsError | None = None

    def __bool__(self) -> bool:
        return self.error is not None

    def __str__(self) -> str:
        """The kind of error, and the first line of what it says."""
        return f"{type(self.error).__name__}: {str(self.error).splitlines()[0][:150]}" if self.error else "done"


def process_all(running: RunningPipeline) -> None:
    """Wait until a started pipeline has processed what is there."""
    session = running.session
    session.options.driver.call(lambda _: [query.process_all() for query in session.queries.values()])


def forget_state(site: Site) -> None:
    """Let Spark forget the state stores it has open: what lies at their paths is another by now."""

    def unload(spark: object) -> None:
        spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()  # type: ignore[attr-defined]

    site.driver.call(unload)

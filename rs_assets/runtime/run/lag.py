"""How much input a pipeline has not read, and when it will have read it at its present rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any, Final, Literal

from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.catalog.lease import read_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.held import Hold
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.source import Counting, Lag, Lagging
from rs_assets.runtime.identity import log_of
from rs_assets.runtime.run.durations import Limit, limits_in
from rs_assets.topology.topology import Topology

State = Literal["caught up", "keeping up", "catching up", "growing", "held", "stopped", "unknown"]
# The rate of reading is that of so many newest batches.
BATCHES: Final = 10
# A stream that keeps up has at most the input of so many batches before it.
WAITING: Final = 2
# A later time says nothing.
LONGEST: Final = timedelta(days=365)
PATIENCE: Final = timedelta(seconds=5)
HELD: Final = "held until a table is loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag:
    """The input of one source that a query has not committed at the time `at`, in `unit`s ("records" if it is none).

    `read_per_s` is the rate within the newest batches, a batch that takes longer than all of them included; None before
    the first one, or if the source does not know what a former batch has read. `arriving_per_s` is the rate at which
    input comes, None after a single look. `batch_s` is the mean time of the newest batches, in seconds. `running` is
    whether a driver holds the pipeline and gives signs of life. `wait_s` is the time until it begins a batch, which may
    be its whole interval; 0 while it computes one. `limit` is the part that takes most of a batch of the query, None if
    that is not measured: of a stream that has run for some seconds it is. `held`: it is read after a table.
    """

    source: str
    query: str
    at: datetime
    unread: int
    unit: Literal["records", "bytes"]
    running: bool
    read_per_s: float | None = None
    arriving_per_s: float | None = None
    batch_s: float | None = None
    wait_s: float = 0.0
    limit: Limit | None = None
    held: bool = False

    @property
    def state(self) -> State:
        """Whether the query reaches the end of the source.

        "keeping up" has at most the input of two batches before it, "catching up" reads faster than input comes.
        """
        if not self.unread:
            return "caught up"
        if not self.running:
            return "stopped"
        if self.held:
            return "held"
        if self.read_per_s is None or self.arriving_per_s is None:
            return "unknown"
        if self.read_per_s <= self.arriving_per_s:
            return "growing"
        return "keeping up" if self.unread <= WAITING * self.read_per_s * (self.batch_s or 0) else "catching up"

    @property
    def caught_up_at(self) -> datetime | None:
        """When it will have read all input, at these rates; None if that is unknown, never, or after a year."""
        if self.state not in {"keeping up", "catching up"}:
            return self.at if self.state == "caught up" else None
        arriving = self.arriving_per_s or 0
        seconds = self.wait_s + (self.unread + arriving * self.wait_s) / ((self.read_per_s or 0) - arriving)
        return self.at + timedelta(seconds=seconds) if seconds < LONGEST.total_seconds() else None

    def reached_within(self, limit: timedelta) -> bool:
        """Whether it will have read all input in that time, as far as the rates say."""
        at = self.caught_up_at
        return at is not None and at - self.at <= limit

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {**asdict(self), "state": self.state, "caught_up_at": self.caught_up_at}

    def __str__(self) -> str:
        """In one line.

        >>> at = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
        >>> lag = SourceLag(source="orders", query="total", at=at, unread=90_000, unit="records", running=True)
        >>> print(lag)
        orders: 90,000 records unread, unknown
        >>> print(replace(lag, held=True))
        orders: 90,000 records unread, held until a table is loaded
        >>> print(replace(lag, read_per_s=2000.0, arriving_per_s=500.0, batch_s=2.0))
        orders: 90,000 records unread, reads 2,000/s, 500/s arrive, catching up, caught up at 12:01:00 UTC
        """
        if not self.unread:
            return f"{self.source}: nothing unread"
        rates = ((self.read_per_s, "reads {:,.0f}/s"), (self.arriving_per_s, "{:,.0f}/s arrive"))
        told = [text.format(rate) for rate, text in rates if rate is not None]
        at = [f"caught up at {_clock(self.caught_up_at, self.at)}"] if self.caught_up_at else []
        limit = [] if self.limit is None else [str(self.limit)]
        state = HELD if self.state == "held" else self.state
        return ", ".join([f"{self.source}: {self.unread:,} {self.unit} unread", *told, state, *at, *limit])


def _clock(at: datetime, now: datetime) -> str:
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def lines_of(found: Sequence[SourceLag]) -> list[str]:
    """Each in one line; with its query if several queries read its source."""
    twice = {source for source, count in Counter(each.source for each in found).items() if count > 1}
    return [f"{each.query} of {each}" if each.source in twice else str(each) for each in found]


def lag(topology: Topology, home: Home | None = None, *, over: timedelta = timedelta(0)) -> tuple[SourceLag, ...]:
    """The lag of each query to the end of each of its sources that can say it, by Spark's log; it may run or not.

    With `over` the sources are asked again after that time, which gives the rate at which input comes. Archives and
    sources that end are left out. SourceReadError if a system does not answer.
    """
    home = home or Home.default()
    first = tuple(_looks(topology, home))
    if not over or not any(look.unread.of for look in first):
        return tuple(look.measured() for look in first)
    sleep(over.total_seconds())
    return tuple(_arriving(look, over) for look in first)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A lag in the unit that it has."""

    of: int
    unit: Literal["records", "bytes"]

    @classmethod
    def by(cls, found: Lag) -> _Unread:
        return cls(found.bytes, "bytes") if found.bytes else cls(found.records, "records")


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a source: what was unread after `offset`, the newest committed one.

    Its driver began at `began`, and begins a batch every `interval_s` seconds; 0 if that is not known.
    """

    reader: Lagging
    log: CheckpointLog | None
    source: str
    query: str
    running: bool
    began: datetime | None
    at: datetime
    offset: str | None
    unread: _Unread
    interval_s: float
    limit: Limit | None
    held: bool

    def measured(self) -> SourceLag:
        """With the rate of the newest batches."""
        read, batch_s = _rate(self) if self.log is not None else (None, None)
        return SourceLag(
            source=self.source,
            query=self.query,
            at=self.at,
            unread=self.unread.of,
            unit=self.unread.unit,
            running=self.running,
            read_per_s=read,
            batch_s=batch_s,
            wait_s=_wait(self),
            limit=self.limit,
            held=self.held,
        )


def _looks(topology: Topology, home: Home) -> Iterator[_Look]:
    folder = home.job(topology.namespace, topology.job)
    manifest, lease = manifests.load(folder), read_lease(home.leases, topology.name)
    running = lease is not None and not (lease.free or lease.stale)
    began = lease.acquired_at if lease is not None else None
    desired = read_desired_state(folder)
    streams = running and desired is not None and lease is not None and desired.run_id == lease.run_id
    interval_s = desired.interval_s if streams and desired is not None else 0.0
    limits = limits_in(folder, lease.run_id) if running and lease is not None else {}
    readers: Mapping[str, object] = {s.name: reader_of(s, home) for s in topology.sources if not s.bounded}
    for plan in plan_queries(topology):
        log = log_of(manifest, plan, folder)
        held = Hold(log.folder.parent, plan.held).held(log) if log is not None else frozenset[str]()
        for name in plan.sources:
            reader = readers.get(name)
            if isinstance(reader, Lagging):
                offset = SourceLog(log, name).committed if log is not None else None
                unread = _Unread.by(reader.lag(offset, PATIENCE))
                at, limit = datetime.now(UTC), limits.get(plan.name)
                facts = (running, began, at, offset, unread, interval_s, limit, name in held)
                yield _Look(reader, log, name, plan.name, *facts)


def _wait(look: _Look) -> float:
    """Seconds until the next batch begins: Spark begins them at multiples of the interval, one after another."""
    computes = look.log is not None and look.log.offsets(look.log.last_committed() + 1) is not None
    return look.interval_s - look.at.timestamp() % look.interval_s if look.interval_s and not computes else 0.0


def _rate(look: _Look) -> tuple[float | None, float | None]:
    """What the newest batches read in a second, and how long one of them took; None if that is unknown."""
    assert look.log is not None  # the caller has asked
    newest = look.log.committed_batches()[-BATCHES:]
    if newest[:1] == [0] and len(newest) > 1:
        # Where the first batch began is not in the log.
        newest = newest[1:]
    took = [each for each in (_seconds(look, look.log, batch) for batch in newest) if each is not None]
    begin = SourceLog(look.log, look.source).offset(newest[0] - 1) if newest else None
    if not sum(took) or (newest[0] > 0 and begin is None):
        return None, None
    read = _read(look, begin)
    return (read / (sum(took) + _stuck(look, max(took))) if read > 0 else None), sum(took) / len(took)


def _read(look: _Look, begin: str | None) -> int:
    """How much was read from `begin` on; 0 if that is not known."""
    if look.offset is None:
        return 0
    if isinstance(look.reader, Counting):
        return _Unread.by(look.reader.between(begin, look.offset)).of
    if begin is None:
        return 0
    return _Unread.by(look.reader.lag(begin, PATIENCE)).of - _Unread.by(look.reader.lag(look.offset, PATIENCE)).of


def _stuck(look: _Look, longest: float) -> float:
    """For how many seconds the batch in flight has been computed, if that is longer than the `longest`; else 0."""
    planned = look.log.offsets(look.log.last_committed() + 1) if look.log is not None and look.running else None
    seconds = _since(look, planned.started, look.at) if planned is not None else 0.0
    return seconds if seconds > longest else 0.0


def _seconds(look: _Look, log: CheckpointLog, batch: int) -> float | None:
    """From the plan of a batch to its commit."""
    planned, committed = log.offsets(batch), log.committed_at(batch)
    if planned is None or committed is None:
        return None
    return max(_since(look, planned.started, committed), 0.001)


def _since(look: _Look, planned: datetime, end: datetime) -> float:
    """Seconds up to `end`; a batch that an earlier driver had planned was computed again from the driver's begin on."""
    begun = planned if look.began is None or look.began > end else max(planned, look.began)
    return (end - begun).total_seconds()


def _arriving(look: _Look, over: timedelta) -> SourceLag:
    """A second look: what came since the first one, and what is unread now."""
    since = _Unread.by(look.reader.lag(look.offset, PATIENCE)).of
    offset = SourceLog(look.log, look.source).committed if look.log is not None else None
    now = replace(look, at=datetime.now(UTC), offset=offset, unread=_Unread.by(look.reader.lag(offset, PATIENCE)))
    seconds = max((now.at - look.at).total_seconds(), over.total_seconds())
    return replace(now.measured(), arriving_per_s=max(since - look.unread.of, 0) / seconds)


def unread(topology: Topology, home: Home) -> Lag:
    """What no query has committed of all sources; of several queries that read a source the greatest counts.

    Errors as of `lag`.
    """
    greatest: dict[str, _Unread] = {}
    for look in _looks(topology, home):
        greatest[look.source] = max(look.unread, greatest.get(look.source, look.unread), key=lambda each: each.of)
    units = {unit: sum(each.of for each in greatest.values() if each.unit == unit) for unit in ("bytes", "records")}
    return Lag(**units)

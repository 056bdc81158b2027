"""Windows that fire more than once, as plain Python in whole seconds: slow and obvious."""

from collections import Counter
from dataclasses import dataclass, field

FOR_EVER = 10**9


@dataclass(frozen=True)
class Policy:
    """What the methods of a windowed stream say; `None` for what was not asked for."""

    water_mark: int = 10
    before: int | None = None
    after: int | None = None
    hold: int = 0
    limit: int | None = None
    late: str | None = None
    emit: str = "on_window_close"

    def is_time(self, t, *, start, end, now):
        """Whether a window that got rows at `now` fires at `t`."""
        good = end + self.water_mark
        return (
            t == good + self.hold
            or (self.emit == "on_window_close" and t == good)
            or (self.before is not None and start < t < good and (t - start) % self.before == 0)
            or (self.after is not None and t >= good and (t - good) % self.after == 0)
            or (self.limit is not None and t == max(now, start) + self.limit)
            or (self.late is not None and t >= end and (t - end) % SLIDE == 0)
        )

    def next(self, *, start, end, now):
        """The first such time behind `now`."""
        first = max(now, start) + 1
        close = end + self.water_mark + self.hold
        return next(t for t in range(first, close + 1) if self.is_time(t, start=start, end=end, now=now))


SIZE, SLIDE = 10, 5


@dataclass
class Windows:
    """The windows of a stream of (key, second); the clock is the greatest second seen."""

    policy: Policy
    clock: int = -FOR_EVER
    late: int = 0
    open: dict = field(default_factory=dict)

    def batch(self, rows):
        """What a batch of rows makes the windows tell: (key, start, count, second of the firing or None, final)."""
        told = [*self._add(rows)]
        self.clock = max([self.clock, *(second for _, second in rows)])
        return told + self.fire()

    def finish(self):
        """What they tell at the end of input."""
        self.clock = FOR_EVER
        return self.fire()

    def _add(self, rows):
        seen = Counter()
        for key, second in rows:
            starts = [s for s in range(second - second % SLIDE, second - SIZE, -SLIDE) if not self._closed(s)]
            self.late += not starts
            for start in starts:
                count, at = self.open.get((key, start), (0, FOR_EVER))
                due = self.policy.next(start=start, end=start + SIZE, now=self.clock)
                self.open[key, start] = count + 1, min(at, due)
                seen[key, start] += 1
                if self.policy.emit == "on_record":
                    yield key, start, count + 1, None, None
        if self.policy.emit == "on_update_and_close":
            yield from ((*group, self.open[group][0], None, False) for group in seen)

    def _closed(self, start):
        return self._close(start) <= self.clock

    def _close(self, start):
        return start + SIZE + self.policy.water_mark + self.policy.hold

    def fire(self):
        """What is due."""
        told = []
        for (key, start), (count, at) in list(self.open.items()):
            if at > self.clock:
                continue
            deltas, closes = self.policy.late == "deltas", self._closed(start)
            if self.policy.emit != "on_record":
                told.append((key, start, count, self._close(start) if closes and not deltas else at, closes))
            if closes or deltas:
                del self.open[key, start]
            else:
                self.open[key, start] = count, self._close(start)
        return told


# As far apart as the windows start: late firings of a session are a gap apart.
GAP = SLIDE


@dataclass
class Session:
    """Its rows, the rows (start, end, count) that it has told and not taken back, and since when one is due."""

    rows: list
    told: list
    since: int | None

    @property
    def place(self):
        return min(self.rows), max(self.rows) + GAP


@dataclass
class Sessions:
    """The sessions of a stream of (key, second); each takes back what it has told before it tells another row."""

    policy: Policy
    clock: int = -FOR_EVER
    late: int = 0
    open: dict = field(default_factory=dict)

    def batch(self, rows):
        """What a batch makes them tell: (key, start, end, count, second of the firing or None, final, retracted)."""
        told = [*self._add(rows), *self._fire()]
        self.clock = max([self.clock, *(second for _, second in rows)])
        return told + self._fire()

    def finish(self):
        """What they tell at the end of input."""
        self.clock = FOR_EVER
        return self._fire()

    def _add(self, rows):
        for key, second in rows:
            if self._close(second + GAP) <= self.clock:
                self.late += 1
                continue
            known = self.open.get(key, [])
            met = [s for s in known if s.place[0] <= second + GAP and second <= s.place[1]]
            since = [s.since for s in met if s.since is not None]
            joined = Session(
                [second, *(row for s in met for row in s.rows)],
                [row for s in met for row in s.told],
                min([self.clock, *since]),
            )
            self.open[key] = [joined, *(s for s in known if s not in met)]
            if self.policy.emit == "on_record":
                yield from self._tell(key, joined, None, final=False)
        if self.policy.emit in {"on_window_update", "on_update_and_close"}:
            for key, session in self._each():
                if session.since is not None:
                    yield from self._tell(key, session, None, final=False)

    def _tell(self, key, session, at, *, final):
        row = (*session.place, len(session.rows))
        told = [(key, *old, at, False, True) for old in session.told] + [(key, *row, at, final, False)]
        session.told, session.since = [row], None
        return told

    def _fire(self):
        told = []
        for key, session in self._each():
            start, end = session.place
            close = self._close(end)
            due = close if session.since is None else self.policy.next(start=start, end=end, now=session.since)
            closes = close <= self.clock
            if due <= self.clock and not (closes and self.policy.emit in {"on_record", "on_window_update"}):
                told += self._tell(key, session, close if closes else due, final=closes)
            if closes:
                self.open[key].remove(session)
        return told

    def _close(self, end):
        return end + self.policy.water_mark + self.policy.hold

    def _each(self):
        return [(key, session) for key, known in self.open.items() for session in known]

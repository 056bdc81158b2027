"""A processor: a class of the user's with stores and timers for each key, and what it sees of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from rs_assets.errors import StepError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.topology.user_code.inner_keys import moment
from rs_assets.topology.user_code.stores import OpenStores, Row

MICROSECOND: Final = timedelta(microseconds=1)
# The field of a state with its timers, its type, and the field in which Spark notes when to look at them.
TIMERS, WAKE = "timers", "wake"
TIMERS_TYPE: Final = "array<struct<call: string, at: timestamp, every: bigint>>"
STATE_FIELDS: Final = frozenset({TIMERS, WAKE})
Tick = Callable[[Row, datetime, "Context"], None]


class Processor:
    """The base class of processors: override `process`, and declare stores as class attributes.

    One object handles many keys, in a worker process that may end at any time: what must last belongs in a store, and
    never in an attribute. All methods must be deterministic, because a batch may be computed again.

    >>> from rs_assets import MapStore, Processor
    >>> class Cart(Processor):
    ...     items = MapStore("sku string", "n int")
    ...
    ...     def process(self, key, row, context):
    ...         n = (context.items.get(row["sku"]) or {"n": 0})["n"] + 1
    ...         context.items.put(row["sku"], {"n": n})
    ...         context.forward({"user": key["user"], "different": len(context.items)})
    """

    def init(self, context: Context) -> None:
        """Prepare, such as by loading a model: called once for each object, before all else. There is no key yet."""

    def process(self, key: Row, row: Row, context: Context) -> None:
        """Handle one row of a key; both are dicts. Rows of a key come in order."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what `init` has taken; not called if the worker is killed."""


@dataclass(slots=True)
class Timer:
    """A callback of a key: when it is due, and for a repeated one how often it is called."""

    at: datetime
    every: timedelta | None = None

    def after(self, now: datetime) -> datetime | None:
        """The next time after `now`, a multiple of its interval since 1970; None for a timer that fires once.

        >>> Timer(EPOCH, timedelta(minutes=10)).after(EPOCH + timedelta(minutes=25)).isoformat()
        '1970-01-01T00:30:00+00:00'
        """
        return None if self.every is None else EPOCH + ((now - EPOCH) // self.every + 1) * self.every


@dataclass(slots=True)
class Context:
    """What a processor sees and does while it handles a key. Each store is an attribute: `context.items`.

    `key`: the current key. `time`: the event time of the row, or the time for which a timer was set; None if the step
    has no time. `watermark`: the time up to which all rows have come; None if the step has no time, before the first
    row, and when the input has ended.
    """

    step: str
    timed: bool
    outputs: frozenset[str]
    check: Callable[[object, str | None], Row]
    processor: Processor
    key: Row = field(default_factory=dict)
    time: datetime | None = None
    watermark: datetime | None = None
    stores: OpenStores | None = None
    timers: dict[str, Timer] = field(default_factory=dict)
    made: list[tuple[str | None, Row]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """The store `name` of the current key."""
        if self.stores is None or name not in self.stores.declared:
            known = ", ".join(self.stores.declared) if self.stores is not None else "none before the first key"
            raise AttributeError(f"step {self.step!r} has no store {name!r}; it has: {known}")
        return self.stores[name]

    def forward(self, record: object, to: str | None = None) -> None:
        """Pass on a record with all fields of an output (None: the schema of the step)."""
        if to is not None and to not in self.outputs:
            raise StepError(
                f"step {self.step!r} has no output {to!r}",
                remedy=f"declare it: outputs={{{to!r}: 'n bigint'}}",
                step=self.step,
            )
        self.made.append((to, self.check(record, to)))

    def schedule(self, every: timedelta, callback: Tick) -> None:
        """Call a method of the processor for this key at each multiple of `every` since 1970.

        `callback(key, at, context)` comes once for multiples that the watermark has passed in one step, and once at the
        end of the input. Nothing happens if it is scheduled already with this interval.
        """
        name = self._named(callback)
        if not isinstance(every, timedelta) or every < timedelta(milliseconds=1):
            raise StepError(
                f"step {self.step!r} schedules {name!r} every {every!r}, which must be at least a millisecond",
                remedy="pass a time: Time.minutes(10)",
                step=self.step,
            )
        if name not in self.timers or self.timers[name].every != every:
            due = Timer(EPOCH, every).after(self._now())
            assert due is not None  # it is repeated
            self.timers[name] = Timer(due, every)

    def schedule_at(self, at: datetime, callback: Tick) -> None:
        """Call a method of the processor for this key once, when the watermark has reached `at`.

        A method has one timer a key: the new time replaces the old one. A time that has passed already fires when the
        watermark moves next or before the next rows of the key, and if a timer sets it, at once; but not if its method
        has fired for that time or a later one meanwhile.
        """
        name = self._named(callback)
        if not isinstance(at, datetime):
            raise StepError(
                f"step {self.step!r} schedules {name!r} at {at!r}, which must be a datetime",
                remedy="pass a time: context.time + Time.minutes(30)",
                step=self.step,
            )
        self.timers[name] = Timer(moment(at))

    def cancel(self, callback: Tick) -> None:
        """Take the timer of a method of the processor away, if there is one for this key."""
        self.timers.pop(self._named(callback), None)

    def scheduled(self, callback: Tick) -> datetime | None:
        """When a method of the processor is called next for this key; None if it is not."""
        timer = self.timers.get(self._named(callback))
        return None if timer is None else timer.at

    def _now(self) -> datetime:
        return max(self.time or EPOCH, self.watermark or EPOCH)

    def _named(self, callback: Tick) -> str:
        if not self.timed:
            raise StepError(
                f"step {self.step!r} has no time, so it has no timers",
                remedy="name the field of its event time, time_field='ts', or let it go by the clock,"
                " tick=Time.seconds(1)",
                step=self.step,
            )
        name = getattr(callback, "__name__", "")
        if not callable(getattr(self.processor, name, None)):
            raise StepError(
                f"step {self.step!r} schedules {callback!r}, which must be a method of its processor",
                remedy="pass a method of the class: self.tick",
                step=self.step,
            )
        return name


def taken_name(stores: Mapping[str, object]) -> str | None:
    """The first name of a store that the context has for something else; None if there is none.

    >>> taken_name({"items": 1, "key": 2})
    'key'
    """
    return next((name for name in stores if name in dir(Context) or name in STATE_FIELDS), None)

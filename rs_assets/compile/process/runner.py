"""A processor at work: one key after another, with its stores, its timers and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rs_assets.compile.python.results import mapping
from rs_assets.errors import StepError
from rs_assets.operators.window.event_time import has_ended, moving
from rs_assets.records.fields import declared
from rs_assets.topology.user_code.processor import MICROSECOND, TIMERS, Context, Processor, Tick, Timer
from rs_assets.topology.user_code.stores import OpenStores, Store, own, stores_of

Row = dict[str, Any]
Made = list[tuple[str | None, Row]]
# Earlier than every timer.
BEFORE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSpec:
    """A step's processor, as a class or an object, its stores, and the fields of each output (None: the step's own)."""

    step: str
    processor: type[Processor] | Processor
    stores: Mapping[str, Store]
    outputs: Mapping[str | None, frozenset[str]]
    timed: bool

    @classmethod
    def of(
        cls,
        processor: type[Processor] | Processor,
        *,
        step: str,
        schema: str | None,
        outputs: Iterable[tuple[str, str | None]],
        timed: bool,
    ) -> ProcessorSpec:
        """That of a step with the `schema` of its records, and those of its named outputs."""
        kinds: list[tuple[str | None, str | None]] = [(None, schema), *outputs]
        fields = {name: frozenset(declared(kind, step=step).types) for name, kind in kinds}
        return cls(step=step, processor=processor, stores=stores_of(processor), outputs=fields, timed=timed)

    def fits(self, record: object, to: str | None) -> Row:
        """`record` as a row of an output, which later changes of it leave alone; MisfitError if it has other fields."""
        return own(mapping(record, self.outputs[to]))


@dataclass(slots=True)
class ProcessorRunner:
    """One processor, which handles one key after another."""

    spec: ProcessorSpec
    processor: Processor = field(init=False)
    context: Context = field(init=False)

    def __post_init__(self) -> None:
        """Make the processor, and let it prepare."""
        spec = self.spec
        made = spec.processor
        self.processor = made() if isinstance(made, type) else made
        self.context = Context(
            spec.step,
            timed=spec.timed,
            outputs=frozenset(filter(None, spec.outputs)),
            check=spec.fits,
            processor=self.processor,
        )
        self.processor.init(self.context)

    def touch(
        self, key: Row, state: Row | None, rows: Iterable[tuple[Row, datetime | None]], watermark: datetime | None
    ) -> tuple[Row | None, Made]:
        """The new state of `key`, None for none, and what was passed on.

        Timers that are due are called first, then come the rows, each with its event time.
        """
        context = self.load(key, state)
        context.made = []
        context.watermark = moving(watermark)
        if watermark is not None:
            self._fire(watermark)
        for row, time in rows:
            context.time = time
            self.processor.process(key.copy(), row, context)
        return self._kept(), context.made

    def load(self, key: Row, state: Row | None) -> Context:
        """The context of `key`, with its stores and timers."""
        context, state = self.context, state or {}
        context.key = key.copy()
        context.stores = OpenStores(self.spec.stores, state, mapping)
        context.timers = {each["call"]: _timer(each) for each in state.get(TIMERS) or ()}
        context.time = None
        return context

    def close(self) -> None:
        """Let the processor release what it has taken."""
        self.processor.close()

    def _fire(self, watermark: datetime) -> None:
        """Call the timers that are due, by time, also those that they set; at the end of input each one once."""
        over, fired = has_ended(watermark), dict[str, datetime]()
        while (due := self._next(watermark, fired, over=over)) is not None:
            at, name = due
            fired[name] = at
            timer = self.context.timers[name]
            again = None if over else timer.after(watermark)
            if again is None:
                del self.context.timers[name]
            else:
                timer.at = again
            self.context.time = at
            self._callback(name)(self.context.key.copy(), at, self.context)

    def _callback(self, name: str) -> Tick:
        """The method of a timer, which earlier code may have set."""
        found: Tick | None = getattr(self.processor, name, None)
        if found is None:
            raise StepError(
                f"step {self.spec.step!r} has a timer for {name!r}, which its processor does not have any more",
                remedy=f"keep the method as long as such timers may be set: def {name}(self, key, at, context)",
                step=self.spec.step,
            )
        return found

    def _next(self, watermark: datetime, fired: Mapping[str, datetime], *, over: bool) -> tuple[datetime, str] | None:
        """The first timer that is due. One that has `fired` is due again only at a later time, so there is an end."""
        timers = ((timer.at, name) for name, timer in self.context.timers.items())
        if over:
            return min((each for each in timers if each[1] not in fired), default=None)
        return min(
            (each for each in timers if each[0] <= watermark and each[0] > fired.get(each[1], BEFORE)), default=None
        )

    def _kept(self) -> Row | None:
        assert self.context.stores is not None  # set for each key
        kept = self.context.stores.kept()
        timers = [_row(name, timer) for name, timer in sorted(self.context.timers.items())]
        if not timers and all(each is None for each in kept.values()):
            return None
        return {**kept, TIMERS: timers or None}


def _timer(row: Row) -> Timer:
    every = row["every"]
    return Timer(row["at"], None if every is None else timedelta(microseconds=every))


def _row(name: str, timer: Timer) -> Row:
    return {"call": name, "at": timer.at, "every": None if timer.every is None else timer.every // MICROSECOND}

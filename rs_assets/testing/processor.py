"""Runs a processor without Spark: rows in, records out, in microseconds a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from rs_assets.common.names import one_or_more
from rs_assets.compile.process.runner import ProcessorRunner, ProcessorSpec
from rs_assets.errors import ConfigurationError, StepError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.records.ddl import arrow_schema
from rs_assets.records.rows import MisfitError, to_arrays
from rs_assets.records.schema import Schema, schema_text
from rs_assets.records.values import values_of
from rs_assets.stream.process_steps import needed_schema
from rs_assets.stream.processed_stream import state_of
from rs_assets.topology.user_code.inner_keys import one_key
from rs_assets.topology.user_code.processor import TIMERS, Processor

Row = dict[str, Any]
STEP = "processor"
# What the clock of a processor with a `tick` shows at first.
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Typed:
    """The fields of a schema: a row of them becomes what Spark gives back for it, or is refused as a run refuses it."""

    schema: pa.Schema | None
    what: str

    @classmethod
    def of(cls, schema: str, what: str) -> Typed:
        """Those of a text; a schema that Spark alone can read leaves rows as they are."""
        return cls(arrow_schema(schema), what)

    def __call__(self, row: Mapping[str, Any]) -> Row:
        """The row with all fields of the schema; those that it lacks are null."""
        if self.schema is None:
            return dict(row)
        try:
            arrays = to_arrays([row], self.schema)
        except MisfitError as error:
            text = f"step {STEP!r} {self.what} that does not fit its schema: {error.text}"
            raise StepError(text, step=STEP) from error
        return dict(zip(self.schema.names, (values_of(each)[0] for each in arrays), strict=True))


class ProcessorTest:
    """A processor with its stores in dictionaries. Each row is a batch of its own, after which timers fire.

    - `processor`, `keys`, `schema`, `outputs`, `time_field`, `water_mark`, `tick`: as for `DataStream.process`.
    - `rows` (schema, default none): the fields of the input. Rows have values of its types then, as in a run: a time is
      a datetime in UTC, a field that is not given is None. Without it the processor gets rows as they are piped.

    Records and states have values of their types, and are refused if they do not fit, as in a run. A time may be a
    datetime, text in ISO form, or milliseconds since 1970; without a zone it is UTC.

    >>> from rs_assets import Processor, Time, ValueStore
    >>> class Silence(Processor):
    ...     seen = ValueStore("n int")
    ...
    ...     def process(self, key, row, context):
    ...         context.seen.put({"n": (context.seen.get() or {"n": 0})["n"] + 1})
    ...         context.schedule_at(context.time + Time.minutes(10), self.silent)
    ...
    ...     def silent(self, key, at, context):
    ...         context.forward({**key, **context.seen.get()})
    ...         context.seen.delete()
    >>> test = ProcessorTest(Silence, keys="user", schema="user string, n int", time_field="ts")
    >>> test.pipe({"user": "ann", "ts": "2026-01-05T10:00:00"}, {"user": "ann", "ts": "2026-01-05T10:04:00"})
    >>> test.forwarded(), test.store("seen", user="ann").get()
    ([], {'n': 2})
    >>> test.advance_stream_time("2026-01-05T10:14:00")
    >>> test.forwarded()
    [{'user': 'ann', 'n': 2}]
    """

    def __init__(
        self,
        processor: type[Processor] | Processor,
        *,
        keys: str | Sequence[str],
        schema: Schema,
        outputs: Mapping[str, Schema] | None = None,
        time_field: str | None = None,
        water_mark: timedelta = timedelta(0),
        tick: timedelta | None = None,
        rows: Schema | None = None,
    ) -> None:
        self.keys = one_or_more(keys)
        self.time_field, self.water_mark = time_field, water_mark
        self.clock = BEGIN if tick is not None else None
        # As Spark's, it begins in 1970.
        self.watermark = EPOCH if time_field is not None else self.clock
        timed = time_field is not None or tick is not None
        self._state = Typed.of(state_of(processor, step=STEP, timed=timed), "returned a state")
        main = needed_schema(schema, "schema", step=STEP)
        named = [(name, needed_schema(kind, "schema", step=STEP)) for name, kind in (outputs or {}).items()]
        kinds: list[tuple[str | None, str]] = [(None, main), *named]
        self._records = {name: Typed.of(kind, "returned a record") for name, kind in kinds}
        given = schema_text(rows, step=STEP)
        self._row = Typed(None, "") if given is None else Typed.of(given, "got a row")
        spec = ProcessorSpec.of(processor, step=STEP, schema=main, outputs=named, timed=timed)
        self._runner = ProcessorRunner(spec)
        self._states: dict[tuple[Any, ...], Row] = {}
        self._made: list[tuple[str | None, Row]] = []

    def pipe(self, *rows: Mapping[str, Any]) -> None:
        """Process rows, one after another."""
        for row in map(self._row, rows):
            time, key = self._time_of(row), self._key(row)
            self._touch(key, [({**row, **dict(zip(self.keys, key, strict=True))}, time)])
            if self.time_field is not None and time is not None:
                self._advance(time - self.water_mark)

    def advance_stream_time(self, to: datetime | str | int) -> None:
        """Let the event time be `to`, as a row of another key would, and fire the timers that are due."""
        if self.time_field is None:
            raise ConfigurationError(
                "the processor has no event time", remedy="name its field: ProcessorTest(..., time_field='ts')"
            )
        self._advance(_moment(to) - self.water_mark)

    def advance_wall_clock(self, by: timedelta) -> None:
        """Let time pass by the clock, and fire the timers that are due."""
        if self.clock is None:
            raise ConfigurationError(
                "the processor does not go by the clock", remedy="ProcessorTest(..., tick=Time.seconds(1))"
            )
        self.clock += by
        self._advance(self.clock)

    def finish(self) -> None:
        """End the input: each timer that is set fires once more."""
        self._advance(END_OF_TIME)

    def forwarded(self, to: str | None = None) -> list[Row]:
        """The records that an output got (None: those without an output) since the last call, in order."""
        found = [record for name, record in self._made if name == to]
        self._made = [each for each in self._made if each[0] != to]
        return found

    def store(self, name: str, **key: Any) -> Any:
        """The store `name` of a key, as `context` has it, to be read: changes of it are not kept."""
        context = self._runner.context
        self._runner.load(key, self._states.get(self._key(key)))
        return getattr(context, name)

    def timers(self, **key: Any) -> dict[str, datetime]:
        """When the methods of the processor are called next for a key."""
        state = self._states.get(self._key(key)) or {}
        return {each["call"]: each["at"] for each in state.get(TIMERS) or ()}

    def close(self) -> None:
        """Let the processor release what it has taken."""
        self._runner.close()

    def _advance(self, watermark: datetime) -> None:
        # As Spark's, it has milliseconds.
        whole = watermark.replace(microsecond=watermark.microsecond // 1000 * 1000)
        if self.watermark is None or whole <= self.watermark:
            return
        self.watermark = whole
        for key in list(self._states):
            self._touch(key, [])

    def _touch(self, key: tuple[Any, ...], rows: list[tuple[Row, datetime | None]]) -> None:
        named = dict(zip(self.keys, key, strict=True))
        state, made = self._runner.touch(named, self._states.get(key), rows, self.watermark)
        self._made += [(to, self._records[to](record)) for to, record in made]
        if state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = self._state(state)

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(one_key(row[key]) for key in self.keys)

    def _time_of(self, row: Mapping[str, Any]) -> datetime | None:
        if self.time_field is None:
            return self.clock
        given = row[self.time_field]
        made = None if given is None else _moment(given)
        if made is None or made < EPOCH:
            raise StepError(
                f"step {STEP!r} got a bad record: its event time is null or before 1970: {given}", step=STEP
            )
        return made


def _moment(value: datetime | str | int) -> datetime:
    if isinstance(value, int):
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=value)
    made = datetime.fromisoformat(value) if isinstance(value, str) else value
    return made if made.tzinfo else made.replace(tzinfo=UTC)

"""Python functions over Arrow batches: consecutive steps are fused, so rows cross from the JVM once.

Rows that a Python filter drops never return to the JVM, and values that no function made stay in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from rs_assets.compile.python.contract import RAISED, check_sendable
from rs_assets.compile.python.failure import raised, reason_of
from rs_assets.compile.python.fields_read import fields_read
from rs_assets.compile.python.memoize import once_each
from rs_assets.compile.python.placeholders import blank
from rs_assets.compile.python.purity import is_pure
from rs_assets.compile.python.record import Columns, Record, Row
from rs_assets.compile.python.results import mapping, mappings
from rs_assets.compile.python.sent import sent
from rs_assets.records.columns import LABEL, PREFIX, REASON, hidden, visible
from rs_assets.records.rows import misfits, to_arrays
from rs_assets.records.schema import quoted
from rs_assets.records.values import values_of
from rs_assets.spark.arrow import map_in_arrow
from rs_assets.topology.user_code.stores import own

Kind = Literal["map", "flat_map", "filter", "for_each", "label"]
# Steps whose result is not a record, so that records may share it.
ONCE: frozenset[Kind] = frozenset({"filter", "label"})
# Whether a filter keeps a record.
PASSES = f"{PREFIX}passes"
# The fields that a step's function reads, if its code shows it: see `fields_read`.
Reads = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class PythonStep:
    """One call of a user-defined function; `schema` is that of the results of map and flat_map.

    With `pure` a filter or label is computed once for each distinct value of the one field that it reads, if those are
    few. With `located` a replay finds the record on which a filter fails.
    """

    kind: Kind
    name: str
    call: Callable[[Any], Any]
    schema: StructType | None = None
    pure: bool = False
    located: bool = False


def python_step(
    kind: Kind, name: str, call: Callable[[Any], Any], schema: StructType | None = None, *, located: bool = False
) -> PythonStep:
    """A step whose function can be sent to Spark's workers; TopologyError names one that cannot."""
    check_sendable(call, f"of step {name!r}", step=name)
    return PythonStep(kind, name, call, schema, pure=kind in ONCE and is_pure(call), located=located)


def apply_python(frame: DataFrame, steps: Sequence[PythonStep], *, quarantines: bool = False) -> DataFrame:
    """`frame` after `steps`, in one pass. Hidden columns stay with their rows.

    With `quarantines` a row on which a step raises comes out with REASON and without values; otherwise it ends the
    batch with StepError. Fields that no step reads, and that end with a map or flat_map, are not sent to Python. The
    same is true of a single filter, if a replay finds the record on which it fails.
    """
    if len(steps) == 1 and steps[0].located and not quarantines:
        reads, names = fields_read(steps[0].call), visible(frame.columns)
        # A column of which only the case of letters differs cannot be named.
        if reads and set(reads) <= set(names) and len({name.lower() for name in names}) == len(names):
            return _kept(frame, steps[0], reads)
    frame = _read_by(frame, steps)
    schema = frame.schema
    for step in steps:
        if step.schema is not None:
            kept = [f for f in schema.fields if f.name in hidden(schema.names)]
            schema = StructType([*step.schema.fields, *kept])
        elif step.kind == "label":
            schema = StructType([f for f in schema.fields if f.name != LABEL]).add(LABEL, StringType())
    if quarantines:
        schema = StructType([*schema.fields, StructField(REASON, StringType())])
    made = tuple(to_arrow_schema(s.schema, timezone="UTC") if s.schema is not None else None for s in steps)
    fused = FusedSteps(tuple(steps), made, to_arrow_schema(schema, timezone="UTC"), quarantines)
    return map_in_arrow(frame, sent(fused, *(step.call for step in steps)), schema)


def _kept(frame: DataFrame, step: PythonStep, reads: tuple[str, ...]) -> DataFrame:
    """The rows that a filter keeps, of whose records Python gets the fields `reads`."""
    judge = sent(Judge(step, reads), step.call)

    def judged(*columns: pa.Array) -> pa.Array:
        return judge(columns)

    # Not deterministic for Spark, and a column of its own: no other filter changes which records the function gets.
    passes = arrow_udf(judged, BooleanType()).asNondeterministic()(*(F.col(quoted(name)) for name in reads))  # type: ignore[call-overload]
    return frame.select("*", passes.alias(PASSES)).filter(F.col(PASSES)).drop(PASSES)


def _read_by(frame: DataFrame, steps: Sequence[PythonStep]) -> DataFrame:
    """`frame` without unused fields: those that no step reads up to the first one that makes new records."""
    fields, wanted = visible(frame.columns), set[str]()
    for step in steps:
        reads = fields_read(step.call)
        if reads is None or not set(reads) <= set(fields):
            return frame
        wanted.update(reads)
        if step.schema is not None:
            break
    else:
        return frame
    # Without any column Arrow would not know the number of rows.
    kept = [name for name in frame.columns if name in wanted or name not in fields]
    return frame.select(*map(quoted, kept)) if kept else frame


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs in a Python worker: whether a filter keeps each record of which it gets the fields `reads`."""

    step: PythonStep
    reads: tuple[str, ...]

    def __call__(self, columns: Sequence[pa.Array]) -> pa.Array:
        """True or false for each row."""
        records = Records(pa.RecordBatch.from_arrays(list(columns), list(self.reads)), quarantines=False)
        records.run(self.step, None, self.reads)
        passes = np.zeros(records.batch.num_rows, bool)
        passes[list(records.places)] = True
        return pa.array(passes)


@dataclass(frozen=True, slots=True)
class FusedSteps:
    """Runs in a Python worker: batches in, batches of `schema` out. `made` are the schemas of the steps' results."""

    steps: tuple[PythonStep, ...]
    made: tuple[pa.Schema | None, ...]
    schema: pa.Schema
    quarantines: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run all steps over each batch, one after the other."""
        reads = [fields_read(step.call) for step in self.steps]
        for batch in batches:
            records = Records(batch, self.quarantines)
            for step, schema, fields in zip(self.steps, self.made, reads, strict=True):
                records.run(step, schema, fields)
            yield records.out(self.schema.names)


@dataclass(slots=True)
class Records:
    """The records of one batch between two steps.

    `places` maps each record to its row of `batch`. As long as `made` is None the records are rows of `batch`, which
    are in `columns`; then those that the function of `maker` has returned. `reasons` are the rows of `batch` on which a
    step failed.
    """

    batch: pa.RecordBatch
    quarantines: bool
    places: Sequence[int] = field(init=False)
    columns: Columns = field(init=False)
    made: list[Row] | None = None
    schema: pa.Schema = field(init=False)
    maker: PythonStep | None = None
    labels: list[str | None] | None = None
    reasons: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with all rows."""
        self.places = range(self.batch.num_rows)
        self.columns = Columns.of_batch(self.batch, self._fields)

    @property
    def _fields(self) -> list[str]:
        return visible(self.batch.schema.names)

    def run(self, step: PythonStep, schema: pa.Schema | None, reads: Reads) -> None:
        """Apply one step to every record."""
        before = set(self.reasons)
        match step.kind:
            case "filter":
                self._filter(step, reads)
            case "for_each":
                self._each(step, reads)
            case "label":
                self._label(step, reads)
            case _:
                assert schema is not None  # such steps have one
                self._make(step, schema, reads)
        bad = self.reasons.keys() - before
        if bad:
            # Drop all rows of the record: half of a flat_map's output would be a wrong result.
            self._keep([n for n, place in enumerate(self.places) if place not in bad])

    def _filter(self, step: PythonStep, reads: Reads) -> None:
        once = self._once(step, reads, bool, bool)
        if once is not None:
            self._keep(np.flatnonzero(once).tolist())
            return
        call, passed = step.call, list[int]()
        for number, record in enumerate(self._shown(reads)):
            try:
                if call(record):
                    passed.append(number)
            except RAISED as error:
                self._failed(step, number, error)
        self._keep(passed)

    def _each(self, step: PythonStep, reads: Reads) -> None:
        for number, row in enumerate(self._rows(reads)):
            try:
                step.call(row)
            except RAISED as error:
                self._failed(step, number, error)

    def _label(self, step: PythonStep, reads: Reads) -> None:
        once = self._once(step, reads, _label_of, object)
        if once is not None:
            self.labels = once.tolist()
            return
        labels: list[str | None] = [None] * len(self.places)
        for number, row in enumerate(self._rows(reads)):
            try:
                labels[number] = _label_of(step.call(row))
            except RAISED as error:
                self._failed(step, number, error)
        self.labels = labels

    def _once(self, step: PythonStep, reads: Reads, told: Callable[[Any], Any], kind: type) -> np.ndarray | None:
        """The result of `told` for the answer to each record, of a pure function that is called once for each value.

        None if it has to be called for each record: also if it fails, so that the first failing record is reported.
        """
        if not step.pure or self.made is not None or reads is None or len(reads) != 1 or reads[0] not in self._fields:
            return None
        (name,), call = reads, step.call
        column = self.batch.column(name)
        shown = column if len(self.places) == len(column) else column.take(pa.array(self.places, pa.int64()))
        try:
            return once_each(shown, lambda value: told(call({name: value})), kind)
        except RAISED:
            return None

    def _make(self, step: PythonStep, schema: pa.Schema, reads: Reads) -> None:
        names, several, call = frozenset(schema.names), step.kind == "flat_map", step.call
        made, numbers = list[Row](), list[int]()
        # The results of an earlier function are passed on as they are: they are copies, and have no other reader.
        for number, row in enumerate(self._rows(reads) if self.made is None else self.made):
            try:
                if several:
                    rows = mappings(call(row), names)
                    made += rows
                    numbers += [number] * len(rows)
                else:
                    made.append(own(mapping(call(row), names)))
                    numbers.append(number)
            except RAISED as error:
                self._failed(step, number, error)
        self.labels = None if self.labels is None else [self.labels[n] for n in numbers]
        self.places = [self.places[n] for n in numbers]
        self.made, self.schema, self.maker = made, schema, step

    def _keep(self, numbers: Sequence[int]) -> None:
        """Continue with some of the records."""
        if len(numbers) == len(self.places):
            return
        self.places = [self.places[n] for n in numbers]
        self.labels = None if self.labels is None else [self.labels[n] for n in numbers]
        if self.made is None:
            self.columns = Columns.of_batch(self.batch, self._fields, self.places)
        else:
            self.made = [self.made[n] for n in numbers]

    def _looked_at(self) -> Columns:
        """The records for one step, which may change its own copy only."""
        if self.made is not None:
            return Columns.of_rows(self.made, self.schema)
        self.columns = self.columns.renewed()
        return self.columns

    def _shown(self, reads: Reads) -> Iterable[Any]:
        """The records for a function that only reads them."""
        columns = self._looked_at()
        if reads is not None and set(reads) <= set(columns.fields):
            return columns.rows(reads)
        return (Record(columns, number) for number in range(columns.count))

    def _rows(self, reads: Reads) -> Iterable[Row]:
        """The records as separate dicts, with all fields that the function reads."""
        columns = self._looked_at()
        return columns.rows(reads if reads is not None and set(reads) <= set(columns.fields) else None)

    def out(self, names: Sequence[str]) -> pa.RecordBatch:
        """The batch for the JVM: the columns `names`, and at the end the rows on which a step failed."""
        arrays = self._arrays()
        rows = [*self.places, *self.reasons]
        whole = rows == list(range(self.batch.num_rows))
        taken = self.batch if whole else self.batch.take(pa.array(rows, pa.int64()))
        found = {name: taken.column(name) for name in taken.schema.names}
        failed = len(self.reasons)
        if arrays is not None:
            if failed:
                blanks = (pa.array([blank(of)] * failed, of.type) for of in self.schema)
                arrays = [pa.concat_arrays(both) for both in zip(arrays, blanks, strict=True)]
            found.update(zip(self.schema.names, arrays, strict=True))
        if self.labels is not None:
            found[LABEL] = pa.array([*self.labels, *[None] * failed], pa.string())
        if self.quarantines:
            found[REASON] = pa.array([*[None] * len(self.places), *self.reasons.values()], pa.string())
        return pa.RecordBatch.from_arrays([found[name] for name in names], names=list(names))

    def _arrays(self) -> list[pa.Array] | None:
        """The columns of the functions' results; None if there are none."""
        if self.made is None:
            return None
        try:
            return to_arrays(self.made, self.schema)
        except Exception:  # noqa: BLE001  the faulty record is found below
            assert self.maker is not None  # functions made them
            for misfit in list(misfits(self.made, self.schema)):
                self._failed(self.maker, misfit.row, misfit)
            self._keep([n for n, place in enumerate(self.places) if place not in self.reasons])
            return to_arrays(self.made, self.schema)

    def _failed(self, step: PythonStep, number: int, error: BaseException) -> None:
        """Set a failed record of a step apart, or end the batch with an error that travels as text."""
        place = self.places[number]
        if self.quarantines:
            self.reasons.setdefault(place, reason_of(step.name, error))
            return
        one = self.batch.slice(place, 1)
        fields = {name: values_of(one.column(name))[0] for name in self._fields}
        raise raised(step.name, error, one, fields if self.made is None else self.made[number]) from error


def _label_of(answer: Any) -> str | None:
    return None if answer is None else str(answer).encode().decode()

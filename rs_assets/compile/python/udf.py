"""User-defined functions, as Spark calls them: over Arrow batches, with errors returned as values.

A result is a struct of the value and of the fault, so that Spark raises only where the value is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from rs_assets.common.errors_wire import to_wire
from rs_assets.common.plural import count_of
from rs_assets.compile.python.contract import RAISED, check_sendable, remedy_for, text_of
from rs_assets.compile.python.fitted import series_kept
from rs_assets.compile.python.results import fields_of, mapping, plain
from rs_assets.compile.python.sent import sent
from rs_assets.errors import ConfigurationError, StepError
from rs_assets.expressions.functions.udf import ASKED, Body, JavaBody
from rs_assets.records.casts import cast_kept
from rs_assets.records.rows import MisfitError, misfits, to_arrays
from rs_assets.records.values import values_of
from rs_assets.spark.processor.session import processors_in
from rs_assets.topology.user_code.stores import copied

# The most characters of arguments that an error shows.
SHOWN: Final = 500
_KNOWN: Final[WeakKeyDictionary[SparkSession, dict[str, Body | JavaBody]]] = WeakKeyDictionary()
# What to do about a class that cannot be loaded, by the error of Java; of any other one its constructor has raised.
_MISSING: Final = "add the jars with the classes that it needs: USING JAR 'a.jar', JAR 'b.jar'"
_REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("java.lang.NoClassDefFoundError", "java.lang.ClassNotFoundException"), _MISSING),
        "java.lang.UnsupportedClassVersionError": "compile it for the Java that runs Spark: javac --release 17",
        "java.nio.file.NoSuchFileException": "put the jar to this place, on all machines",
        "org.apache.spark.sql.rsassets.OtherJarException": "build the pipeline again: it reads the jars that are there",
        "org.apache.spark.sql.rsassets.NotRepeatableException": "compute the value from columns that identify the row",
    }
)
_UNMADE: Final = "correct its constructor, and what it needs"
# Why functions of Java could not be loaded, by name, and remedies.
_BROKEN: Final[WeakKeyDictionary[SparkSession, dict[str, tuple[str, str]]]] = WeakKeyDictionary()


def know_functions(spark: SparkSession) -> None:
    """Register the functions of calls with `spark`; TopologyError for one that cannot be sent to workers.

    A redeclared function keeps its name while its code is the same, and may have captured other values.
    """
    known = _KNOWN.setdefault(spark, {})
    for name, body in list(ASKED.items()):
        if known.get(name) is not body:
            if isinstance(body, JavaBody):
                _register_java(spark, body)
            else:
                _register(spark, body)
            known[name] = body


def check_functions(spark: SparkSession, texts: Iterable[str]) -> None:
    """ConfigurationError for a function of Java that a text in SQL calls, and that could not be loaded."""
    broken = _BROKEN.get(spark, {})
    called = next((why for text in texts for name, why in broken.items() if name in text), None)
    if called is not None:
        what, remedy = called
        raise ConfigurationError(what, remedy=remedy)


def _register(spark: SparkSession, body: Body) -> None:
    from pyspark.sql import functions as F

    runner = Runner(body, to_arrow_type(DataType.fromDDL(body.gives), timezone="UTC"))
    check_sendable(runner, repr(body.label))
    runs = sent(runner, body.call)

    def run(*columns: pa.Array) -> pa.Array:
        return runs(*columns)

    gives = f"struct<value: {body.gives}, fault: string>"
    made = F.arrow_udf(run, gives)  # type: ignore[attr-defined]
    spark.udf.register(body.name, made)


def _register_java(spark: SparkSession, body: JavaBody) -> None:
    """Make a function of Java known, or why it cannot be: other pipelines of this process do not call it."""
    needs = "".join("1" if each else "0" for each in body.needs)
    given = (body.name, body.label, "\n".join(body.jars), body.cls, body.method, needs, body.gives)
    _BROKEN.get(spark, {}).pop(body.name, None)
    try:
        processors_in(spark).JavaCalls.register(spark._jsparkSession, *given)  # noqa: SLF001  no public way
    except Py4JJavaError as error:
        what = f"the class {body.cls!r} of the function {body.label!r} cannot be loaded: {error.java_exception}"
        remedy = _REMEDIES.get(error.java_exception.getClass().getName(), _UNMADE)
        _BROKEN.setdefault(spark, {})[body.name] = what, remedy
    except ConfigurationError as error:
        _BROKEN.setdefault(spark, {})[body.name] = error.what, error.remedy


class NumberError(ValueError):
    """A vectorised function has returned the wrong number of values: no single row is to blame."""


@dataclass(frozen=True, slots=True)
class Made:
    """The results for some rows: values as Arrow, and the faults of failed rows."""

    values: pa.Array
    faults: dict[int, str]


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs in a worker: columns of arguments in, structs of value and fault out. `kind` is the type of values.

    The first column only carries the number of rows.
    """

    body: Body
    kind: pa.DataType

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """Call the function for all rows without a null for a required argument; the others are null."""
        rows, given = len(columns[0]), columns[1:]
        called = self._called(given, rows)
        whole = len(called) == rows
        taken = [each if whole else each.take(pa.array(called, pa.int64())) for each in given]
        made = self._made(taken, len(called)) if called else Made(pa.nulls(0, self.kind), {})
        faults: list[str | None] = [None] * rows
        for number, fault in made.faults.items():
            faults[called[number]] = fault
        values = made.values if whole else _spread(made.values, called, rows)
        return pa.StructArray.from_arrays([values, pa.array(faults, pa.string())], ["value", "fault"])

    def _called(self, given: Sequence[pa.Array], rows: int) -> list[int]:
        """The rows for which the function is called."""
        last = len(self.body.needs) - 1
        needed = [each for place, each in enumerate(given) if self.body.needs[min(place, last)] and each.null_count]
        if not needed:
            return list(range(rows))
        there = needed[0].is_valid()
        for each in needed[1:]:
            there = pc.and_(there, each.is_valid())
        return [number for number, is_there in enumerate(there.to_pylist()) if is_there]

    def _made(self, given: Sequence[pa.Array], rows: int) -> Made:
        if self.body.form == "row":
            return self._by_row(given, rows)
        try:
            return Made(self._at_once(given, rows), {})
        except RAISED as error:
            if rows == 1 or isinstance(error, NumberError):
                faults = {number: self._fault(error, given, number) for number in range(rows)}
                return Made(pa.nulls(rows, self.kind), faults)
        # A single row is to blame.
        alone = [self._made([each.slice(number, 1) for each in given], 1) for number in range(rows)]
        faults = {number: made.faults[0] for number, made in enumerate(alone) if made.faults}
        return Made(pa.concat_arrays([made.values for made in alone]), faults)

    def _at_once(self, given: Sequence[pa.Array], rows: int) -> pa.Array:
        """The result of a vectorised function, as values of the type."""
        if self.body.form == "pandas":
            import pandas as pd

            series = [_as_series(each, needed) for each, needed in zip(given, self._needs(given), strict=True)]
            found = self.body.call(*series)
            if not isinstance(found, pd.Series):
                raise TypeError(f"it returned {type(found).__name__}, not a Series")
            made = series_kept(found, self.kind)
        else:
            found = self.body.call(*given)
            if not isinstance(found, pa.Array | pa.ChunkedArray):
                raise TypeError(f"it returned {type(found).__name__}, not a pyarrow Array")
            made = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            made = made if made.type == self.kind else cast_kept(made, self.kind)
        if len(made) != rows:
            raise NumberError(f"it returned {count_of(len(made), 'value')} for {count_of(rows, 'row')}")
        if self.body.fills and made.null_count:
            raise ValueError("it returned a null, but its declared result is not nullable")
        return made

    def _needs(self, given: Sequence[pa.Array]) -> Iterable[bool]:
        return (self.body.needs[min(place, len(self.body.needs) - 1)] for place in range(len(given)))

    def _by_row(self, given: Sequence[pa.Array], rows: int) -> Made:
        call, shape = self.body.call, shaped(self.kind, rows=self.body.rows)
        values: list[Any] = [None] * rows
        faults: dict[int, str] = {}
        lists = [values_of(each) for each in given]
        arguments = zip(*lists, strict=True) if lists else ((),) * rows
        for number, each in enumerate(arguments):
            try:
                # A value of its own: the function may go on with the list that it has returned.
                values[number] = copied(shape(call(*each)))
                if self.body.fills and values[number] is None:
                    raise TypeError("it returned None, but its declared result is not nullable")
            except RAISED as error:
                faults[number] = self._fault(error, given, number)
        return self._fitted(values, faults, given)

    def _fitted(self, values: list[Any], faults: dict[int, str], given: Sequence[pa.Array]) -> Made:
        """Values as Arrow; one that does not fit the type is a fault."""
        schema = pa.schema([pa.field("value", self.kind)])
        records = [{"value": value} for value in values]
        try:
            return Made(to_arrays(records, schema)[0], faults)
        except Exception:  # noqa: BLE001  the faulty value is found below
            for misfit in list(misfits(records, schema)):
                records[misfit.row] = {"value": None}
                faults.setdefault(misfit.row, self._fault(misfit, given, misfit.row))
            return Made(to_arrays(records, schema)[0], faults)

    def _fault(self, error: BaseException, given: Sequence[pa.Array], number: int) -> str:
        """The error as a text that a Spark message can carry."""
        label = self.body.label
        if isinstance(error, MisfitError):
            what = f"the function {label!r} returned a value that does not fit {self.body.gives}: {error.text}"
        else:
            what = f"the function {label!r} raised {type(error).__name__}: {text_of(error)}"
        shown = ", ".join(repr(values_of(each.slice(number, 1))[0]) for each in given)
        return to_wire(
            StepError(
                _clean(what)[: 2 * SHOWN],
                remedy=remedy_for(error),
                record=_clean(f"{label}({shown})")[:SHOWN],
            )
        )


def _spread(values: pa.Array, places: Sequence[int], rows: int) -> pa.Array:
    """`values` at their places among so many rows, the others null."""
    numbers: list[int | None] = [None] * rows
    for number, place in enumerate(places):
        numbers[place] = number
    return values.take(pa.array(numbers, pa.int64()))


def _as_series(column: pa.Array, needed: bool) -> Any:  # noqa: FBT001  of one argument
    """An argument as a series: nullable whole numbers stay whole."""
    import pandas as pd

    kinds = {
        pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.float64(): pd.Float64Dtype(),
    }  # fmt: skip
    return column.to_pandas(types_mapper=None if needed else kinds.get)


def shaped(kind: pa.DataType, *, rows: bool = False) -> Callable[[Any], Any]:
    """A converter from returned records to plain dicts."""
    if rows:
        made = _Rows(tuple(field.name for field in kind.value_type))
        return (lambda value: plain(made(value))) if _has_records(kind.value_type) else made
    inner = plain if _has_records(kind) else lambda value: value
    if pa.types.is_struct(kind):
        names = frozenset(field.name for field in kind)
        return lambda value: None if value is None else mapping(inner(value), names)
    return inner


def _has_records(kind: pa.DataType) -> bool:
    """Whether a value of `kind` contains records."""
    held = [kind.field(n).type for n in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return any(pa.types.is_struct(each) or _has_records(each) for each in held)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a table function, as dicts of `names`."""

    names: tuple[str, ...]

    def __call__(self, made: Any) -> list[dict[str, Any]]:
        if made is None:
            return []
        if isinstance(made, dict | str | bytes):
            raise TypeError(f"it returned {type(made).__name__}, not rows: yield them, or return a list")
        return [self._row(each) for each in made]

    def _row(self, row: Any) -> dict[str, Any]:
        if isinstance(row, tuple):
            return dict(zip(self.names, row, strict=True))
        if isinstance(row, dict) or fields_of(row) is not None:
            return mapping(row, frozenset(self.names))
        if len(self.names) > 1:
            raise TypeError(f"a row of {len(self.names)} fields cannot be {type(row).__name__}")
        return {self.names[0]: row}


def _clean(text: str) -> str:
    """`text` without lone surrogates, which Java does not accept."""
    return text.encode("utf-8", "backslashreplace").decode()

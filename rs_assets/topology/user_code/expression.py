"""The expressions that a step takes: SQL text, a Spark Column or a Python function."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from rs_assets.common.node import NO_EFFECT
from rs_assets.errors import SchemaError, TopologyError
from rs_assets.expressions.functions.udf import PREFIX, declared_in
from rs_assets.records.schema import is_record_type, record_ddl, schema_text
from rs_assets.topology.user_code.called import Called
from rs_assets.topology.user_code.code import HELD
from rs_assets.topology.user_code.deferred import Deferred
from rs_assets.topology.user_code.outside import whole_digest
from rs_assets.topology.user_code.quoting import one_line
from rs_assets.topology.user_code.settings import held_digest
from rs_assets.topology.user_code.spark_column import column_text
from rs_assets.topology.user_code.steady import chance_of, clock_of, unsteady, unsteady_column

if TYPE_CHECKING:
    from pyspark.sql import Column

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SqlText:
    """A piece of Spark SQL; it stays in the JVM."""

    text: str

    def __post_init__(self) -> None:
        """Refuse empty text."""
        if not self.text.strip():
            raise TopologyError("an SQL expression is empty")

    def identity(self) -> str:
        """The text for the fingerprint."""
        return one_line(self.text)


@dataclass(frozen=True, slots=True)
class ColumnBuilder:
    """A Spark Column that is built when the pipeline starts, because a Column needs a running Spark."""

    # Its text has what it does, else its identity.
    build: Callable[[], Column] = field(metadata=NO_EFFECT)
    # The source of the Column, and the fields it names, if known.
    text: str = ""
    fields: frozenset[str] = frozenset()
    # The expression of a Column that was made while Spark ran.
    written: str = ""
    # The step over a table in which it is, whose result must be the same when it is computed again; empty for others.
    steady_in: str = field(default="", metadata=NO_EFFECT)

    def identity(self) -> str:
        """The text for the fingerprint."""
        return self.text or self.written or whole_digest(self.build)

    def column(self) -> Column:
        """The Column, made; TopologyError if it is over a table and would differ when a row goes."""
        made = self.build()
        if self.steady_in:
            _refuse_unsteady(unsteady_column(made), step=self.steady_in)
        return made


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function of one record (a dict); in a fold, of several; in `map_batches`, of an Arrow batch.

    `schema` is the DDL of its result, None if it returns no record. With `trace` Spark computes the function as far as
    tracing understands it: that changes no result, and no identity.
    """

    call: Callable[[Any], Any]
    schema: str | None = None
    trace: bool = field(default=True, metadata=NO_EFFECT)

    def identity(self) -> str:
        """The text for the fingerprint."""
        held = held_digest(self.call)
        return f"{whole_digest(self.call)}{held and HELD}{held} {self.schema or ''}".strip()

    @property
    def label(self) -> str:
        """The function's name, for graphs and errors."""
        return getattr(self.call, "__name__", type(self.call).__name__)


@dataclass(frozen=True, slots=True)
class ConditionText:
    """A condition in the condition language; its SQL depends on the types of the fields."""

    text: str

    def identity(self) -> str:
        """The text for the fingerprint."""
        return " ".join([one_line(self.text), *(each.code for each in declared_in(self.text))])


Expression = SqlText | ColumnBuilder | PythonFunction | ConditionText


def calls_python(node: object) -> bool:
    """Whether a node calls a Python function of records."""
    return function_of(node) is not None


def calls_by_name(node: object) -> bool:
    """Whether a node calls a user-defined function by its name, inside Spark SQL."""
    return any(PREFIX in text for text in _texts(node)) or any(list(declared_in(text)) for text in _written(node))


def texts_of(node: object) -> Iterator[str]:
    """The texts of a node in SQL, of Columns, conditions and scripts, as far as they are known."""
    yield from _texts(node)
    yield from _written(node)


def _written(node: object) -> Iterator[str]:
    """The texts of a node in the condition and script languages."""
    found = [getattr(node, each.name) for each in fields(node)] if is_dataclass(node) else []
    yield from (each.text for each in found if isinstance(each, ConditionText))
    script = getattr(node, "text", "")
    yield script if isinstance(script, str) else ""


def _texts(node: object) -> Iterator[str]:
    """The SQL texts of a node, and those of its Columns."""
    found = [getattr(node, each.name) for each in fields(node)] if is_dataclass(node) else []
    while found:
        value = found.pop()
        if isinstance(value, tuple):
            found += value
        elif isinstance(value, SqlText):
            yield value.text
        elif isinstance(value, ColumnBuilder):
            yield value.text or value.written


def function_of(node: object) -> PythonFunction | None:
    """The Python function of records that a node calls."""
    found = (getattr(node, each.name) for each in fields(node)) if is_dataclass(node) else ()
    return next((each for each in found if isinstance(each, PythonFunction)), None)


def column(build: Callable[[], Column]) -> ColumnBuilder:
    """Use a Spark Column in a step: `build` takes nothing and is called when the pipeline starts.

    >>> from pyspark.sql import functions as F
    >>> step = column(lambda: F.col("page") != "/health")
    """
    if not callable(build):
        raise TopologyError("column() takes a function without arguments", remedy="column(lambda: F.col('a') > 1)")
    return ColumnBuilder(build)


def native(value: object, *, step: str) -> SqlText | ColumnBuilder:
    """`value` as an expression that stays in the JVM; TopologyError for anything else."""
    if isinstance(value, ColumnBuilder | SqlText):
        return value
    if isinstance(value, str):
        return SqlText(value)
    if isinstance(value, Called):
        return SqlText(value.rs_sql)
    if isinstance(value, Deferred):
        return ColumnBuilder(value.rs_build, value.rs_text, value.rs_fields)
    if is_spark_column(value):
        made = typing.cast("Column", value)
        return ColumnBuilder(lambda: made, written=column_text(made))
    raise TopologyError(
        f"step {step!r} takes SQL text or a Spark Column, not {type(value).__name__}",
        remedy="pass a string, or a Column made by rs_assets.F",
    )


def steady(made: Expression, *, step: str) -> Expression:
    """`made` for a step over a table; TopologyError if its result would differ when it is computed again.

    Of a Column that is not made yet this is found when the pipeline starts. Functions in Python are taken.
    """
    if isinstance(made, SqlText | ColumnBuilder):
        _refuse_unsteady(unsteady(made.text), step=step)
    if not isinstance(made, ColumnBuilder):
        return made
    checked = replace(made, steady_in=step)
    if made.written:
        checked.column()
    return checked


def steady_native(value: object, *, step: str) -> SqlText | ColumnBuilder:
    """`native`, and `steady`."""
    return typing.cast("SqlText | ColumnBuilder", steady(native(value, step=step), step=step))


def _refuse_unsteady(found: str | None, *, step: str) -> None:
    if found is not None:
        raise TopologyError(
            f"step {step!r} calls {found}, whose result would differ when a row goes",
            remedy="compute it before .to_table(...)",
            step=step,
        )


def clock_in(node: object) -> str | None:
    """The function of a node's texts that asks for the clock; None without one, and for functions in Python.

    >>> from rs_assets.topology.nodes.step import Filter
    >>> texts = ("ts > now() - INTERVAL 1 DAY", "timestamp(ts) > since", "page = 'now()' AND `today` > 1")
    >>> [clock_in(Filter(name="f", inputs=("a",), condition=SqlText(text))) for text in texts]
    ['now', None, None]
    """
    return next(filter(None, map(clock_of, texts_of(node))), None)


def chance_in(node: object) -> str | None:
    """The function of a node's texts whose result differs from call to call; None without one, and for Python.

    >>> from rs_assets.topology.nodes.step import Filter
    >>> texts = ("rand(7) > 0.5", "uuid() <> id", "`rand` > 1 AND page = 'uuid()'")
    >>> [chance_in(Filter(name="f", inputs=("a",), condition=SqlText(text))) for text in texts]
    ['rand', 'uuid', None]
    """
    return next(filter(None, map(chance_of, texts_of(node))), None)


def expression(value: object, *, step: str, schema: object = None, trace: bool = True) -> Expression:
    """`value` as an expression: a string is SQL, a Column stays one, any other callable is a function of a dict."""
    if callable(value) and not isinstance(value, ColumnBuilder) and not is_spark_column(value):
        return PythonFunction(value, schema_text(schema, step=step), trace)
    if schema is not None:
        raise TopologyError(f"step {step!r}: a schema is declared only for a Python function")
    return native(value, step=step)


def is_spark_column(value: object) -> bool:
    """Whether `value` is a pyspark Column; does not import pyspark."""
    return any(cls.__name__ == "Column" and cls.__module__.startswith("pyspark.") for cls in type(value).__mro__)


def returned_schema(function: Callable[..., Any], declared: object, *, step: str) -> str:
    """The DDL of the records that `function` returns: `declared`, else read from its return annotation.

    The annotation may be a TypedDict, a dataclass, a NamedTuple, a Pydantic model, or a list, iterable or Optional of
    one.

    >>> class Hit(typing.TypedDict):
    ...     page: str
    ...     ms: int | None
    >>> def parse(row: dict) -> Hit: ...
    >>> returned_schema(parse, None, step="parse")
    '`page` string, `ms` bigint'
    """
    text = schema_text(declared, step=step)
    if text is not None:
        return text
    try:
        annotation = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        annotation = None
    record = _record_type(annotation)
    if record is None:
        raise SchemaError(
            f"step {step!r} calls a Python function whose result has no schema",
            remedy="pass schema='page string, ms bigint', or annotate the return with a TypedDict or a dataclass",
            step=step,
        )
    return record_ddl(record, step=step)


def _record_type(annotation: object) -> type | None:
    """The class of records inside `annotation`, or None."""
    if is_record_type(annotation):
        return typing.cast("type", annotation)
    for inner in typing.get_args(annotation):
        found = _record_type(inner)
        if found is not None:
            return found
    return None

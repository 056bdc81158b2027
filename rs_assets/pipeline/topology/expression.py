"""What a user may write where a step needs an expression: SQL text, a Spark Column or a Python function."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rs_assets.errors import SchemaError, TopologyError
from rs_assets.pipeline.topology.code import code_digest

if TYPE_CHECKING:
    from pyspark.sql import Column

Record = dict[str, Any]

# The Spark type of each Python type that may stand in a return annotation.
DDL_TYPES: dict[object, str] = {
    str: "string",
    int: "bigint",
    float: "double",
    bool: "boolean",
    bytes: "binary",
    datetime: "timestamp",
    date: "date",
    Decimal: "decimal(38,18)",
}


@dataclass(frozen=True, slots=True)
class SqlText:
    """A piece of Spark SQL; it stays in the JVM."""

    text: str

    def __post_init__(self) -> None:
        """Refuse empty text."""
        if not self.text.strip():
            raise TopologyError("an SQL expression is empty")

    def identity(self) -> str:
        """What the fingerprint takes of it."""
        return " ".join(self.text.split())


@dataclass(frozen=True, slots=True)
class ColumnBuilder:
    """A Spark Column that is built when the pipeline starts, because a Column needs a running Spark."""

    build: Callable[[], Column]

    def identity(self) -> str:
        """What the fingerprint takes of it."""
        return code_digest(self.build)


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function of one record (a dict); `schema` is the DDL of what it returns, None where it returns none."""

    call: Callable[[Record], Any]
    schema: str | None = None

    def identity(self) -> str:
        """What the fingerprint takes of it."""
        return f"{code_digest(self.call)} {self.schema or ''}".strip()

    @property
    def label(self) -> str:
        """The function's name, for graphs and errors."""
        return getattr(self.call, "__name__", type(self.call).__name__)


Expression = SqlText | ColumnBuilder | PythonFunction


def calls_python(node: object) -> bool:
    """Whether a node calls a Python function of records."""
    return is_dataclass(node) and any(isinstance(getattr(node, each.name), PythonFunction) for each in fields(node))


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
    if is_spark_column(value):
        made = typing.cast("Column", value)
        return ColumnBuilder(lambda: made)
    raise TopologyError(
        f"step {step!r} takes SQL text or a Spark Column, not {type(value).__name__}",
        remedy="pass a string, or column(lambda: ...)",
    )


def expression(value: object, *, step: str, schema: str | None = None) -> Expression:
    """`value` as an expression: a string is SQL, a Column stays one, any other callable is a function of a dict."""
    if callable(value) and not isinstance(value, ColumnBuilder) and not is_spark_column(value):
        return PythonFunction(value, schema)
    if schema is not None:
        raise TopologyError(f"step {step!r}: a schema is declared only for a Python function")
    return native(value, step=step)


def is_spark_column(value: object) -> bool:
    """Whether `value` is a pyspark Column; does not import pyspark."""
    return any(cls.__name__ == "Column" and cls.__module__.startswith("pyspark.") for cls in type(value).__mro__)


def returned_schema(function: Callable[..., Any], declared: str | None, *, step: str) -> str:
    """The DDL of the records that `function` returns: `declared`, else read from its return annotation.

    The annotation may be a TypedDict, a dataclass, or a list, iterable or Optional of one.

    >>> class Hit(typing.TypedDict):
    ...     page: str
    ...     ms: int | None
    >>> def parse(row: dict) -> Hit: ...
    >>> returned_schema(parse, None, step="parse")
    '`page` string, `ms` bigint'
    """
    if declared is not None:
        if not isinstance(declared, str) or not declared.strip():
            raise SchemaError(f"the schema of step {step!r} must be DDL text, not {declared!r}", step=step)
        return declared
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
    return ", ".join(f"`{name}` {_ddl(kind, step=step, field=name)}" for name, kind in _members(record).items())


def _record_type(annotation: object) -> type | None:
    """The TypedDict or dataclass inside `annotation`, or None."""
    if isinstance(annotation, type) and (typing.is_typeddict(annotation) or is_dataclass(annotation)):
        return annotation
    for inner in typing.get_args(annotation):
        found = _record_type(inner)
        if found is not None:
            return found
    return None


def _members(record: type) -> dict[str, object]:
    hints = typing.get_type_hints(record)
    names = [f.name for f in fields(record)] if is_dataclass(record) else list(hints)
    return {name: hints[name] for name in names}


def _ddl(kind: object, *, step: str, field: str) -> str:
    """The Spark type of a Python annotation."""
    if kind in DDL_TYPES:
        return DDL_TYPES[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        real = [arg for arg in args if arg is not type(None)]
        if len(real) == 1:
            return _ddl(real[0], step=step, field=field)
    if origin is list and args:
        return f"array<{_ddl(args[0], step=step, field=field)}>"
    if origin is dict and args:
        return f"map<{_ddl(args[0], step=step, field=field)},{_ddl(args[1], step=step, field=field)}>"
    raise SchemaError(
        f"step {step!r}: the type {kind!r} of field {field!r} has no Spark type",
        remedy="declare it with schema='...'",
        step=step,
    )

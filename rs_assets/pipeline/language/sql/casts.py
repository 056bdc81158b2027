"""Casts: where Flink and Spark differ, Flink's meaning is written out; where only Spark has one, it is refused."""

from __future__ import annotations

from rs_assets.engine.functions.literals import quote
from rs_assets.pipeline.check.types import Type
from rs_assets.pipeline.language.sql.source import Text
from rs_assets.pipeline.language.sql.types import is_number
from rs_assets.pipeline.language.sql.values import Value

MILLISECONDS = "yyyy-MM-dd HH:mm:ss.SSS"


def cast(text: Text, value: Value, kind: Type, at: object, *, failing: str = "cast") -> Value:
    """`value` as `kind`; `failing` is the function of Spark that does it: `cast` fails, `try_cast` gives null.

    SqlError for numbers and times, which Flink does not make of each other, and Spark takes for seconds.
    """
    known = value.type
    if known is not None and known.text == kind.text:
        return Value(value.text, kind, value.role)
    if known is not None and {known.name, kind.name} >= {"timestamp"} and (is_number(known) or is_number(kind)):
        remedy = "UNIX_TIMESTAMP(CAST(ts AS STRING))" if is_number(kind) else "TO_TIMESTAMP_LTZ(ms, 3)"
        raise text.error(f"a {known.text.upper()} is no {kind.text.upper()}", at, remedy=f"write {remedy}")
    if known is not None and kind.name == "string" and known.name == "timestamp":
        return Value(f"date_format({value.text}, {quote(MILLISECONDS)})", kind)
    if known is not None and kind.name == "string" and known.name == "boolean":
        return Value(f"upper(cast({value.text} AS string))", kind)
    return Value(f"{failing}({value.plain} AS {kind.text})", kind)


def fits(known: Type | None, kind: Type) -> bool:
    """Whether a sink's column of the type `kind` takes values of the type `known` by itself, as in Flink."""
    if known is None or known.name in (kind.name, "void"):
        return True
    if is_number(known) and is_number(kind):
        return True
    return {known.name, kind.name} == {"timestamp", "date"}

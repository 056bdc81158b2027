"""Functions of JSON as in Flink: JSON_VALUE, JSON_EXISTS and JSON_QUERY, with their clauses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rs_assets.expressions.functions.literals import quote, unquote
from rs_assets.records.types import Type
from rs_assets.sql.expressions.sql_function import Refusal, SqlFunction
from rs_assets.sql.expressions.values import Value
from rs_assets.sql.read.json_clauses import DEFAULT, ON, RETURNING, WRAPPER
from rs_assets.sql.read.types import BIGINT, BOOLEAN, DOUBLE, TEXT

# A path to one value: $.a.b[0]['c d'], with or without lax or strict.
PATH: Final = re.compile(r"(?:(lax|strict) )?\$((?:\.[^.\[\]*'\" ()?@]+|\[\d+\]|\.?\['[^'*\]]+'\])*)")
STEP: Final = re.compile(r"\.([^.\[\]']+)|\[(\d+)\]|\.?\['([^']+)'\]")
# The types that a value may be returned as.
TYPES: Final[Mapping[str, Type]] = MappingProxyType(
    {
        "STRING": TEXT,
        "VARCHAR": TEXT,
        "BOOLEAN": BOOLEAN,
        "INT": Type("int"),
        "INTEGER": Type("int"),
        "BIGINT": BIGINT,
        "DOUBLE": DOUBLE,
    }
)
# The types of a default that fit a value without a cast.
NARROWER: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"bigint": frozenset({"int"}), "double": frozenset({"int", "bigint", "decimal", "float"})}
)
GIVEN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "TRUE": "true",
        "FALSE": "false",
        "EMPTY": "'[]'",
        "EMPTY ARRAY": "'[]'",
        "EMPTY OBJECT": "'{}'",
        "ABSENT": "ABSENT",
        "ERROR": "raise_error('a function of JSON found no such value, and says ERROR')",
    }
)
# A text, a path, and three clauses.
MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Clause(Value):
    """A clause as an argument: of its kind `of`, `text` is its last word, or the SQL of the value that it gives."""

    of: str = ""


def clause(name: str, values: Sequence[Value]) -> Clause:
    """The clause that the reader has marked by `name`.

    >>> clause(ON, [Value("'EMPTY ARRAY ON ERROR'")])
    Clause(text="'[]'", type=None, role='', of='ERROR')
    """
    said = unquote(values[-1].text) or ""
    if name == DEFAULT:
        return Clause(values[0].text, values[0].type, of=said)
    if name == ON:
        given, _, of = said.rpartition(" ON ")
        return Clause(GIVEN.get(given, "NULL"), of=of)
    return Clause(said.removeprefix("RETURNING ").replace(" ", "") if name == RETURNING else said, of=name)


@dataclass(frozen=True, slots=True)
class Call:
    """A call with a path that was checked: its arguments as Spark SQL, and its clauses by their kind."""

    text: str
    path: str
    strict: bool
    clauses: Mapping[str, Clause]

    @classmethod
    def of(cls, values: Sequence[Value]) -> Call:
        """The call with these arguments; without `lax` its path is strict."""
        found = PATH.fullmatch(unquote(values[1].text) or "")
        assert found is not None  # checked before
        steps = [each.groups() for each in STEP.finditer(found[2])]
        path = "$" + "".join(f"[{place}]" if place else f"['{name or other}']" for name, place, other in steps)
        clauses = {each.of: each for each in values if isinstance(each, Clause)}
        return cls(values[0].plain, quote(path), found[1] != "lax", clauses)

    def found(self, kind: str = "variant") -> str:
        """The value at the path; null if there is none, or the text is not JSON."""
        return f"try_variant_get(try_parse_json({self.text}), {self.path}, '{kind}')"

    def nested(self, kinds: str = "OBJECT|ARRAY") -> str:
        """Whether it is an object or an array, or of these kinds alone."""
        return f"schema_of_variant({self.found()}) RLIKE '^({kinds})'"

    def given(self, of: str, default: str = "NULL") -> str:
        """What the clause of this kind gives or names."""
        return self.clauses[of].text if of in self.clauses else default

    def completed(self, value: str, kind: Type) -> str:
        """`value`, and where it is null what the clauses give; without a text it is null.

        By a strict path all that is wrong is an error, by a lax one it is empty.
        """
        given = self.given("ERROR" if self.strict else "EMPTY")
        if given == "NULL":
            return value
        return f"cast(CASE WHEN {self.text} IS NOT NULL THEN coalesce({value}, {given}) END AS {kind.text})"


def _refused(values: Sequence[Value]) -> Refusal:
    """The fault of a path or of clauses."""
    path, clauses = unquote(values[1].text), [each for each in values if isinstance(each, Clause)]
    if path is None or PATH.fullmatch(path) is None:
        return "its path must be a literal that selects one value", "write it as '$.a.b[0]'"
    kinds = [each.of for each in clauses]
    if len(set(kinds)) < len(kinds) or len(values) > len(clauses) + 2:
        return "it takes a text, a path, and each clause once", "see docs/sql.md for its arguments"
    return None


def _refused_value(values: Sequence[Value]) -> Refusal:
    refused = _refused(values)
    if refused is not None:
        return refused
    call = Call.of(values)
    name = call.given(RETURNING, "STRING")
    kind = TYPES.get(name)
    if kind is None:
        return f"RETURNING {name} is not supported", f"CAST(JSON_VALUE(...) AS {name}), or one of: {', '.join(TYPES)}"
    for each in call.clauses.values():
        of = each.type.name if each.type is not None else "void"
        if of not in ("void", kind.name) and of not in NARROWER.get(kind.name, ()):
            said = f"the default is {of.upper()}, and its value {kind.name.upper()}"
            return said, f"DEFAULT CAST(... AS {kind.name.upper()})"
    return None


def _refused_exists(values: Sequence[Value]) -> Refusal:
    refused = _refused(values)
    if refused is None and "EMPTY" in Call.of(values).clauses:
        return (
            "a missing value is not empty here, so ON EMPTY has no meaning",
            "write FALSE ON ERROR, or leave the clause out",
        )
    return refused


def _refused_query(values: Sequence[Value]) -> Refusal:
    refused = _refused(values)
    if refused is None and Call.of(values).given(RETURNING, "STRING") not in ("STRING", "VARCHAR"):
        return "it returns a text only", "leave RETURNING out"
    return refused


def _kind(values: Sequence[Value]) -> Type:
    return TYPES[Call.of(values).given(RETURNING, "STRING")]


def _value(values: Sequence[Value]) -> str:
    """One value as its type; null for an object, an array, a value of another type, and invalid JSON."""
    call, kind = Call.of(values), _kind(values)
    text = call.found("string")
    if kind.name == "boolean":
        text = f"CASE {text} WHEN 'true' THEN true WHEN 'false' THEN false END"
    elif kind.name != "string":
        text = f"try_cast({text} AS {kind.text})"
    return call.completed(f"(CASE WHEN NOT {call.nested()} THEN {text} END)", kind)


def _exists(values: Sequence[Value]) -> str:
    """Whether there is a value that is not null; false for an error by default."""
    call = Call.of(values)
    error = call.given("ERROR", "false") if call.strict else "false"
    made = f"CASE WHEN {call.found()} IS NULL THEN {error} ELSE NOT is_variant_null({call.found()}) END"
    return f"cast(CASE WHEN {call.text} IS NOT NULL THEN {made} END AS boolean)"


def _query(values: Sequence[Value]) -> str:
    """An object or an array as a text, and with a wrapper any value but null in an array."""
    call = Call.of(values)
    text, words = f"nullif(to_json({call.found()}), 'null')", call.given(WRAPPER, "WITHOUT").split()
    wrapped = f"concat('[', {text}, ']')"
    if words[0] == "WITHOUT":
        made = f"CASE WHEN {call.nested()} THEN {text} END"
    else:
        # A condition leaves an array as it is.
        made = f"CASE WHEN {call.nested('ARRAY')} THEN {text} ELSE {wrapped} END" if "CONDITIONAL" in words else wrapped
    return call.completed(f"({made})", TEXT)


JSON_FUNCTIONS: Final[Mapping[str, SqlFunction]] = MappingProxyType(
    {
        "JSON_VALUE": SqlFunction(2, MOST, _value, _kind, texts=(0, 1), refuses=_refused_value),
        "JSON_EXISTS": SqlFunction(2, MOST, _exists, "boolean", texts=(0, 1), refuses=_refused_exists),
        "JSON_QUERY": SqlFunction(2, MOST, _query, "string", texts=(0, 1), refuses=_refused_query),
    }
)

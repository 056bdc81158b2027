"""CREATE TABLE: columns, keys, watermarks and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rs_assets.errors import SqlError
from rs_assets.records.types import Type, type_in
from rs_assets.sql.read.cursor import Cursor
from rs_assets.sql.read.source import Text, nearest
from rs_assets.sql.read.statements import Column, CreateTable, Expectation, Watermark, Word
from rs_assets.sql.read.trees import read_tree
from rs_assets.sql.read.types import DECIMALS, SIMPLE, too_many_digits, unknown_type
from rs_assets.sql.spark.tables import spark_table

# Ignored suffixes of types.
SIZED = ("VARCHAR", "CHAR", "TIMESTAMP", "TIMESTAMP_LTZ", "BINARY", "VARBINARY")
# What may happen to a row that does not meet an expectation.
VIOLATIONS: Mapping[str, str] = MappingProxyType({"DROP ROW": "skip", "FAIL UPDATE": "fail"})


@dataclass(slots=True)
class _Table:
    """A table while it is read."""

    name: Word
    columns: list[Column] = field(default_factory=list)
    key: tuple[Word, ...] = ()
    watermark: Watermark | None = None
    expectations: list[Expectation] = field(default_factory=list)


def table(cursor: Cursor) -> CreateTable:
    """Reads a table, beginning with its name."""
    made = _Table(cursor.name("the table"))
    cursor.need("(", "name its columns: CREATE TABLE t (id BIGINT) WITH (...)")
    _part(cursor, made)
    while cursor.take(","):
        _part(cursor, made)
    cursor.need(")", "separate columns by commas")
    options, partitioned = spark_table(cursor) if cursor.text.dialect == "spark" else _table_clauses(cursor)
    _check(cursor.text, made, partitioned)
    return CreateTable(
        name=made.name,
        columns=tuple(made.columns),
        key=made.key,
        watermark=made.watermark,
        partitioned_by=partitioned,
        expectations=tuple(made.expectations),
        options=MappingProxyType(dict(options)),
    )


def _table_clauses(cursor: Cursor) -> tuple[Mapping[str, tuple[Word, Word]], tuple[Word, ...]]:
    """The options and the partition columns of a table."""
    if cursor.take("COMMENT"):
        cursor.string("the comment")
    partitioned = cursor.names() if cursor.take("PARTITIONED BY") else ()
    return _options(cursor) if cursor.take("WITH") else {}, partitioned


def _part(cursor: Cursor, made: _Table) -> None:
    if cursor.take("WATERMARK"):
        _watermark(cursor, made)
    elif cursor.take("PERIOD FOR SYSTEM_TIME"):
        return
    elif cursor.take("CONSTRAINT"):
        _named_constraint(cursor, made, cursor.name("the constraint"))
    elif cursor.take("PRIMARY KEY"):
        _key(cursor, made, cursor.names())
    else:
        _column(cursor, made)


def _named_constraint(cursor: Cursor, made: _Table, name: Word) -> None:
    if not cursor.take("EXPECT"):
        cursor.need("PRIMARY KEY", "PRIMARY KEY (id) NOT ENFORCED, or EXPECT (ms >= 0)")
        _key(cursor, made, cursor.names())
        return
    if any(name.text.casefold() == other.name.text.casefold() for other in made.expectations):
        raise cursor.text.error(f"duplicate constraint {name.text!r}", name.start, remedy="rename one of them")
    cursor.need("(", "EXPECT (ms >= 0)")
    tokens = cursor.until()
    if not tokens:
        raise cursor.error("a condition is missing", remedy="EXPECT (ms >= 0)")
    condition = read_tree(cursor.text, tokens)
    cursor.need(")")
    made.expectations.append(Expectation(name=name, condition=condition, on_fail=_violation(cursor)))


def _violation(cursor: Cursor) -> str:
    """What happens to rows for which the condition is not true."""
    if not cursor.take("ON VIOLATION"):
        return "warn"
    found = next((on_fail for words, on_fail in VIOLATIONS.items() if cursor.take(words)), None)
    if found is None:
        what = f"{cursor.shown()} is not what may happen to a row"
        raise cursor.error(what, remedy="ON VIOLATION DROP ROW, or FAIL UPDATE; without it rows are counted, and go on")
    return found


def _watermark(cursor: Cursor, made: _Table) -> None:
    at = cursor.before
    if not cursor.at("FOR"):
        cursor.name("the watermark")
    cursor.need("FOR")
    column = cursor.name()
    cursor.need("AS")
    tree = read_tree(cursor.text, cursor.until(","))
    if made.watermark is not None:
        raise cursor.text.error("a table has only one watermark", at, remedy="remove one of them")
    made.watermark = Watermark(column=column, expression=tree)


def _key(cursor: Cursor, made: _Table, names: tuple[Word, ...]) -> None:
    if made.key:
        raise cursor.text.error("a table has only one primary key", names[0].start, remedy="PRIMARY KEY (a, b)")
    made.key = names
    cursor.take("NOT ENFORCED")


def _column(cursor: Cursor, made: _Table) -> None:
    name = cursor.name()
    if cursor.take("AS"):
        tree = read_tree(cursor.text, cursor.until(",", "COMMENT"))
        column = Column(name=name, computed=tree)
    else:
        kind = read_type(cursor)
        metadata = _metadata(cursor, name)
        virtual = metadata is not None and bool(cursor.take("VIRTUAL"))
        column = Column(name=name, type=kind, metadata=metadata, virtual=virtual)
    made.columns.append(replace(column, required=_constraint(cursor, made, name)))


def _metadata(cursor: Cursor, name: Word) -> Word | None:
    if cursor.take("HEADER"):
        return name
    if not cursor.take("METADATA"):
        return None
    return cursor.string("the metadata's key") if cursor.take("FROM") else name


def _constraint(cursor: Cursor, made: _Table, name: Word) -> bool:
    """Reads column constraints and comments, and says whether one is NOT NULL."""
    required = False
    while not (cursor.at(",") or cursor.at(")") or cursor.peek() is None):
        if cursor.take("PRIMARY KEY"):
            _key(cursor, made, (name,))
        elif cursor.take("COMMENT"):
            cursor.string("the comment")
        elif cursor.take("NOT NULL"):
            required = True
        elif not cursor.take("NULL"):
            raise cursor.error(
                f"{cursor.shown()} is not allowed after the column {name.text!r}", remedy="separate columns by commas"
            )
    return required


def read_type(cursor: Cursor) -> Type:
    """The next type, as Spark names it."""
    ddl = _ddl(cursor)
    made = type_in(ddl)
    if made is None and ddl.startswith("decimal"):
        raise too_many_digits(cursor.text, cursor.before)
    if made is None:
        raise cursor.text.error(f"the type {ddl} is not supported", cursor.before)
    return made


def _ddl(cursor: Cursor) -> str:
    at, name = cursor.start, cursor.word()
    if not name[:1].isalpha():
        raise cursor.error(f"expected a type, found {cursor.shown()}", remedy="write it as id BIGINT")
    cursor.place += 1
    if name == "ARRAY":
        return f"array<{_ddl_inside(cursor)}>"
    if name == "MAP":
        cursor.need("<")
        key = _ddl(cursor)
        cursor.need(",")
        value = _ddl(cursor)
        cursor.need(">")
        return f"map<{key},{value}>"
    if name in ("ROW", "STRUCT"):
        return _row(cursor)
    if name in DECIMALS:
        return f"decimal({_size(cursor, '10,0')})"
    if name not in SIMPLE:
        raise unknown_type(cursor.text, name, at)
    return _simple(cursor, name)


def _simple(cursor: Cursor, name: str) -> str:
    if name in SIZED:
        _size(cursor, "")
    if name == "DOUBLE":
        cursor.take("PRECISION")
    if name == "TIMESTAMP":
        cursor.take("WITHOUT TIME ZONE")
        cursor.take("WITH LOCAL TIME ZONE")
    return SIMPLE[name]


def _ddl_inside(cursor: Cursor) -> str:
    cursor.need("<", "write it as ARRAY<STRING>")
    made = _ddl(cursor)
    cursor.need(">")
    return made


def _row(cursor: Cursor) -> str:
    end = ">" if cursor.take("<") else ")"
    if end == ")":
        cursor.need("(", "write it as ROW<id BIGINT, name STRING>")
    parts = [_field(cursor)]
    while cursor.take(","):
        parts.append(_field(cursor))
    cursor.need(end)
    return f"struct<{','.join(parts)}>"


def _field(cursor: Cursor) -> str:
    name = cursor.name("a field").text
    cursor.take(":")
    return f"`{name}`:{_ddl(cursor)}"


def _size(cursor: Cursor, default: str) -> str:
    """The numbers in brackets after a type."""
    if not cursor.take("("):
        return default
    numbers = [_number(cursor)]
    while cursor.take(","):
        numbers.append(_number(cursor))
    cursor.need(")")
    return ",".join(numbers if len(numbers) > 1 or not default else [*numbers, "0"])


def _number(cursor: Cursor) -> str:
    found = cursor.word()
    if not found.isdigit():
        raise cursor.error(f"expected a number, found {cursor.shown()}")
    cursor.place += 1
    return found


def _options(cursor: Cursor) -> Mapping[str, tuple[Word, Word]]:
    cursor.need("(")
    made: dict[str, tuple[Word, Word]] = {}
    while True:
        key = cursor.option_key()
        cursor.need("=")
        if key.text in made:
            raise cursor.text.error(f"duplicate option {key.text!r}", key.start, remedy="remove one")
        made[key.text] = (key, cursor.string(f"the value of {key.text!r}"))
        if not cursor.take(","):
            break
    cursor.need(")", "separate options by commas")
    return made


def _check(text: Text, made: _Table, partitioned: tuple[Word, ...]) -> None:
    """SqlError for duplicate and for unknown columns."""
    names: dict[str, str] = {}
    for column in made.columns:
        name = column.name.text
        if name.casefold() in names:
            other = names[name.casefold()]
            why = "" if other == name else f", which differs from {other!r} only by case"
            raise text.error(f"duplicate column {name!r}{why}", column.name.start, remedy="rename one of them")
        names[name.casefold()] = name
    for word in (*made.key, *partitioned, *((made.watermark.column,) if made.watermark else ())):
        if word.text not in names.values():
            raise unknown_column(text, word, names.values(), made.name.text)


def unknown_column(text: Text, name: Word, known: object, table: str) -> SqlError:
    """The error for an unknown column of a table."""
    names = list(known)  # type: ignore[call-overload]
    return text.error(f"the table {table!r} has no column {name.text!r}", name.start, remedy=nearest(name.text, names))

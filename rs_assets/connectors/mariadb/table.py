"""What a source must know of a table of MariaDB: columns and their types, its key, and what its log leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from rs_assets.connectors.database.mysql import quoted
from rs_assets.connectors.database.place import split_table
from rs_assets.connectors.mariadb.charsets import CODECS
from rs_assets.errors import SchemaError, SourceReadError

# Executes a query with values, and gives its rows.
Ask = Callable[..., list[tuple[Any, ...]]]
# Spark's limit.
DIGITS: Final = 38
_SIGNED: Final = {"tinyint": "tinyint", "smallint": "smallint", "mediumint": "int", "int": "int", "bigint": "bigint"}
_UNSIGNED: Final = {"tinyint": "smallint", "smallint": "int", "mediumint": "int", "int": "bigint"}
# The types of fields by those of columns; MariaDB's JSON is text.
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    _SIGNED
    | dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "time"), "string")
    | dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "bit"), "binary")
    | {"float": "float", "double": "double", "date": "date", "datetime": "timestamp_ntz", "timestamp": "timestamp"}
    | {"year": "int"}
)
_PLACE: Final = """SELECT table_schema, table_name, table_type, coalesce(engine, '') FROM information_schema.tables
 WHERE table_schema = coalesce(%s, database()) AND table_name = %s"""
_COLUMNS: Final = """SELECT column_name, data_type, column_type, character_set_name FROM information_schema.columns
 WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""
_KEYS: Final = """SELECT column_name FROM information_schema.statistics
 WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index"""
_CASCADES: Final = """SELECT constraint_name, referenced_table_name FROM information_schema.referential_constraints
 WHERE constraint_schema = %s AND table_name = %s
 AND (update_rule NOT IN ('RESTRICT', 'NO ACTION') OR delete_rule NOT IN ('RESTRICT', 'NO ACTION'))"""
# Values of an ENUM as the server writes them.
_NAME: Final = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_WRITTEN: Final = re.compile(r"''|\\(.)", re.DOTALL)
_MARKS: Final[Mapping[str, str]] = MappingProxyType({"n": "\n", "r": "\r", "0": "\0"})
_SIZE: Final = re.compile(r"\((\d+)(?:,(\d+))?\)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `type` is its plain type, `declared` the whole one, as in `int(10) unsigned`."""

    name: str
    type: str
    declared: str
    charset: str | None = None

    @property
    def unsigned(self) -> bool:
        """Whether it has no negative numbers."""
        return "unsigned" in self.declared

    @property
    def length(self) -> int:
        """The number in its type, 0 for none."""
        found = _SIZE.search(self.declared)
        return int(found[1]) if found else 0

    @property
    def bits(self) -> int | None:
        """The number of bits of a column BIT."""
        return self.length or 1 if self.type == "bit" else None

    @property
    def names(self) -> tuple[str, ...]:
        """The values of an ENUM or a SET."""
        return tuple(_WRITTEN.sub(_meant, name) for name in _NAME.findall(self.declared))

    @property
    def odd_charset(self) -> bool:
        """Whether its texts are in a character set that is not known here; an ENUM and a SET log numbers."""
        return self.charset is not None and self.charset not in CODECS and self.type not in ("enum", "set")

    @property
    def kind(self) -> str | None:
        """The type of its field; None for a column that cannot be read.

        >>> [Column("a", t, d).kind for t, d in (("tinyint", "tinyint(1)"), ("bigint", "bigint(20) unsigned"))]
        ['boolean', 'decimal(20,0)']
        """
        if self.declared == "tinyint(1)" or self.bits == 1:
            return "boolean"
        if self.type == "decimal":
            found = _SIZE.search(self.declared)
            digits, scale = (int(found[1]), int(found[2] or 0)) if found else (10, 0)
            return f"decimal({digits},{scale})" if digits <= DIGITS else "string"
        if self.unsigned and self.type in _SIGNED:
            return _UNSIGNED.get(self.type, "decimal(20,0)")
        return TYPES.get(self.type)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is now."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    cascade: str | None = None

    @property
    def quoted(self) -> str:
        """Its name in SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def fields(self) -> dict[str, str]:
        """Its columns and their types; those that cannot be read have the type `string`."""
        return {column.name: column.kind or "string" for column in self.columns}

    def facts(self) -> dict[str, Any]:
        """What is noted with its rows, for JSON."""
        columns = {c.name: [c.type, c.declared, c.charset] for c in self.columns}
        return {"schema": self.schema, "name": self.name, "columns": columns, "keys": [*self.keys]}

    def check(self, read: Iterable[str], *, step: str) -> None:
        """SchemaError for a field without a column, SourceReadError if a change of a column is not logged."""
        known = {column.name: column for column in self.columns}
        names = [*read]
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            raise SchemaError(
                f"step {step!r}: the table {self.quoted} has no column {missing!r}",
                remedy=f"its columns are: {', '.join(known)}",
                step=step,
            )
        odd = next((name for name in names if known[name].kind is None), None)
        if odd is not None:
            raise SourceReadError(
                f"the column {odd!r} of the table {self.quoted} is {known[odd].declared}, which the log packs in a way"
                " that is not read here",
                remedy="read only other columns: schema='...'",
                step=step,
            )
        self.check_texts(names, step=step)
        if self.cascade is not None:
            raise SourceReadError(
                f"the foreign key {self.cascade!r} of the table {self.quoted} changes its rows with those of another"
                " table (CASCADE, SET NULL), and such changes are not logged",
                remedy=f"ALTER TABLE {self.quoted} DROP FOREIGN KEY {quoted(self.cascade)}, and a key with RESTRICT in"
                " its place; or read the table by from_database",
                step=step,
            )

    def check_texts(self, read: Iterable[str], *, step: str) -> None:
        """SourceReadError for a column of a character set whose texts are decoded otherwise here than by the server."""
        known = {column.name: column for column in self.columns}
        odd = next((known[name] for name in read if name in known and known[name].odd_charset), None)
        if odd is not None:
            raise SourceReadError(
                f"the column {odd.name!r} of the table {self.quoted} has the character set {odd.charset}, whose texts"
                " in the log are not read here as the server reads them",
                remedy=f"ALTER TABLE {self.quoted} CONVERT TO CHARACTER SET utf8mb4; or read only other columns:"
                " schema='...'",
                step=step,
            )


def _meant(found: re.Match[str]) -> str:
    """What a doubled quote, or a character after a backslash, is."""
    return "'" if found[1] is None else _MARKS.get(found[1], found[1])


def table_from(facts: Mapping[str, Any]) -> Table:
    """The table of what was noted."""
    columns = tuple(Column(name, *of) for name, of in facts["columns"].items())
    return Table(facts["schema"], facts["name"], columns, tuple(facts["keys"]))


def table_of(ask: Ask, name: str, *, step: str) -> Table:
    """The table `name` or `schema.name`; SourceReadError if there is none, or if its changes cannot be read."""
    schema, table = split_table(name)
    found = ask(_PLACE, schema, table)
    if not found:
        raise SourceReadError(
            f"there is no table {name!r}",
            remedy="correct its name, or write the schema before it: 'shop.orders'",
            step=step,
        )
    schema_name, table_name, kind, engine = found[0]
    if kind != "BASE TABLE" or engine.lower() != "innodb":
        raise SourceReadError(
            f"{name!r} is {kind.lower()} {engine}".rstrip() + ": changes can be read of plain tables of InnoDB",
            remedy=f"ALTER TABLE {name} ENGINE = InnoDB; or name another table",
            step=step,
        )
    place = (schema_name, table_name)
    columns = tuple(Column(*row) for row in ask(_COLUMNS, *place))
    cascades = ask(_CASCADES, *place)
    keys = tuple(row[0] for row in ask(_KEYS, *place))
    return Table(schema_name, table_name, columns, keys, cascades[0][0] if cascades else None)

"""What a source must know of a table: columns and their types, its key, and what the log has of changed rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.database.place import quoted_name, split_table
from rs_assets.errors import SchemaError, SourceReadError

if TYPE_CHECKING:
    from psycopg import Connection

# The types of fields by the type's number in Postgres; others are text, as Postgres writes them.
TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        16: "boolean", 17: "binary", 20: "bigint", 21: "smallint", 23: "int", 700: "float", 701: "double",
        1082: "date", 1114: "timestamp_ntz", 1184: "timestamp",
    }
)  # fmt: skip
NUMERIC: Final = 1700
# Spark's limit.
DIGITS: Final = 38
_FACTS = """SELECT c.oid::bigint, n.nspname::text, c.relname::text,
 CASE WHEN c.relkind <> 'r' THEN 'kind' WHEN c.relpersistence <> 'p' THEN 'unlogged'
 WHEN EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) THEN 'parent' ELSE 'plain' END,
 c.relreplident::text, c.reltoastrelid <> 0, current_setting('server_version_num')::int >= 180000 AND EXISTS (
 SELECT FROM pg_attribute WHERE attrelid = c.oid AND attgenerated <> '' AND NOT attisdropped)
 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"""
_COLUMNS = """SELECT attname::text, atttypid::bigint, atttypmod, attstorage <> 'p', attnum::int FROM pg_attribute
 WHERE attrelid = %s::bigint::oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""
_KEYS = """SELECT a.attname::text FROM pg_index i
 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
 WHERE i.indrelid = %s::bigint::oid AND CASE WHEN %s THEN i.indisreplident ELSE i.indisprimary END"""


# Why the changes of a table cannot be had, and what helps.
UNFIT: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "missing": ("there is no table", "correct its name, or write the schema before it: 'shop.orders'"),
        "kind": ("this is not a plain table:", "name a table that has rows of its own, such as one partition"),
        "unlogged": ("changes are not logged of the table", "ALTER TABLE {table} SET LOGGED"),
        "parent": (
            "other tables inherit from this one, so it shows rows whose changes are not its own:",
            "read each table that inherits from it by its name",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `large`: its values may be stored outside of the row. Its `number` is never that of another one."""

    name: str
    type: int
    modifier: int
    large: bool
    number: int = 0

    @property
    def kind(self) -> str:
        """The type of its field.

        >>> Column("a", 1700, ((9 << 16) | 2) + 4, False).kind, Column("a", 1700, -1, False).kind
        ('decimal(9,2)', 'string')
        """
        if self.type == NUMERIC and self.modifier >= 0:
            digits, scale = (self.modifier - 4) >> 16, (self.modifier - 4) & 0x7FF
            return f"decimal({digits},{scale})" if scale <= digits <= DIGITS else "string"
        return TYPES.get(self.type, "string")


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is now; `whole`: the log has all of a row that was changed or removed."""

    id: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    whole: bool
    toasted: bool
    # Whether updates of a published table fail if its log is to have whole rows.
    generated: bool = False

    @property
    def quoted(self) -> str:
        """Its name in SQL."""
        return f"{quoted_name(self.schema)}.{quoted_name(self.name)}"

    def fields(self) -> dict[str, str]:
        """Its columns and their types."""
        return {column.name: column.kind for column in self.columns}

    def check(self, read: Iterable[str], *, step: str) -> None:
        """SchemaError for a field without a column, SourceReadError if the log does not have what a change needs."""
        known = {column.name: column for column in self.columns}
        names = [*read]
        missing = [name for name in names if name not in known]
        if missing:
            raise SchemaError(
                f"step {step!r}: the table {self.quoted} has no column {missing[0]!r}",
                remedy=f"its columns are: {', '.join(known)}",
                step=step,
            )
        if self.whole and self.generated:
            raise SourceReadError(
                f"the table {self.quoted} has generated columns and REPLICA IDENTITY FULL: the server would refuse each"
                " UPDATE and DELETE of it as soon as its changes are published",
                remedy=f"ALTER TABLE {self.quoted} REPLICA IDENTITY DEFAULT",
                step=step,
            )
        if self.whole:
            return
        full = f"ALTER TABLE {self.quoted} REPLICA IDENTITY FULL"
        if not self.keys:
            raise SourceReadError(
                f"the table {self.quoted} has no key by which its log says which row was changed",
                remedy=f"ALTER TABLE {self.quoted} ADD PRIMARY KEY (...); or {full}",
                step=step,
            )
        large = [name for name in names if known[name].large] if self.toasted else []
        if large:
            raise SourceReadError(
                f"values of the column {large[0]!r} of the table {self.quoted} can be large, and an update that leaves"
                " such a value as it was does not log it",
                remedy=f"{full}; or read only other columns: schema='...'",
                step=step,
            )


def table_of(connection: Connection[Any], name: str, *, step: str) -> Table:
    """The table `name` or `schema.name`; SourceReadError if there is none, or if it is not a plain table."""
    schema, table = split_table(name)
    quoted = ".".join(quoted_name(part) for part in (schema, table) if part)
    found = connection.execute(_FACTS, (quoted,)).fetchone()
    kind = "missing" if found is None else found[3]
    if found is None or kind in UNFIT:
        what, remedy = UNFIT[kind]
        raise SourceReadError(f"{what} {quoted}", remedy=remedy.format(table=quoted), step=step)
    oid, schema_name, table_name, _, identity, toasted, generated = found
    columns = tuple(Column(*row) for row in connection.execute(_COLUMNS, (oid,)).fetchall())
    keys = {row[0] for row in connection.execute(_KEYS, (oid, identity == "i")).fetchall()}
    named = tuple(column.name for column in columns if column.name in keys) if identity != "n" else ()
    return Table(oid, schema_name, table_name, columns, named, identity == "f", toasted, generated)

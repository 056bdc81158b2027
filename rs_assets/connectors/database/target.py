"""The table of a sink: made if it does not exist, else checked, and its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType
from sqlalchemy import Column, Connection, Insert, MetaData, Table, insert, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from rs_assets.connectors.database.types import MYSQL_TABLE, check_type, column_type, dialect_of, takes
from rs_assets.errors import SinkError

# The databases for whose upsert there are statements.
UPSERTS = ("postgresql", "sqlite", "mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class Target:
    """The table `name` of `schema` (None: the default one) for rows with the fields `fields`; `keys` of an upsert."""

    step: str
    schema: str | None
    name: str
    fields: StructType
    keys: tuple[str, ...] = ()

    def table(self, dialect: str) -> Table:
        """The table as it is made: a primary key of the keys, columns by type."""
        columns = []
        for field in self.fields.fields:
            check_type(field.name, field.dataType, step=self.step)
            key = field.name in self.keys
            kind = column_type(field.dataType, dialect, key=key)
            columns.append(Column(field.name, kind, primary_key=key, nullable=not key, autoincrement=False))
        return Table(self.name, MetaData(), *columns, schema=self.schema, **MYSQL_TABLE)

    def make(self, connection: Connection) -> None:
        """Make the table if it does not exist, outside of a transaction; SinkError if an existing one does not fit."""
        dialect = dialect_of(connection)
        if self.keys and dialect not in UPSERTS:
            raise SinkError(
                f"step {self.step!r}: there is no upsert for the database {dialect!r}",
                remedy="use mode='append' there, or write to Postgres, MySQL, MariaDB or SQLite",
                step=self.step,
            )
        table = self.table(dialect)
        if not inspect(connection).has_table(self.name, schema=self.schema):
            try:
                table.create(connection)
                connection.commit()
            except SQLAlchemyError:
                # Another sink may have made it at this moment.
                connection.rollback()
                if not inspect(connection).has_table(self.name, schema=self.schema):
                    raise
        self._check(connection, table)

    def has_rows(self, connection: Connection) -> bool:
        """Whether the table exists and has a row."""
        if not inspect(connection).has_table(self.name, schema=self.schema):
            return False
        table = Table(self.name, MetaData(), schema=self.schema)
        return connection.execute(select(1).select_from(table).limit(1)).first() is not None

    def upsert(self, table: Table, dialect: str) -> Insert:
        """The statement that inserts a row, or replaces the fields of the row of its keys."""
        others = [column.name for column in table.columns if column.name not in self.keys]
        made_by = postgresql.insert if dialect == "postgresql" else sqlite.insert
        upserted = made_by(table)
        if not others:
            return upserted.on_conflict_do_nothing(index_elements=[*self.keys])
        values = {name: upserted.excluded[name] for name in others}
        return upserted.on_conflict_do_update(index_elements=[*self.keys], set_=values)

    def append(self, table: Table) -> Insert:
        """The statement that inserts a row."""
        return insert(table)

    def misfit(self, name: str, kind: DataType, column: str) -> SinkError:
        """The error for a column that does not take the values of a field; `column` is its type."""
        return SinkError(
            f"the column {name!r} of the table {self.name!r} is {column}, which does not take {kind.simpleString()}"
            " values as they are",
            remedy="cast the field to the type of the column: with_fields, or change the column",
            step=self.step,
        )

    def _check(self, connection: Connection, table: Table) -> None:
        dialect = dialect_of(connection)
        found = {column["name"]: column["type"] for column in inspect(connection).get_columns(self.name, self.schema)}
        known = found if dialect == "postgresql" else {name.casefold(): kind for name, kind in found.items()}
        for field in self.fields.fields:
            name = field.name if dialect == "postgresql" else field.name.casefold()
            if name not in known:
                raise self._missing(table.c[field.name], connection)
            if not takes(field.dataType, known[name], dialect):
                raise self.misfit(field.name, field.dataType, str(known[name]))
        if self.keys and not self._unique(connection):
            quote = connection.dialect.identifier_preparer.quote
            into, keys = self._quoted(connection), _plain(", ".join(map(quote, self.keys)))
            raise SinkError(
                f"the table {self.name!r} has no unique index of {', '.join(self.keys)} to replace rows by",
                remedy=f"ALTER TABLE {into} ADD UNIQUE ({keys})"
                if dialect != "sqlite"
                else f"CREATE UNIQUE INDEX {quote(f'{self.name}_key')} ON {into} ({keys})",
                step=self.step,
            )

    def _unique(self, connection: Connection) -> bool:
        look = inspect(connection)
        keys = {key.casefold() for key in self.keys}
        found: list[Sequence[str | None]] = [look.get_pk_constraint(self.name, self.schema)["constrained_columns"]]
        found += [each["column_names"] for each in look.get_unique_constraints(self.name, self.schema)]
        found += [
            each["column_names"]
            for each in look.get_indexes(self.name, self.schema)
            if each["unique"] and not each.get("dialect_options", {}).get("postgresql_where")
        ]
        return any({str(name).casefold() for name in columns} == keys for columns in found)

    def _quoted(self, connection: Connection) -> str:
        quote = connection.dialect.identifier_preparer.quote
        return _plain(".".join(quote(part) for part in (self.schema, self.name) if part))

    def _missing(self, column: Column[object], connection: Connection) -> SinkError:
        declared = _plain(" ".join(str(CreateColumn(column).compile(dialect=connection.dialect)).split()))
        return SinkError(
            f"the table {self.name!r} has no column {column.name!r}",
            remedy=f"ALTER TABLE {self._quoted(connection)} ADD COLUMN {declared}; or write to another table, or leave"
            " the field out",
            step=self.step,
        )


def _plain(statement: str) -> str:
    """A statement for people: for drivers its percent signs are doubled."""
    return statement.replace("%%", "%")

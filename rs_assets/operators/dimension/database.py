"""A dimension from a database, read completely by one statement."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from sqlalchemy import (
    Connection,
    CursorResult,
    Engine,
    Executable,
    column,
    inspect,
    literal_column,
    select,
    table,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import SAWarning

from rs_assets.common.database import cause_of, engine_of, parsed_url, where
from rs_assets.connectors.database.place import split_table
from rs_assets.connectors.database.session import DIALECTS, settings_of
from rs_assets.errors import RsError, SchemaError, SourceReadError
from rs_assets.operators.dimension.spec import DatabaseOrigin
from rs_assets.records.rows import infer_schema, to_table

# Rows that are converted to Arrow at a time.
SOME = 10_000
# The number of the type FLOAT among the columns of a result of MySQL.
FLOAT: Final = 4


@dataclass(frozen=True, slots=True)
class DatabaseLoader:
    """Connects for each load: passwords change."""

    origin: DatabaseOrigin

    def mark(self) -> None:
        """A change is seen by a load only."""

    def load(self, schema: StructType | None) -> pa.Table:
        """All rows; SourceReadError, without secrets of the url, if they cannot be read."""
        url = parsed_url(self.origin.url.get_value(), what="the dimension from a database")
        # MySQL and MariaDB give a TIMESTAMP in the zone of the session, without saying which that is.
        engine = engine_of(url, connect=settings_of(url))
        try:
            return self._rows(engine, schema)
        except RsError:
            raise
        except Exception as error:  # noqa: BLE001  drivers raise errors of their own as well
            # Without the error itself, which may hold secrets.
            raise SourceReadError(
                "the database of a dimension cannot be read",
                remedy="check that it can be reached, and that the table or the query is right",
                **where(url),
                cause=cause_of(error, url),
            ) from None
        finally:
            engine.dispose()

    def _rows(self, engine: Engine, schema: StructType | None) -> pa.Table:
        with engine.connect() as connection:
            statement = self._statement(connection)
            result = connection.execution_options(stream_results=True).execute(statement)
            names = list(result.keys())
            if len(set(names)) != len(names):
                raise SchemaError(
                    f"the query of a dimension returns two fields of one name: {', '.join(names)}",
                    remedy="name them with AS",
                )
            parts: Iterator[Any] = result.partitions(SOME)
            if connection.dialect.name in DIALECTS:
                _check_digits(result)
                parts = _with_clocks(result, parts)
            return _table(names, parts, schema)

    def _statement(self, connection: Connection) -> Executable:
        if self.origin.table is None:
            return text(str(self.origin.sql))
        schema, name = split_table(self.origin.table)
        of = table(name, schema=schema)
        if connection.dialect.name not in DIALECTS:
            return select(text("*")).select_from(of)
        with warnings.catch_warnings():
            # Of types that SQLAlchemy does not know.
            warnings.simplefilter("ignore", SAWarning)
            found = inspect(connection).get_columns(name, schema=schema)
        return select(*(_exact(each["name"], each["type"]) for each in found)).select_from(of)


def _exact(name: str, kind: Any) -> Any:
    """A column as it is: MySQL writes six digits of a FLOAT, and all of a DOUBLE."""
    return (column(name) + literal_column("0e0")).label(name) if isinstance(kind, mysql.FLOAT) else column(name)


def _check_digits(result: CursorResult[Any]) -> None:
    """SchemaError for a field of the type FLOAT, of which the server has written six digits."""
    columns = [] if result.cursor is None else result.cursor.description
    rounded = next((name for name, kind, *_ in columns if kind == FLOAT), None)
    if rounded is not None:
        # Its rows are still under way.
        result.close()
        raise SchemaError(
            f"the field {rounded!r} of the query of a dimension is a FLOAT, of which the server writes six digits",
            remedy=f"make a DOUBLE of it: SELECT ..., {rounded} + 0e0 AS {rounded}",
        )


def _with_clocks(result: CursorResult[Any], parts: Iterator[Any]) -> Iterator[list[list[Any]]]:
    """Rows with values of the type TIME as the server writes them: drivers make lengths of time of them."""
    columns = [] if result.cursor is None else result.cursor.description
    places = [scale if isinstance(scale, int) else 0 for *_, scale, _ in columns]

    def written(row: Iterable[Any]) -> list[Any]:
        return [_clock(v, n) if isinstance(v, timedelta) else v for v, n in zip(row, places, strict=True)]

    return ([written(row) for row in part] for part in parts)


def _clock(value: timedelta, places: int) -> str:
    """A time of MySQL, which may be more than a day, or negative, with its decimals.

    >>> _clock(timedelta(hours=-25, milliseconds=-500), 2), _clock(timedelta(minutes=1), 0)
    ('-25:00:00.50', '00:01:00')
    """
    seconds, rest = divmod(abs(value), timedelta(seconds=1))
    fraction = f".{rest.microseconds:06}"[: places + 1] if places else ""
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _table(names: list[str], parts: Iterator[Any], schema: StructType | None) -> pa.Table:
    if schema is None:
        rows = [dict(zip(names, row, strict=True)) for row in chain.from_iterable(parts)]
        # The names are known without rows, too.
        wanted = infer_schema(rows or [dict.fromkeys(names)], step="dimension")
        return to_table(rows, wanted)
    kept = [(at, name) for at, name in enumerate(names) if name in schema.names]
    wanted = to_arrow_schema(StructType([schema[name] for _, name in kept]), timezone="UTC")
    made = [to_table([{name: row[at] for at, name in kept} for row in part], wanted) for part in parts]
    return pa.concat_tables([wanted.empty_table(), *made])

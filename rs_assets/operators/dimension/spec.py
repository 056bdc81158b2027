"""Dimensions as data: the origin of a table, its rows, and how often it is checked for changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from os import PathLike, fspath
from typing import Any, Literal, Self, cast, get_args

from rs_assets.common.node import NO_EFFECT
from rs_assets.common.project import anchored
from rs_assets.common.secrets import Deferred, Hidden, Secret
from rs_assets.connectors.files.nodes import format_by_name
from rs_assets.errors import TopologyError
from rs_assets.records.schema import Schema, schema_text

FileFormat = Literal["json", "csv", "parquet"]
# The interval of checks of a file or a Delta table, and of loads where only a load shows changes.
LOOK, RELOAD = timedelta(seconds=10), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """A file, or a folder with all files below it."""

    path: str
    format: FileFormat
    header: bool = True

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.format} {self.path}"


@dataclass(frozen=True, slots=True)
class DeltaOrigin:
    """A Delta table: the name of a table of the pipeline's own, a path or a URI."""

    table: str

    @property
    def text(self) -> str:
        """For people."""
        return f"delta {self.table}"


@dataclass(frozen=True, slots=True)
class DatabaseOrigin:
    """A table of a database, or the result of a query; the url is never shown, compared or written down."""

    url: Deferred = field(repr=False, compare=False, metadata=NO_EFFECT)
    table: str | None
    sql: str | None

    @property
    def text(self) -> str:
        """For people."""
        return f"database table {self.table}" if self.table else f"database {' '.join(str(self.sql).split())}"


@dataclass(frozen=True, slots=True)
class LoaderOrigin:
    """A function that returns all rows."""

    call: Callable[[], Any]

    @property
    def text(self) -> str:
        """For people."""
        return f"{getattr(self.call, '__name__', type(self.call).__name__)}()"


Origin = FileOrigin | DeltaOrigin | DatabaseOrigin | LoaderOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A lookup table for the rows of a stream. It is small compared to the stream, and rarely changes.

    Made by `from_file` and the like. Each load is an immutable version; a batch uses one version, the newest when it
    begins, and the same one if it is computed again.
    """

    origin: Origin
    schema: str | None = None
    every: timedelta = field(default=LOOK, metadata=NO_EFFECT)
    may_be_empty: bool = False

    def __post_init__(self) -> None:
        """Refuse an invalid interval."""
        if not isinstance(self.every, timedelta) or self.every <= timedelta(0):
            raise TopologyError(f"every= of a dimension is {self.every!r}", remedy="write it as every=Time.minutes(5)")

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        format: FileFormat | None = None,  # noqa: A002  Spark's word
        schema: Schema | None = None,
        header: bool = True,
        every: timedelta = LOOK,
        may_be_empty: bool = False,
    ) -> Self:
        """The rows of a file, or of all files below a folder: lines of JSON or CSV, or Parquet.

        `format` is by default that of the ending of `path`: "csv", "parquet", else "json". `schema` must be given for
        JSON and CSV; of Parquet it may select some of the columns. Fields of CSV are matched by name in the `header` of
        each file, in any order, and without one by position. The file is checked at the interval `every`, and loaded
        again if its size or time has changed; replace it by a rename, so that no reader sees a part of it. A relative
        path is relative to the project. TopologyError for another format.

        >>> Dimension.from_file("/data/users.csv", schema="user string, tier string").text
        'csv /data/users.csv'
        """
        form = cast("FileFormat", format_by_name(fspath(path))) if format is None else format
        if form not in get_args(FileFormat):
            raise TopologyError(f"a dimension cannot be read as {form!r}", remedy=f"use one of {get_args(FileFormat)}")
        made = schema_text(schema, step="dimension")
        if made is None and form != "parquet":
            raise TopologyError(
                f"a dimension from {form} needs a schema", remedy="declare it: schema='user string, tier string'"
            )
        return cls(
            origin=FileOrigin(anchored(fspath(path)), form, header),
            schema=made,
            every=every,
            may_be_empty=may_be_empty,
        )

    @classmethod
    def from_delta(
        cls,
        table: str | PathLike[str],
        *,
        schema: Schema | None = None,
        every: timedelta = LOOK,
        may_be_empty: bool = False,
    ) -> Self:
        """The rows of a Delta table, loaded again when its version has changed.

        `table` is named as for `to_delta`: a plain name is one of the namespace's tables in the home, others are paths
        or URIs. `schema` may select some of the columns; without one all are loaded, and later versions must have them.

        >>> Dimension.from_delta("users").text
        'delta users'
        """
        where, made = fspath(table), schema_text(schema, step="dimension")
        return cls(origin=DeltaOrigin(where), schema=made, every=every, may_be_empty=may_be_empty)

    @classmethod
    def from_database(
        cls,
        url: Secret,
        *,
        table: str | None = None,
        sql: str | None = None,
        schema: Schema | None = None,
        every: timedelta = RELOAD,
        may_be_empty: bool = False,
    ) -> Self:
        """The rows of a table (`table`, or `schema.table`) or of a query (`sql`) of any database of SQLAlchemy.

        It is read completely, by one statement, at the interval `every`. `url` is text or, better, Dagster's `EnvVar`,
        which is resolved at each load; it is never shown. Values must be of the types of `schema`; without one, types
        are those of the first load. Times without a zone are UTC. TopologyError unless exactly one of `table` and `sql`
        is given.

        >>> Dimension.from_database("sqlite:///users.db", table="users").text
        'database table users'
        """
        if (table is None) == (sql is None):
            raise TopologyError(
                "a dimension from a database is a table or a query",
                remedy="give either table='users' or sql='SELECT ...'",
            )
        hidden = url if isinstance(url, Deferred) else Hidden(url)
        made = schema_text(schema, step="dimension")
        origin = DatabaseOrigin(hidden, table, sql)
        return cls(origin=origin, schema=made, every=every, may_be_empty=may_be_empty)

    @classmethod
    def from_loader(
        cls,
        loader: Callable[[], Any],
        *,
        schema: Schema | None = None,
        every: timedelta = RELOAD,
        may_be_empty: bool = False,
    ) -> Self:
        """The rows that `loader` returns: dicts, or an Arrow table. It is called at the interval `every`, in a thread.

        Values must be of the types of `schema`; without one, types are those of the first load.

        >>> def rates():
        ...     return [{"currency": "EUR", "rate": 1.0}, {"currency": "CHF", "rate": 0.95}]
        >>> Dimension.from_loader(rates, schema="currency string, rate double").text
        'rates()'
        """
        if not callable(loader):
            raise TopologyError(f"a loader is a function without arguments, not {loader!r}")
        made = schema_text(schema, step="dimension")
        return cls(origin=LoaderOrigin(loader), schema=made, every=every, may_be_empty=may_be_empty)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The declared fields, None if the first load infers them or only Spark can parse them."""
        # Imported here: a pipeline without a dimension is built without Arrow.
        from rs_assets.records.ddl import arrow_schema

        known = arrow_schema(self.schema) if self.schema is not None else None
        return tuple(known.names) if known is not None else None

    @property
    def text(self) -> str:
        """A readable name of the origin, without secrets."""
        return self.origin.text

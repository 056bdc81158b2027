"""Loads a dimension as an Arrow table, and detects changes of its origin."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.rows import small_table
from rs_assets.connectors.files.listing import walked
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.errors import RsError, SchemaError, SourceReadError
from rs_assets.operators.dimension.spec import DatabaseOrigin, DeltaOrigin, Dimension, FileOrigin, LoaderOrigin
from rs_assets.operators.dimension.text_files import rows_of
from rs_assets.records.casts import changes, whole
from rs_assets.records.rows import infer_schema, to_table, type_name

# Prefixes of hidden files, for Spark as for Arrow.
HIDDEN = (".", "_")


class Loader(Protocol):
    """Reads one dimension."""

    def mark(self) -> str | None:
        """A text that changes with the origin, None if only a load shows changes. RsError or OSError if that fails."""
        ...

    def load(self, schema: StructType | None) -> pa.Table:
        """All rows, with at least the fields of `schema`; without one as they are."""
        ...


@dataclass(frozen=True, slots=True)
class FileLoader:
    """Files of JSON, CSV or Parquet."""

    origin: FileOrigin
    spark: SparkSession

    def mark(self) -> str:
        """Names, sizes and times of the files; of a folder those that readers see."""
        path = Path(self.origin.path)
        files = _files(path)
        stats = [(file.relative_to(path.parent).as_posix(), file.stat()) for file in files]
        return ";".join(f"{name}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}" for name, stat in stats)

    def load(self, schema: StructType | None) -> pa.Table:
        """The rows, if the file does not change during the load; SourceReadError if it does."""
        before = self.mark()
        table = self._parquet(schema) if self.origin.format == "parquet" else self._parsed(schema)
        if self.mark() != before:
            raise SourceReadError(
                "the file was changed while it was read",
                remedy="write a new file next to it and rename it",
                file=self.origin.path,
            )
        return table

    def _parsed(self, schema: StructType | None) -> pa.Table:
        assert schema is not None  # such a dimension has one
        path = Path(self.origin.path)
        if path.is_file() and path.name.startswith(HIDDEN):
            raise SourceReadError(
                "Spark skips files whose names begin with a dot or an underscore",
                remedy="give the dimension's file another name",
                file=path,
            )
        files = _files(path)
        if not files:
            return to_arrow_schema(schema, timezone="UTC").empty_table()
        form = LineFormat(format=self.origin.format, schema=schema, header=self.origin.header)
        return rows_of(self.spark, files, form)

    def _parquet(self, schema: StructType | None) -> pa.Table:
        import pyarrow.dataset as ds

        rows = ds.dataset(self.origin.path, format="parquet")
        # Those of the first file, by their exact names.
        there = [name for name in schema.names if name in rows.schema.names] if schema else rows.schema.names
        for file in rows.get_fragments():
            lacking = next((name for name in there if name not in file.physical_schema.names), None)
            if lacking is not None:
                raise SourceReadError(
                    f"the file has no column {lacking!r}",
                    remedy="write it with that column, or move it away; other files have it",
                    file=file.path,
                )
            _check_types(file, rows.schema, there)
        return rows.to_table(columns=there if schema else None)


def _check_types(file: Any, schema: pa.Schema, names: Sequence[str]) -> None:
    """SourceReadError for a column of a file of Parquet that Arrow would change to have the type of the first file."""
    for name in names:
        kind, other = schema.field(name).type, file.physical_schema.field(name).type
        if kind == other:
            continue
        column = file.to_table(schema=file.physical_schema, columns=[name])[name]
        if any(changes(whole(column), kind)):
            raise SourceReadError(
                f"the column {name!r} of the file is {type_name(other)}, not {type_name(kind)} as that of the first"
                " file, which would change its values",
                remedy="write it with the type that the other files have, or move it away",
                file=file.path,
            )


@dataclass(frozen=True, slots=True)
class DeltaLoader:
    """The newest version of a Delta table at `path`."""

    path: str

    def mark(self) -> str:
        """The table's id and its version."""
        table = delta_table(self.path)
        return f"{table.metadata().id}:{table.version()}"

    def load(self, schema: StructType | None) -> pa.Table:
        """The rows of the version that is the newest now."""
        table = delta_table(self.path)
        there = [field.name for field in table.schema().fields]
        return small_table(table, self.path, [name for name in schema.names if name in there] if schema else None)


@dataclass(frozen=True, slots=True)
class FunctionLoader:
    """The result of a user function."""

    origin: LoaderOrigin

    def mark(self) -> None:
        """A change is seen by a call only."""

    def load(self, schema: StructType | None) -> pa.Table:
        """The rows of one call."""
        try:
            rows = self.origin.call()
            return rows if isinstance(rows, pa.Table) else table_of(list(rows), schema)
        except (SystemExit, CancelledError) as error:
            # They would silently end the loading thread.
            raise SourceReadError(
                f"{self.origin.text} has raised {type(error).__name__}",
                remedy="raise an exception of another kind when a load fails",
            ) from error


def table_of(rows: list[Mapping[str, Any]], schema: StructType | None) -> pa.Table:
    """Rows of the program as a table; SchemaError for the first value that does not fit."""
    if schema is not None:
        return to_table(rows, to_arrow_schema(schema, timezone="UTC"))
    return to_table(rows, infer_schema(rows, step="dimension"))


def loader_of(dimension: Dimension, spark: SparkSession, table: Callable[[str], str]) -> Loader:
    """The loader of a dimension; `table` returns the path of a Delta table."""
    match dimension.origin:
        case FileOrigin() as origin:
            return FileLoader(origin, spark)
        case DeltaOrigin(name):
            return DeltaLoader(table(name))
        case DatabaseOrigin() as origin:
            from rs_assets.operators.dimension.database import DatabaseLoader

            return DatabaseLoader(origin)
        case LoaderOrigin() as origin:
            return FunctionLoader(origin)


def loaded(loader: Loader, schema: StructType | None, *, step: str) -> tuple[pa.Table, StructType]:
    """The rows of a dimension with exactly the fields of `schema`, or all fields without one; RsError if that fails.

    SchemaError names the first field that is missing or whose values do not fit.
    """
    try:
        table = loader.load(schema)
    except RsError:
        raise
    except Exception as error:
        raise SourceReadError(
            f"the dimension of step {step!r} cannot be loaded: {_innermost(error)}",
            remedy="check that it exists, is readable, and has the fields of its schema",
            step=step,
        ) from error
    schema = schema or _found(table, step)
    return conformed(table, schema, step=step), schema


def _found(table: pa.Table, step: str) -> StructType:
    try:
        return from_arrow_schema(table.schema)
    except (PySparkException, TypeError, ValueError) as error:
        raise SchemaError(
            f"the dimension of step {step!r} has a type that Spark does not know: {_first_line(error)}",
            remedy="declare a schema with types of Spark, or load other types",
            step=step,
        ) from error


def conformed(table: pa.Table, schema: StructType, *, step: str) -> pa.Table:
    """`table` with exactly the fields of `schema`; no value changes."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = []
    for field in wanted:
        if table.schema.names.count(field.name) != 1:
            raise SchemaError(
                f"the dimension of step {step!r} has no field {field.name!r}, or several",
                remedy=f"it has: {', '.join(table.schema.names)}",
                step=step,
            )
        column = table[field.name]
        try:
            lost = column.type != field.type and any(changes(whole(column), field.type))
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise _unfit(field, step, _first_line(error)) from error
        if lost:
            why = f"it is {type_name(column.type)}, not {type_name(field.type)}, which would change its values"
            raise _unfit(field, step, why)
    return pa.table(columns, names=list(wanted.names))


def _unfit(field: pa.Field, step: str, why: str) -> SchemaError:
    return SchemaError(
        f"field {field.name!r} of the dimension of step {step!r} does not fit its type: {why}",
        remedy="correct the rows, or declare another type",
        step=step,
    )


def _files(path: Path) -> list[Path]:
    """The file, or those below a folder that are not hidden, also those below links to folders."""
    if not path.is_dir():
        return [path]
    return sorted(map(Path, walked(str(path), follow=True, hidden=lambda name: name.startswith(HIDDEN))))


def _innermost(error: BaseException) -> str:
    """The message; of a Java error that of its innermost cause."""
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?([^\n]{1,200})", str(error), re.MULTILINE)
    return causes[-1] if causes else _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__

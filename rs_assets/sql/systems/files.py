"""Files as tables of SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rs_assets.connectors.files.form import COMPRESSIONS
from rs_assets.sql.systems.form import SqlSink, SqlSource

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.sql.systems.source_table import SourceTable
    from rs_assets.stream.data_stream import DataStream
    from rs_assets.stream.table import Table

FORMATS: Final = {"json": "json", "csv": "csv", "raw": "text", "text": "text", "parquet": "parquet"}


def _read(table: SourceTable) -> DataStream | Table:
    options = table.options
    form: Any = options.choice("format", FORMATS, "json")
    follow = options.flag("follow")
    stream = table.begin.from_file(
        options.need("path", "/data/clicks").removeprefix("file://"),
        form,
        schema=None if form == "text" else table.schema,
        tail=follow,
        header=form != "csv" or options.flag("csv.header"),
        delimiter=(options.take("csv.field-delimiter") if form == "csv" else None) or ",",
        bad_records=table.bad_records,
        max_files_per_batch=options.number("max-files-per-batch"),
        max_rows_per_batch=options.number("max-rows-per-batch"),
        name=table.name,
    )
    return table.rows(stream, placed=follow)


def _write(table: SinkTable) -> DataStream:
    options = table.options
    form: Any = options.choice("format", FORMATS, "json")
    given = "compression" in options.found
    packed: Any = options.choice("compression", {name: name for name in COMPRESSIONS[form]}, "none")
    csv = form == "csv"
    return table.stream.to_file(
        options.need("path", "/data/out").removeprefix("file://"),
        form,
        compression=packed if given else None,
        partition_by=[word.text for word in options.table.partitioned_by],
        header=not csv or options.flag("csv.header"),
        delimiter=(options.take("csv.field-delimiter") if csv else None) or ",",
        name=table.name,
    )


SOURCE: Final = SqlSource(read=_read)
SINK: Final = SqlSink(write=_write, keys=True, partitions=True)

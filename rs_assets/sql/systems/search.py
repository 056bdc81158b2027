"""Indexes of OpenSearch and Elasticsearch as tables of SQL. The names of options are Flink's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rs_assets.sql.systems.form import SqlSink
from rs_assets.sql.systems.http import REFUSED, endpoint_of, rate_of

if TYPE_CHECKING:
    from rs_assets.sql.systems.sink_table import SinkTable
    from rs_assets.stream.data_stream import DataStream

# By the connectors of Flink; their numbers are those of the servers' interfaces, which are one for these.
FLAVOURS: Final = {
    **dict.fromkeys(("elasticsearch", "elasticsearch-7", "elasticsearch-8"), "elasticsearch"),
    **dict.fromkeys(("opensearch", "opensearch-1", "opensearch-2"), "opensearch"),
}


def _write(table: SinkTable) -> DataStream:
    options = table.options
    keys = table.keys()
    if not keys and table.replace:
        raise options.error(
            "the query replaces rows, but the table has no key",
            remedy="declare PRIMARY KEY (id) NOT ENFORCED, or group by a column",
        )
    flavour: Any = next(FLAVOURS[pair[1].text] for pair in options.table.options.values() if pair[1].text in FLAVOURS)
    options.choice("format", {"json": "json"}, "json")
    return table.stream.to_search(
        endpoint_of(options, "http://localhost:9200", key="hosts"),
        options.need("index", "orders"),
        mode="upsert" if keys else "append",
        keys=keys,
        deletes=table.marks or (options.take("deletes") if keys else None),
        version=options.take("version") if keys else None,
        flavour=flavour,
        batch=options.number("sink.bulk-flush.max-actions") or 1_000,
        rows_per_second=rate_of(options),
        refused=options.choice("refused", REFUSED, "fail"),
        name=table.name,
    )


SINK: Final = SqlSink(write=_write, keys=True, updates=True)

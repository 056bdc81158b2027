"""What the project knows of OpenSearch and Elasticsearch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.common.home import Home
from rs_assets.connectors.connector import Connector, SinkConnector, code, listed
from rs_assets.connectors.messages import check_flag
from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.errors import TopologyError
from rs_assets.records.fields import Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rs_assets.connectors.sink import SinkWriter

FLOATING = ("float", "double")
TIMES = ("timestamp", "timestamp_ntz", "date")
WHOLE = ("tinyint", "smallint", "int", "bigint")


def _writer(node: SearchSink, _home: Home, _namespace: str) -> SinkWriter:
    from rs_assets.connectors.search.writer import SearchWriter

    return SearchWriter(node)


def _check(node: SearchSink, fields: Fields) -> None:
    fields.check(node.named, step=node.name)
    check_flag(node.deletes, fields, step=node.name)
    wrong = (
        *((name, "a key", "name fields of texts, whole numbers or times") for name in node.keys if _odd(fields, name)),
        *((name, "a version", f"with_fields({name}='CAST({name} AS bigint)')") for name in (node.version,)
          if _is_not(fields, name, WHOLE)),
        *((name, "a date", f"with_fields({name}='CAST({name} AS timestamp)')") for name in node.index.dated
          if _is_not(fields, name, TIMES)),
    )  # fmt: skip
    for name, what, remedy in wrong:
        kind = fields.type_of(str(name))
        raise TopologyError(
            f"step {node.name!r}: {name!r} is {kind.text if kind else '?'}, which cannot be {what}",
            remedy=remedy,
            step=node.name,
        )


def _check_rows(node: SearchSink, rows: DataFrame) -> None:
    from rs_assets.records.columns import check_fields

    check_fields(rows, node.named, step=node.name)


def _odd(fields: Fields, name: str) -> bool:
    kind = fields.type_of(name)
    return kind is not None and (kind.nested or kind.name in FLOATING)


def _is_not(fields: Fields, name: str | None, kinds: tuple[str, ...]) -> bool:
    kind = fields.type_of(name) if name is not None else None
    return kind is not None and kind.name not in kinds


def _writes(node: SearchSink) -> str:
    if node.mode == "append":
        return f"Adds a document for each row to the index {code(node.index.text)}"
    gone = f"; a row whose {code(node.deletes)} is true deletes it" if node.deletes else ""
    return f"Keeps one document for each {listed(node.keys)} in the index {code(node.index.text)}{gone}"


CONNECTOR = Connector(
    sinks=(SinkConnector(node=SearchSink, writer=_writer, describe=_writes, check=_check, check_rows=_check_rows),),
)

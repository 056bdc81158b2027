"""Rows as documents with their index, id and version: computed by Spark, collected on the driver."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError
from rs_assets.records.columns import hidden, visible
from rs_assets.records.newest import one_zero, winners
from rs_assets.records.poison import exact_text
from rs_assets.records.schema import quoted

BODY, INDEX, ID, VERSION, GONE = "_rs_body", "_rs_index", "_rs_id", "_rs_version", "_rs_gone"
# The bytes of an id; a longer one is replaced by its digest.
MOST_ID_BYTES: Final = 512
# A version is a number of 63 bits: 15 for the generation, the rest for the batch.
BATCH_BITS: Final = 48
SHOWN = 300


@dataclass(frozen=True, slots=True)
class Document:
    """One action of a request; `version` None creates a document that must not exist, `body` None deletes one.

    `row` is the row as JSON, for people.
    """

    index: str
    id: str
    body: bytes | None
    version: int | None
    row: bytes

    @property
    def lines(self) -> bytes:
        r"""The lines of the request.

        >>> Document("orders", "7", None, 3, b"{}").lines
        b'{"delete":{"_index":"orders","_id":"7","version":3,"version_type":"external"}}\n'
        """
        about: dict[str, object] = {"_index": self.index, "_id": self.id}
        if self.version is not None:
            about |= {"version": self.version, "version_type": "external"}
        head = json.dumps({self.action: about}, separators=(",", ":"), ensure_ascii=False).encode()
        return head + b"\n" + (self.body + b"\n" if self.body is not None else b"")

    @property
    def action(self) -> str:
        """The name of the action."""
        return "delete" if self.body is None else "create" if self.version is None else "index"


def as_documents(batch: DataFrame, node: SearchSink) -> DataFrame:
    """The columns that documents are made of, with the keys and the order of reading for an upsert."""
    inner = hidden(batch.columns)
    fields = [name for name in visible(batch.columns) if name != node.deletes]
    made = [exact_text(fields).alias(BODY), node.index.column().alias(INDEX)]
    if node.mode == "append":
        return batch.select(*made)
    version = F.col(quoted(node.version)).cast("bigint") if node.version else F.lit(None).cast("bigint")
    gone = F.coalesce(F.col(quoted(node.deletes)), F.lit(False)) if node.deletes else F.lit(False)  # noqa: FBT003  SQL
    keys = [F.col(quoted(key)) for key in node.keys]
    return batch.select(
        *made, _id(node, batch.schema).alias(ID), version.alias(VERSION), gone.alias(GONE), *keys, *inner
    )


def documents(rows: pa.Table, node: SearchSink, mark: BatchMark) -> list[Document]:
    """The documents of a batch in a stable order; SinkError for a row that has no index, id or version."""
    for what, name, wrong in (("index", INDEX, pc.is_null), ("id", ID, pc.is_null), ("version", VERSION, _no_version)):
        if name in rows.column_names and (name != VERSION or node.version):
            _check(rows.filter(wrong(rows[name])), what, node)
    made = _upserted(rows, node, mark) if node.mode == "upsert" else _appended(rows, mark)
    return sorted(made, key=lambda each: (each.index, each.id))


def _no_version(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.less(pc.fill_null(column, -1), 0)


def _check(wrong: pa.Table, what: str, node: SearchSink) -> None:
    if wrong.num_rows:
        raise SinkError(
            f"step {node.name!r}: a row has no {what}: one of its fields is null{' or negative' * (what == 'version')}",
            remedy=f"keep such rows from the sink: .filter('{' AND '.join(f'{n} IS NOT NULL' for n in node.needed)}')",
            step=node.name,
            row=wrong[BODY][0].as_py()[:SHOWN],
        )


def _upserted(rows: pa.Table, node: SearchSink, mark: BatchMark) -> Iterator[Document]:
    kept = winners(rows, keys=node.keys, order_by=(VERSION,) if node.version else (), deletes=GONE)
    columns = (kept[name].to_pylist() for name in (INDEX, ID, BODY, VERSION, GONE))
    for index, key, text, given, gone in zip(*columns, strict=True):
        row = text.encode()
        yield Document(index, _short(key), None if gone else row, given if node.version else version_of(mark), row)


def _appended(rows: pa.Table, mark: BatchMark) -> Iterator[Document]:
    """Documents whose ids are made of the batch and the content: equal rows of a batch are counted."""
    writer = hashlib.blake2b(f"{mark.pipeline_id}/{mark.sink}".encode(), digest_size=6).hexdigest()
    seen: Counter[bytes] = Counter()
    for index, text in zip(rows[INDEX].to_pylist(), rows[BODY].to_pylist(), strict=True):
        row = text.encode()
        digest = hashlib.blake2b(row, digest_size=12).digest()
        seen[digest] += 1
        yield Document(
            index, f"{writer}-{mark.generation}-{mark.batch_id}.{digest.hex()}.{seen[digest]}", row, None, row
        )


def version_of(mark: BatchMark) -> int:
    """The version of all documents of a batch: it grows with each batch and each generation.

    >>> version_of(BatchMark("id", 1, "out", 0)), version_of(BatchMark("id", 2, "out", 0)) > 2**48
    (281474976710657, True)
    """
    return (mark.generation << BATCH_BITS) + mark.batch_id + 1


def _id(node: SearchSink, schema: StructType) -> Column:
    """The text of the key, or a JSON array of several; null if one of them is. -0.0 is 0.0, as among other keys."""
    texts = [one_zero(F.col(quoted(key)), schema[key].dataType).cast("string") for key in node.keys]
    if len(texts) == 1:
        return texts[0]
    missing = F.greatest(*(text.isNull() for text in texts))
    return F.when(~missing, F.to_json(F.array(*texts)))


def _short(key: str) -> str:
    return key if len(key.encode()) <= MOST_ID_BYTES else hashlib.sha256(key.encode()).hexdigest()

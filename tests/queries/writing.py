"""Batches of a store without Spark: what its writer asks of a frame is a table of Arrow."""

from datetime import UTC, datetime

import pyarrow as pa

from rs_assets.connectors.sink import BatchMark
from rs_assets.connectors.store.reader import Store
from rs_assets.connectors.store.writer import StoreWriter
from rs_assets.records.columns import RETRACTED

WATERMARK = datetime(2026, 5, 1, tzinfo=UTC)


class Frame:
    """A table as the writer sees a frame."""

    def __init__(self, rows, fields):
        self.rows = pa.Table.from_pylist(rows, pa.schema({**fields, RETRACTED: pa.bool_()}))

    def toArrow(self):  # noqa: N802  Spark's name
        return self.rows


class Written:
    """A store in `folder` and its batches; `fields` are the types of its rows."""

    def __init__(self, folder, fields, keys):
        self.fields, self.keys = fields, keys
        self.path = folder / "totals.db"
        self.store = Store("totals", self.path)

    def writer(self):
        return StoreWriter(name="sink", store="totals", path=self.path, keys=self.keys, deletes=RETRACTED)

    def mark(self, batch, generation=1, token=1):
        return BatchMark("p", generation, "sink", batch, token, None, WATERMARK)

    def write(self, batch, come=(), go=(), generation=1, token=1):
        rows = [{**row, RETRACTED: True} for row in go] + [{**row, RETRACTED: False} for row in come]
        staged = self.writer().stage(Frame(rows, self.fields), self.mark(batch, generation, token))
        return staged.commit()

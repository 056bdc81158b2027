"""Batches for writers without Spark: an Arrow table that knows as much of a Spark frame as a writer asks of one."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from rs_assets.connectors.sink import BatchMark


@dataclass
class Collected:
    """The rows of a frame that was computed."""

    rows: list[dict]

    def collect(self):
        return self.rows


@dataclass
class ArrowFrame:
    """Stands for a DataFrame: `parts` files are written of it."""

    table: pa.Table
    parts: int = 2
    options_given: dict[str, str] = field(default_factory=dict)

    @property
    def schema(self):
        return from_arrow_schema(self.table.schema)

    @property
    def columns(self):
        return self.table.column_names

    @property
    def write(self):
        return self

    def toArrow(self):  # noqa: N802  Spark's name
        return self.table

    def mapInArrow(self, function, schema):  # noqa: N802  Spark's name and form
        """The rows that `function` makes of each part; `collect` returns them."""
        size = -(-self.table.num_rows // self.parts) or 1
        parts = [self.table.slice(part * size, size) for part in range(self.parts)]
        return Collected(
            [row for part in parts for made in function(iter(part.to_batches())) for row in made.to_pylist()]
        )

    def parquet(self, path):
        folder = Path(path)
        folder.mkdir(parents=True)
        job, size = uuid.uuid4(), -(-self.table.num_rows // self.parts) or 1
        for part in range(self.parts):
            name = f"part-{part:05d}-{job}-c000.snappy.parquet"
            pq.write_table(self.table.slice(part * size, size), folder / name)
            (folder / f".{name}.crc").write_bytes(b"crc")


def numbers(*values, **more):
    """A frame with a column n, and others."""
    return ArrowFrame(pa.table({"n": pa.array(values, pa.int64()), **more}))


def mark(batch_id, *, pipeline="p1", generation=1, sink="rows", token=1):
    return BatchMark(pipeline, generation, sink, batch_id, token)


def write(writer, frame, at):
    """One batch through a writer, as a query hands it over; None if the sink has it already."""
    return None if writer.committed(at) else writer.stage(frame, at).commit()

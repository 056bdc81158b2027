"""The memory channel as a source: what was put is read, once, or put() refuses it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.memory import spool
from rs_assets.errors import SchemaError, SealedError
from rs_assets.runtime.options import RunOptions

SCHEMA = pa.schema([("a", pa.int64())])


def spooled(folder: Path) -> list[int]:
    return [row["a"] for file in sorted(folder.glob("rows-*")) for row in pq.read_table(file).to_pylist()]


def test_a_row_that_does_not_fit_is_refused_before_the_first_run_and_no_other_is_lost() -> None:
    channel = MemoryChannel(schema="a bigint")
    channel.put({"a": 1})
    with pytest.raises(SchemaError, match="row 1: a='x' is not of type bigint"):
        channel.put({"a": 2}, {"a": "x"})
    with pytest.raises(SchemaError, match="the field 'b'"):
        channel.put({"b": 2})
    channel.put({"a": 3})
    assert spooled(channel.bind(SCHEMA)) == [1, 3]


def test_rows_wait_until_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel(schema="a bigint")
    channel.put({"a": 1})
    with monkeypatch.context() as patched:
        patched.setattr(spool, "write_spool_file", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            channel.bind(SCHEMA)
    assert spooled(channel.bind(SCHEMA)) == [1]


@pytest.mark.parametrize("schema", ["a bigint", "a bigint, b varchar(3)"])
def test_a_row_that_is_used_again_counts_as_it_was_put(schema: str) -> None:
    channel, row = MemoryChannel(schema=schema), {}
    for number in range(3):
        row["a"] = number
        channel.put(row)
    assert spooled(channel.bind(SCHEMA)) == [0, 1, 2]


def test_rows_behind_the_end_are_refused(options: RunOptions) -> None:
    channel, out = MemoryChannel(schema="a bigint, m map<string,bigint>"), MemoryChannel()
    job = StreamBuilder.data_stream("memory", "ended").from_memory(channel).to_memory(out).build()
    channel.put({"a": 1, "m": {"x": 1}})
    assert job.run(options, finish=True).sealed
    assert job.run(options).batches == 0
    channel.put({"a": 2})
    with pytest.raises(SealedError, match="more of it"):
        job.run(options)
    assert out.rows() == [{"a": 1, "m": {"x": 1}}]

"""JSON lines, memory and the terminal; and several sinks on one stream."""

import json

import pytest

from rs_assets import StreamBuilder
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import TopologyError

ROWS = [{"n": n, "text": "ünï\x1b[31m"} for n in range(3)]


def begin(channel):
    return StreamBuilder.data_stream("shop", "sinks").from_memory(channel)


def test_should_write_json_lines_a_folder_a_batch(options, tmp_path):
    channel = MemoryChannel(schema="n bigint, text string")
    job = begin(channel).to_file(tmp_path / "out").build()
    for row in ROWS:
        channel.put(row)
        job.run(options)
    folders = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert folders == [f"batch=g0001-b{n:012d}" for n in range(3)]
    lines = [line for file in (tmp_path / "out").glob("*/*.json") for line in file.read_text().splitlines()]
    assert sorted((json.loads(line) for line in lines), key=lambda row: row["n"]) == ROWS


def test_should_write_one_read_to_several_sinks(options, tmp_path, capfd):
    channel, out = MemoryChannel(schema="n bigint, text string"), MemoryChannel()
    job = begin(channel).to_file(tmp_path / "out").to_memory(out).to_print(max_rows=2).to_delta("rows").build()
    channel.put(*ROWS)
    report = job.run(options)
    assert (report.rows_in, report.rows_out, len(report.queries)) == (3, 12, 1)
    assert sorted(out.rows(), key=lambda row: row["n"]) == ROWS
    shown = capfd.readouterr().out
    assert "and 1 more" in shown
    assert "\x1b[31m" not in shown


def test_should_close_a_channel_for_good(options):
    channel, out = MemoryChannel(schema="n bigint"), MemoryChannel()
    channel.put({"n": 1})
    channel.close()
    assert begin(channel).to_memory(out).build().run(options).sealed
    assert out.take() == [{"n": 1}]
    assert out.take() == []


def test_should_refuse_a_stream_that_goes_nowhere():
    with pytest.raises(TopologyError, match="go nowhere"):
        begin(MemoryChannel(schema="n bigint")).filter("n > 1").build()

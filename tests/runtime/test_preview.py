"""stream.preview: the rows of a step for the first records of what it reads."""

import gzip

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import SourceReadError, TopologyError

HITS = [b'{"page": "/a", "ms": %d}\n' % ms for ms in (5, 50, 500)]


def stream(name):
    return StreamBuilder.data_stream("test", name)


def test_should_read_the_first_lines_of_the_first_files(driver, tmp_path):
    (tmp_path / "b.jsonl").write_bytes(HITS[2] * 1000)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(HITS[0] + HITS[1].rstrip()))
    hits = stream("files").from_file(tmp_path, schema="page string, ms bigint")
    assert [row["ms"] for row in hits.preview(records=4, spark=driver)] == [5, 50, 500, 500]


def test_should_not_take_headers_for_records(driver, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("page,ms\n/x,1\n/y,2\n")
    hits = stream("headers").from_file(tmp_path, format="csv", schema="page string, ms bigint")
    assert [row["ms"] for row in hits.preview(records=3, spark=driver)] == [1, 2, 1]


@pytest.mark.parametrize("tail", [False, True])
def test_should_read_lines_by_the_header_of_their_own_file(driver, tmp_path, tail):
    (tmp_path / "a.csv").write_text("\npage,ms\n/x,1\n")
    (tmp_path / "b.csv").write_text("ms,page\n2,3\n")
    (tmp_path / "c.csv").write_text("\ufeffpage,ms\n/y,4\n/z,5\n")
    hits = stream("orders").from_file(tmp_path, format="csv", schema="page string, ms bigint", tail=tail)
    rows = hits.preview(records=3, spark=driver)
    assert sorted((row["ms"], row["page"]) for row in rows) == [(1, "/x"), (2, "3"), (4, "/y")]


def test_should_name_the_file_whose_header_lacks_a_field(driver, tmp_path):
    (tmp_path / "a.csv").write_text("page,ms\n/x,1\n")
    (tmp_path / "b.csv").write_text("page,msec\n/x,1\n")
    hits = stream("lacking").from_file(tmp_path, format="csv", schema="page string, ms bigint")
    with pytest.raises(SourceReadError, match="no column 'ms'") as refused:
        hits.preview(spark=driver)
    assert refused.value.facts["file"] == str(tmp_path / "b.csv")


def test_should_pass_over_the_byte_order_mark_of_each_file(driver, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("\ufeff1,/x\n")
    hits = stream("marks").from_file(tmp_path, format="csv", schema="ms bigint, page string", header=False)
    assert hits.preview(spark=driver) == [{"ms": 1, "page": "/x"}] * 2


def test_should_end_at_a_followed_file_and_fire_windows(driver, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(b'{"ts": "2026-01-01T00:00:%02dZ"}\n' % second for second in range(30)))
    log = stream("followed").from_file(log, schema="ts timestamp", tail=True)
    counted = log.window(TumblingWindow.of(Time.seconds(10), "ts")).count("n")
    assert sorted(row["n"] for row in counted.preview(records=25, spark=driver)) == [5, 10, 10]


def test_should_touch_no_sink_and_leave_the_stream_as_it_is(driver, tmp_path):
    rows = stream("sinks").from_array([{"n": n} for n in range(3)]).to_delta(str(tmp_path / "table")).filter("n > 0")
    assert rows.preview(spark=driver) == [{"n": 1}, {"n": 2}]
    assert rows.preview([{"n": 7}], spark=driver) == [{"n": 7}]
    assert not DeltaTable.is_deltatable(str(tmp_path / "table"))
    assert [sink.family for sink in rows.to_print().build().topology.sinks] == ["sink", "sink"]


def test_should_say_what_cannot_be_told():
    records = stream("kafka").from_kafka("localhost:9092", "hits", schema="n bigint")
    with pytest.raises(TopologyError, match="only files, arrays and the rows of tables"):
        records.preview()
    with pytest.raises(TopologyError, match="there is no table at") as refused:
        stream("lost").from_delta("lost", schema="n bigint").preview()
    assert "RS_HOME" in refused.value.remedy
    with pytest.raises(TopologyError, match="at least one"):
        stream("none").from_array([{"n": 1}]).preview(records=0)

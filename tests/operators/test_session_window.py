"""Session windows against the reference model."""

import pytest

from rs_assets import SessionWindow, Time
from rs_assets.errors import TopologyError
from tests.operators.model import at, counted, sessions, windows_of

SECONDS = {"a": [0, 5, 15, 26, 60], "b": [3, 13, 23, 24], "c": [50]}
ROWS = sorted(({"key": key, "ts": at(s)} for key, all_s in SECONDS.items() for s in all_s), key=lambda row: row["ts"])


def test_should_join_rows_that_follow_each_other_within_the_gap(source, drive):
    stream = source("key string, ts timestamp").window(SessionWindow.of(Time.seconds(10), "ts")).group_by("key")
    rows = drive(stream.count("n").water_mark(Time.seconds(90)).to_data_stream(), ROWS[4:], ROWS[:4])
    # Rows exactly a gap apart belong together: a at 5 and 15, b at 3, 13 and 23.
    assert windows_of(rows) == counted(sessions(ROWS, gap=10))
    assert {(row["key"], row["n"]) for row in rows} == {("a", 3), ("a", 1), ("b", 4), ("c", 1)}


@pytest.mark.parametrize(("delay", "sizes"), [(Time.milliseconds(1), [1, 2]), (Time.seconds(0), [1, 1, 1])])
def test_a_row_a_gap_after_the_last_one_continues_until_the_watermark_is_there(source, drive, delay, sizes):
    stream = source("key string, ts timestamp").window(SessionWindow.of(Time.seconds(10), "ts")).group_by("key")
    # A row of b brings the watermark, less the delay, to the end of the session of a.
    batches = [[{"key": "a", "ts": at(0)}], [{"key": "b", "ts": at(10)}], [{"key": "a", "ts": at(10)}]]
    rows = drive(stream.count("n").water_mark(delay).to_data_stream(), *batches)
    assert sorted(row["n"] for row in rows) == sizes


def test_should_find_sessions_of_the_whole_stream(source, drive):
    rows = drive(
        source("key string, ts timestamp").window(SessionWindow.of(Time.seconds(10), "ts")).count("n").to_data_stream(),
        ROWS,
    )
    assert sorted(row["n"] for row in rows) == sorted(
        len(s) for s in sessions([r | {"key": 0} for r in ROWS], gap=10).values()
    )


def test_should_refuse_complete_mode(source):
    stream = (
        source("key string, ts timestamp").window(SessionWindow.of(Time.seconds(10), "ts")).group_by("key").count("n")
    )
    with pytest.raises(TopologyError, match="no complete mode"):
        stream.to_data_stream().to_delta("t", mode="complete").build()

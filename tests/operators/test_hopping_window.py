"""Hopping windows against the reference model."""

import pytest

from rs_assets import HoppingWindow, Time
from rs_assets.errors import TopologyError
from tests.operators.model import at, counted, sliced, windows_of

ROWS = [{"key": f"k{n % 2}", "ts": at(n * 3)} for n in range(12)]


@pytest.mark.parametrize(("size", "slide"), [(10, 5), (9, 4), (10, 10)])
def test_should_count_a_row_in_every_window_it_belongs_to(source, drive, size, slide):
    window = HoppingWindow.of(Time.seconds(size), Time.seconds(slide), "ts")
    stream = source("key string, ts timestamp").window(window).group_by("key").count("n").water_mark(Time.seconds(5))
    rows = drive(stream.to_data_stream(), ROWS[:7], ROWS[7:])
    assert windows_of(rows) == counted(sliced(ROWS, size=size, slide=slide))


def test_should_refuse_a_slide_between_which_rows_would_vanish():
    with pytest.raises(TopologyError, match="rows between windows would be lost"):
        HoppingWindow.of(Time.seconds(5), Time.seconds(6), "ts")

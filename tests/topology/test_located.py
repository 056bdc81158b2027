"""The steps of which a replay of a batch finds the failing record."""

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.topology.located import located


def made(**options):
    hits = StreamBuilder.data_stream("test", "hits").from_file("in.jsonl", schema="n bigint, ts timestamp", **options)
    windows = hits.filter("n > 5").window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("n").count("rows")
    return windows.to_data_stream().filter("rows > 1", name="many").to_print().build().topology


def test_located_has_the_steps_before_a_state():
    assert located(made()) == {"file", "filter_1"}


def test_located_of_a_pipeline_that_quarantines_is_empty():
    assert located(made(bad_records="quarantine")) == frozenset()

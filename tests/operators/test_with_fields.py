"""with_fields: new fields beside the old ones."""

import pytest

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import TopologyError, UnknownFieldError


def test_should_add_and_replace_from_the_record_as_it_came(source, drive):
    rows = drive(source("n bigint").with_fields(n="n + 1", double="n * 2"), [{"n": 5}])
    assert rows == [{"n": 6, "double": 10}]


def test_should_name_the_unknown_field(source, compute):
    with pytest.raises(UnknownFieldError, match="use one of: n"):
        compute(source("n bigint").with_fields(m="k + 1"), [{"n": 5}])


def test_should_refuse_no_field(source):
    with pytest.raises(TopologyError, match="adds no field"):
        source("n bigint").with_fields()


def test_run_star_in_sql_stands_for_the_fields_of_the_record_alone(options):
    """Rows whose lateness is judged by record have their place in hidden fields."""
    out, rows = MemoryChannel(), [{"n": number, "ts": 1_000 * number} for number in (1, 2)]
    stream = StreamBuilder.data_stream("test", "star").from_array(rows, schema="n bigint, ts bigint")
    stream = stream.filter("hash(*) = hash(n, ts)").map("*", "to_json(struct(*)) AS j", "2 * n AS m")
    stream = stream.flat_map("inline(array(struct(*)))")
    window = stream.window(TumblingWindow.of(Time.minutes(1), "ts")).collect("j").sum("m")
    window = window.water_mark(Time.seconds(1), per="split", lateness="record")
    window.to_data_stream().map("j", "m").to_memory(out).build().run(options)
    [row] = out.rows()
    assert sorted(row["j"]) == ['{"n":1,"ts":1000}', '{"n":2,"ts":2000}']
    assert row["m"] == 6

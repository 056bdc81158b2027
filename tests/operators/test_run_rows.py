"""run_rows: the rows that a query would write, without a query."""

from datetime import UTC, datetime

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import BadRecordError, SchemaError, StepError, TopologyError, UnknownFieldError
from rs_assets.testing import PipelineDriver, run_rows

SCHEMA = "page string, ms bigint, at timestamp, tags array<string>"
AT = datetime(2026, 1, 5, 9, tzinfo=UTC)
ROWS = [
    {"page": "/a", "ms": 5, "at": AT, "tags": ["x", "y"]},
    {"page": None, "ms": 2**53 + 1, "at": None, "tags": []},
    {"page": "/\u00e9", "ms": None, "at": AT, "tags": None},
    {"page": "/b", "ms": -1, "at": AT, "tags": [None]},
]


def begin(source, **options):
    return source(SCHEMA, **options)


STREAMS = {
    "sql": lambda s: s.filter("ms IS NOT NULL").with_fields(twice="ms * 2"),
    "python": lambda s: s.map(lambda r: {"page": r["page"], "n": r["ms"] or 0}, schema="page string, n bigint"),
    "fused": lambda s: s.filter(lambda r: r["ms"] != 5).flat_map(
        lambda r: [{"t": t} for t in r["tags"] or ()], schema="t string"
    ),
    "script": lambda s: s.script("long=length(page)"),
    "branches": lambda s: s.filter("ms > 0").union(s.filter("ms < 0")),
    "shuffled": lambda s: s.shuffle(1).select_fields("page"),
}


def test_run_rows_of_steps_without_state_equal_those_of_a_query(source, driver):
    for name, steps in STREAMS.items():
        stream = steps(begin(source))
        rows = run_rows(stream, ROWS, spark=driver)
        with PipelineDriver(stream.to_print(name="end").build(), spark=driver) as query:
            query.push(ROWS)
            query.step()
            assert (name, rows) == (name, query.take())


def test_run_rows_with_two_sources_takes_the_rows_by_name(driver):
    builder = StreamBuilder.data_stream("test", "two")
    left = builder.from_array([{"n": 1}], name="left")
    right = builder.from_file("r.jsonl", schema="n bigint", name="right")
    both = left.union(right)
    assert run_rows(both, {"right": [{"n": 2}]}, spark=driver) == [{"n": 1}, {"n": 2}]
    with pytest.raises(TopologyError, match="which source"):
        run_rows(both, [{"n": 2}])
    with pytest.raises(TopologyError, match="for each source, and for no other: right"):
        run_rows(both)


def test_run_rows_leaves_the_stream_as_it_was(source, driver):
    stream = begin(source).select_fields("ms")
    assert run_rows(stream, ROWS[:1], spark=driver) == run_rows(stream, ROWS[:1], spark=driver) == [{"ms": 5}]
    assert [sink.name for sink in stream.to_print(name="end").build().topology.sinks] == ["end"]


@pytest.mark.parametrize(
    ("steps", "error", "match"),
    [
        (lambda s: s.filter("size > 1"), UnknownFieldError, "page, ms"),
        (lambda s: s.map(lambda r: {"n": r["size"]}, schema="n bigint"), StepError, "KeyError: 'size'"),
        (lambda s: s.distinct("page", within=Time.seconds(1), time_field="at"), TopologyError, "needs batches"),
        (
            lambda s: s.window(TumblingWindow.of(Time.seconds(1), "at")).group_by("page").count("n").to_data_stream(),
            TopologyError,
            "needs batches",
        ),
    ],
)
def test_run_rows_refuses_what_it_cannot_compute(source, driver, steps, error, match):
    with pytest.raises(error, match=match):
        run_rows(steps(begin(source)), ROWS, spark=driver)


def test_run_rows_refuses_a_row_that_does_not_fit_the_schema(source, driver):
    with pytest.raises(SchemaError, match="'size', which is not in the schema"):
        run_rows(begin(source), [{"size": 1}], spark=driver)


def test_run_rows_under_quarantine_leaves_out_what_a_function_raises_on(source, driver):
    def half(row):
        return {"n": row["ms"] // 2}

    stream = begin(source, bad_records="quarantine").map(half, schema="n bigint")
    assert [row["n"] for row in run_rows(stream, ROWS, spark=driver)] == [2, 2**52, -1]
    with pytest.raises((StepError, BadRecordError)):
        run_rows(begin(source).map(half, schema="n bigint"), ROWS, spark=driver)

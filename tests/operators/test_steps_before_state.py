"""Functions in Python that change no row, before each kind of step with state: the rows that come out stay the same.

Such a step adds columns of ours or keeps some, and the function passes them through Spark, Python, or both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rs_assets import (
    CountWindow,
    CumulateWindow,
    GlobalWindow,
    HoppingWindow,
    OverWindow,
    Processor,
    SessionWindow,
    SlidingWindow,
    Time,
    TumblingWindow,
    ValueStore,
)

SCHEMA = "page string, n int, ts timestamp, tags array<string>, of struct<a: int, b: string>"
START = datetime(2024, 1, 1, tzinfo=UTC)
TEN, HOUR = Time.minutes(10), Time.minutes(60)
PAGES, NUMBERS = ("Aa", "Bb", "Éé", "Aa", "Bb"), (1, None, 2, 3)
TAGS, PARTS = (["x", "y"], [], None), ({"a": 1, "b": "q"}, None, {"a": None, "b": None}, {"a": 2, "b": ""})


def rows_of(first):
    """Eight rows whose times and values are in no order."""
    return [
        {
            "page": PAGES[n % 5],
            "n": NUMBERS[n % 4],
            "ts": START + timedelta(seconds=n * 733 % 1800),
            "tags": TAGS[n % 3],
            "of": PARTS[n % 4],
        }
        for n in range(first, first + 8)
    ]


def titled(row):
    """The same row: its page is a title. Spark computes the first of both cases."""
    return {**row, "page": row["page"] if row["n"] == 1 else row["page"].title()}


SAME = {
    "filter in part": lambda s: s.filter(lambda r: r["page"] != "/" and r["page"].title() is not None),
    "filter called": lambda s: s.filter(lambda r: True, trace=False),
    "map in part": lambda s: s.map(titled, schema=SCHEMA),
    "map called": lambda s: s.map(lambda r: r, schema=SCHEMA, trace=False),
    "flat_map": lambda s: s.flat_map(lambda r: [r], schema=SCHEMA),
    "map_batches": lambda s: s.map_batches(lambda batch: batch, schema=SCHEMA),
    "split": lambda s: s.split(lambda r: "all").select("all"),
    "for_each": lambda s: s.for_each(lambda r: None),
    "several": lambda s: (
        s.filter(lambda r: True, trace=False).map(titled, schema=SCHEMA).flat_map(lambda r: [r], schema=SCHEMA)
    ),
}


class Summed(Processor):
    """The numbers of a key, added up row by row."""

    total = ValueStore("n int")

    def process(self, key, row, context):
        n = (context.total.get() or {"n": 0})["n"] + (row["n"] or 0)
        context.total.put({"n": n})
        context.forward({**key, "n": n, "tag": (row["tags"] or [None])[0]})


def fired(window, made=lambda w: w.group_by("page").count("c").sum("n", "x")):
    """A window with aggregates, or a ranking; the time it fires depends on the clock."""
    return lambda s: made(s.window(window)).water_mark(HOUR).to_data_stream()


WITH_STATE = {
    "process": lambda s: s.process(Summed, keys="page", schema="page string, n int, tag string"),
    "table": lambda s: s.to_table("page", order_by="ts").group_by("n").count("c").to_stream(),
    "group": lambda s: s.group_by("page").count("c").sum("n", "x").to_stream(),
    "tumbling": fired(TumblingWindow.of(TEN, "ts")),
    "hopping": fired(HoppingWindow.of(TEN, Time.minutes(5), "ts")),
    "cumulate": fired(CumulateWindow.of(HOUR, TEN, "ts")),
    "session": fired(SessionWindow.of(Time.minutes(2), "ts")),
    "sliding": fired(SlidingWindow.of(TEN, "ts")),
    "over": fired(OverWindow.rows(2, "ts", keep=["tags", "of"])),
    "over a range": fired(OverWindow.range(TEN, "ts", keep=["tags", "of"])),
    "ranking": fired(TumblingWindow.of(TEN, "ts"), lambda w: w.top_n(2, by=["n", "ts"], fields=["page", "of"])),
    "collect": fired(TumblingWindow.of(TEN, "ts"), lambda w: w.group_by("n").collect("of", "all")),
    "split": lambda s: (
        s.window(TumblingWindow.of(TEN, "ts"))
        .group_by("page")
        .count("c")
        .water_mark(HOUR, per="split")
        .to_data_stream()
    ),
    "global": lambda s: s.window(GlobalWindow.of("ts")).group_by("page").top_n(1, by="ts").to_data_stream(),
    "number of rows": lambda s: s.window(CountWindow.of(2)).group_by("page").collect("n", "of").to_data_stream(),
    "distinct": lambda s: s.distinct("page", "n", within=HOUR, time_field="ts").select_fields("page", "n"),
    "join": lambda s: s.select_fields("page", "n", "ts").join(
        s.filter("n > 1").select_fields("page", "of", "ts"),
        on="page",
        within=TEN,
        time_field="ts",
        prefix="r_",
        how="left",
    ),
}
# What the clock gives.
HIDDEN = {"fire_time"}
BY_CLOCK = {"start_time", "end_time", *HIDDEN}


def shown(rows, hidden):
    """Rows as text, in an order of their own."""
    return sorted(repr({name: value for name, value in row.items() if name not in hidden}) for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_STATE)
def test_functions_that_change_no_row_change_no_result(source, drive, name):
    hidden, after = BY_CLOCK if name in ("number of rows", "global") else HIDDEN, WITH_STATE[name]
    batches = rows_of(0), rows_of(8)
    plain = shown(drive(after(source(SCHEMA)), *batches), hidden)
    assert plain
    wrong = {}
    for before, same in SAME.items():
        found = shown(drive(after(same(source(SCHEMA))), *batches), hidden)
        if found != plain:
            wrong[before] = found
    assert not wrong, plain

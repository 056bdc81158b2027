"""Names that Avro does not have, in which Spark writes the schema of state: in rows of a ranking, and in structs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rs_assets import (
    CountWindow,
    GlobalWindow,
    MemoryChannel,
    OverWindow,
    Pipeline,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.spark.driver import SparkDriver
from rs_assets.testing import PipelineDriver

HEAD = "struct<`user-agent`: string, `1st`: array<struct<`x y`: int>>>"
SCHEMA = f"id bigint, `speed.kmh` double, head {HEAD}, ts timestamp"
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {
            "id": n % 2,
            "speed.kmh": float(n),
            "head": {"user-agent": f"agent {n}", "1st": [{"x y": n}, None]},
            "ts": BEGIN + timedelta(seconds=n),
        }
        for n in range(first, last)
    ]


def ranked(stream: Any) -> Pipeline:
    best = stream.window(GlobalWindow.of("ts"), name="best").group_by("id")
    return best.top_n(1, by="speed.kmh", fields=["head"]).to_data_stream().to_memory(MemoryChannel()).build()


def current(stream: Any) -> Pipeline:
    return stream.to_table("id").to_stream().to_memory(MemoryChannel()).build()


def first_of_group(stream: Any) -> Pipeline:
    top = stream.with_fields(agent="head.`user-agent`").to_table("agent").group_by("id").top_n(1, by="speed.kmh")
    return top.to_stream().to_memory(MemoryChannel()).build()


def pairs(stream: Any) -> Pipeline:
    pair = stream.window(CountWindow.of(3, "ts"), name="threes").group_by("id")
    pair = pair.aggregate(head="max_by(head, struct(`speed.kmh`, head))").max("speed.kmh").water_mark(Time.minutes(1))
    return pair.to_data_stream().to_memory(MemoryChannel()).build()


@pytest.mark.parametrize("made", [ranked, current, first_of_group, pairs])
def test_should_keep_rows_whose_inner_names_are_not_those_of_avro(driver: SparkDriver, made: Any) -> None:
    """Fields with a dot, a hyphen, a blank or a digit in front; the rows have their own names again."""
    stream = StreamBuilder.data_stream("odd", "names").from_array([], schema=SCHEMA, name="rows")
    with PipelineDriver(made(stream), spark=driver) as running:
        running.push(rows(0, 4))
        running.step()
        running.restart()
        running.push(rows(4, 6))
        running.step()
        running.finish()
        found = [row for row in running.take() if not row.get("retracted")]
    newest = {row["id"]: row for row in found}
    assert {key: row["head"] for key, row in newest.items()} == {row["id"]: row["head"] for row in rows(4, 6)}


def test_names_with_a_backtick_go_through_windows_joins_and_tables(driver: SparkDriver) -> None:
    """Each step quotes the names of its fields."""
    begin = StreamBuilder.data_stream("odd", "backticks")
    schema = "id bigint, `k``y` string, `m``s` bigint, ts timestamp"
    left, right = (begin.from_array([], schema=schema, name=name) for name in ("left", "right"))
    counted = left.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("k`y").sum("m`s", "s`m")
    counted.to_data_stream().to_memory(MemoryChannel(), name="counted")
    ranked = left.window(TumblingWindow.of(Time.seconds(10), "ts"), name="first").group_by("k`y").top_n(1, by="m`s")
    ranked.to_data_stream().to_memory(MemoryChannel(), name="ranked")
    over = left.window(OverWindow.rows(1, "ts", keep=["m`s"]), name="over").group_by("k`y").max("m`s", "most")
    over.to_data_stream().to_memory(MemoryChannel(), name="followed")
    once = left.distinct("k`y", within=Time.seconds(10), time_field="ts").select_fields("k`y")
    once.to_memory(MemoryChannel(), name="once")
    both = left.join(right, on="k`y", within=Time.seconds(1), time_field="ts", prefix="r_").select_fields(
        "m`s", "r_m`s"
    )
    both.to_memory(MemoryChannel(), name="both")
    table = left.to_table("k`y").map_values("`m``s` + 1 AS `n``n`").to_stream().to_memory(MemoryChannel(), name="kept")
    row = {"id": 1, "k`y": "a", "m`s": 7, "ts": BEGIN}
    with PipelineDriver(table.build(), spark=driver) as running:
        running.push([row], "left")
        running.push([row], "right")
        running.finish()
        found = {name: running.take(name)[0] for name in ("counted", "ranked", "followed", "once", "both", "kept")}
    assert (found["counted"]["k`y"], found["counted"]["s`m"]) == ("a", 7)
    assert (found["ranked"]["k`y"], found["ranked"]["m`s"], found["ranked"]["rank"]) == ("a", 7, 1)
    assert (found["followed"]["m`s"], found["followed"]["most"]) == (7, 7)
    assert (found["once"], found["both"]) == ({"k`y": "a"}, {"m`s": 7, "r_m`s": 7})
    assert found["kept"] == {"k`y": "a", "n`n": 8, "retracted": False}

"""Forget in each kind of state: no file has the key, no other row is lost, and the pipeline goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from rs_assets import (
    CountWindow,
    GlobalWindow,
    MapStore,
    MemoryChannel,
    OverWindow,
    Processor,
    SessionWindow,
    SlidingWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.pipeline import Pipeline
from tests.runtime.test_forget import KEY, OTHER, SCHEMA, holding, row

MINUTE = Time.minutes(1)
STATE = "n bigint"


class Counted(Processor):
    """Counts the rows of a user by city."""

    seen = MapStore("city string", "n bigint")

    def process(self, key: Any, row: Any, context: Any) -> None:
        n = (context.seen.get(row["city"]) or {"n": 0})["n"] + 1
        context.seen.put(row["city"], {"n": n})
        context.forward({"user": key["user"], "n": n})


class Waiting(Counted):
    """Sets a timer, too."""

    def process(self, key: Any, row: Any, context: Any) -> None:
        super().process(key, row, context)
        context.schedule_at(context.time + MINUTE, self.ended)

    def ended(self, key: Any, at: Any, context: Any) -> None:
        context.seen.clear()


def counted(key: Any, state: Any, rows: Any) -> Any:
    n = (state["n"] if state else 0) + len(rows)
    return {"n": n}, [{"user": key["user"], "n": n}]


def windowed(window: Any, **more: Any) -> Callable[[Any], Any]:
    return lambda read: read.window(window, name="kept", **more).group_by("user").count("n")


def table(read: Any) -> Any:
    return read.to_table("user", name="kept")


KINDS: dict[str, Callable[[Any], Any]] = {
    "window": windowed(TumblingWindow.of(MINUTE, "ts")),
    "updates": windowed(TumblingWindow.of(MINUTE, "ts"), emit="on_window_update"),
    "session": windowed(SessionWindow.of(MINUTE, "ts")),
    "session_updates": windowed(SessionWindow.of(MINUTE, "ts"), emit="on_window_update"),
    "count_window": windowed(CountWindow.of(4, "ts")),
    "sliding": windowed(SlidingWindow.of(MINUTE, "ts")),
    "over": windowed(OverWindow.rows(9, "ts", keep=["ms"])),
    "global": windowed(GlobalWindow.of("ts")),
    "distinct": lambda read: read.distinct("user", within=MINUTE, time_field="ts", name="kept"),
    "process_values": lambda read: read.process_values(
        counted, keys="user", state=STATE, schema="user string, n bigint", name="kept"
    ),
    "processor": lambda read: read.process(Counted, keys="user", schema="user string, n bigint", name="kept"),
    "table": table,
    "groups": lambda read: read.group_by("user").count("n"),
    "grouped_table": lambda read: table(read).group_by("user").count("n"),
}


JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "asof_join": lambda left, right: left.asof_join(
        right, on="user", time_field="ts", tolerance=MINUTE, prefix="at_", how="inner", name="kept"
    ),
    "table_join": lambda left, right: left.join_table(
        right.to_table("user", name="users"), on="user", prefix="of_", name="kept"
    ),
    "pairs": lambda left, right: left.to_table("user", "ms", name="hits").join(
        right.to_table("user", "price", name="prices"), on="user", prefix="of_", name="kept"
    ),
}


def made(kind: str, source: MemoryChannel) -> Pipeline:
    read = StreamBuilder.data_stream("gone", "kept").from_memory(source, name="read")
    pipeline: Pipeline = KINDS[kind](read).to_delta("kept", name="out").build()
    return pipeline


def rows_of(options: RunOptions) -> list[dict[str, Any]]:
    path = options.home.table("gone", "kept")
    return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []


def run(pipeline: Pipeline, source: MemoryChannel, options: RunOptions, *rows: dict[str, Any]) -> None:
    source.put(*rows)
    pipeline.run(options)


@pytest.mark.parametrize("kind", KINDS)
def test_state_of_each_kind_loses_the_key_and_nothing_else(
    kind: str, options: RunOptions, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = MemoryChannel(schema=SCHEMA)
    pipeline = made(kind, source)
    for second in range(3):
        run(pipeline, source, options, row(KEY, second), row(OTHER, second), row(f"u{second}", second))
    assert any(file.startswith("checkpoints/") for file in holding(options.home.root))

    done = pipeline.forget({"user": KEY}, options)
    assert [str(each) for each in done.places if each.left] == []
    assert (done.complete, holding(options.home.root)) == (True, [])
    assert {query.found for query in pipeline.verify(options)} == {()}
    kept = len(rows_of(options))
    # Twice: from the state that was written again, and from what is written on it.
    for second in (10, 11):
        run(pipeline, source, options, row(OTHER, second), {**row("end", 1), "ts": f"2026-01-05 10:{second}:00"})
    found = rows_of(options)
    assert len(found) > kept or kind == "distinct"
    assert KEY not in {each.get("user") for each in found}
    assert expected(kind, found)


def expected(kind: str, found: list[dict[str, Any]]) -> bool:
    """Whether the newest row of the other user goes on from its state."""
    counts = [each["n"] for each in found if each["user"] == OTHER and "n" in each]
    # A table has one row of each user.
    return not counts or max(counts) >= (1 if kind == "grouped_table" else 4)


def test_timers_of_the_key_are_refused_and_taken_when_they_have_fired(options: RunOptions) -> None:
    source = MemoryChannel(schema=SCHEMA)
    read = StreamBuilder.data_stream("gone", "kept").from_memory(source, name="read")
    counts = read.process(Waiting, keys="user", schema="user string, n bigint", time_field="ts", name="kept")
    pipeline = counts.to_delta("kept", name="out").build()
    run(pipeline, source, options, row(KEY, 1), row(OTHER, 1))
    with pytest.raises(ConfigurationError, match="with a key that it keeps under other keys") as refused:
        pipeline.forget({"user": KEY}, options)
    assert "run the pipeline until they have left the state" in refused.value.remedy
    for minute in (10, 20, 30):
        run(pipeline, source, options, {**row(OTHER, 1), "ts": f"2026-01-05 10:{minute}:00"})
    assert pipeline.forget({"user": KEY}, options).complete
    assert holding(options.home.root) == []
    run(pipeline, source, options, {**row(OTHER, 1), "ts": "2026-01-05 10:40:00"})


@pytest.mark.parametrize("kind", JOINS)
def test_joins_lose_the_rows_of_the_key_and_nothing_else(kind: str, options: RunOptions) -> None:
    left, right = MemoryChannel(schema=SCHEMA), MemoryChannel(schema="user string, price int, ts timestamp")
    begin = StreamBuilder.data_stream("gone", "kept")
    joined = JOINS[kind](begin.from_memory(left, name="left"), begin.from_memory(right, name="right"))
    pipeline = joined.to_delta("kept", name="out").build()
    right.put(*({"user": user, "price": 7, "ts": "2026-01-05 10:00:00"} for user in (KEY, OTHER)))
    run(pipeline, left, options, row(KEY, 1), row(OTHER, 1))

    assert pipeline.forget({"user": KEY}, options).complete
    assert holding(options.home.root) == []
    run(pipeline, left, options, row(KEY, 2), row(OTHER, 2))
    right.put({"user": "end", "price": 7, "ts": "2026-01-05 10:20:00"})
    run(pipeline, left, options, {**row("end", 1), "ts": "2026-01-05 10:20:00"})
    assert {each["user"] for each in rows_of(options)} >= {OTHER}
    assert KEY not in {each["user"] for each in rows_of(options)}

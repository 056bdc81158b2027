"""Forget in each kind of state: no file has the key, no other row is lost, and the pipeline goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from rs_assets import (
    GlobalWindow,
    MemoryChannel,
    OverWindow,
    SessionWindow,
    SlidingWindow,
    StreamBuilder,
    Time,
    TumblingWindow,
)
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.pipeline import Pipeline
from tests.runtime.test_forget import KEY, OTHER, SCHEMA, holding, row

MINUTE = Time.minutes(1)
STATE = "n bigint"


def counted(key: Any, state: Any, rows: Any) -> Any:
    n = (state["n"] if state else 0) + len(rows)
    return {"n": n}, [{"user": key["user"], "n": n}]


def windowed(window: Any, **more: Any) -> Callable[[Any], Any]:
    return lambda read: read.window(window, name="kept", **more).group_by("user").count("n")


KINDS: dict[str, Callable[[Any], Any]] = {
    "window": windowed(TumblingWindow.of(MINUTE, "ts")),
    "updates": windowed(TumblingWindow.of(MINUTE, "ts"), emit="on_window_update"),
    "session": windowed(SessionWindow.of(MINUTE, "ts")),
    "session_updates": windowed(SessionWindow.of(MINUTE, "ts"), emit="on_window_update"),
    "sliding": windowed(SlidingWindow.of(MINUTE, "ts")),
    "over": windowed(OverWindow.rows(9, "ts", keep=["ms"])),
    "global": windowed(GlobalWindow.of("ts")),
    "process_values": lambda read: read.process_values(
        counted, keys="user", state=STATE, schema="user string, n bigint", name="kept"
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
    assert len(found) > kept
    assert KEY not in {each.get("user") for each in found}
    assert expected(kind, found)


def expected(kind: str, found: list[dict[str, Any]]) -> bool:
    """Whether the newest row of the other user goes on from its state."""
    counts = [each["n"] for each in found if each["user"] == OTHER and "n" in each]
    return True if not counts else max(counts) >= 4

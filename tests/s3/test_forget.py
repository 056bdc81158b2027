"""Forget, of a pipeline whose outputs, dead letters and savepoints are in S3."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from rs_assets import MemoryChannel, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.delta.forgetting import TableErasure
from rs_assets.errors import CheckpointError
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.stream.pipeline import Pipeline
from tests.s3.rows import table

KEY, OTHER = "zq17zq", "ann"


def row(user: str, second: int, ms: int = 1) -> dict[str, Any]:
    return {"user": user, "ms": ms, "ts": f"2026-01-05 10:00:{second:02d}"}


def made(source: MemoryChannel, bucket: str) -> Pipeline:
    read = StreamBuilder.data_stream("gone", "far").from_memory(source, name="read")
    usual = read.expect("ms >= 0", on_fail="dead_letter", name="usual")
    usual.to_delta(f"{bucket}/visits", name="out")
    minutes = TumblingWindow.of(Time.minutes(1), "ts")
    counts = usual.window(minutes, name="of_user", emit="on_window_update").group_by("user").count("n")
    return counts.to_delta(f"{bucket}/of_user", mode="upsert", keys=["user", "start_time"]).build()


def holding(s3: Any, bucket: str) -> list[str]:
    """The objects with the key: Parquet in any column, all others in their bytes."""
    client, name, found = s3.client(), bucket.removeprefix("s3://"), []
    for each in client.list_objects_v2(Bucket=name).get("Contents", ()):
        content = client.get_object(Bucket=name, Key=each["Key"])["Body"].read()
        if each["Key"].endswith(".parquet"):
            content = str(pq.ParquetFile(io.BytesIO(content)).read().to_pylist()).encode()
        found += [each["Key"]] if KEY.encode() in content else []
    return found


@pytest.mark.long
def test_no_object_has_the_key_afterwards_whatever_ended_it_in_between(
    bucket: str, s3: Any, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RS_DEAD_LETTERS", f"{bucket}/dead_letters")
    options = replace(options, savepoints=SavepointPolicy(uri=f"{bucket}/savepoints"))
    source = MemoryChannel(schema="user string, ms bigint, ts timestamp")
    pipeline = made(source, bucket)
    for second in range(3):
        source.put(row(KEY, second), row(OTHER, second), row(KEY, second, ms=-1), row(OTHER, second, ms=-1))
        pipeline.run(options)
    pipeline.savepoint(options)
    assert {name.partition("/")[0] for name in holding(s3, bucket)} >= {"visits", "of_user", "dead_letters"}
    with monkeypatch.context() as patch:
        patch.setattr(TableErasure, "_cut_log", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pipeline.forget({"user": [KEY]}, options, savepoints="remove")
    with pytest.raises(CheckpointError, match="forgot"):
        pipeline.run(options)
    done = pipeline.forget({"user": [KEY]}, options, savepoints="remove")
    assert (done.complete, holding(s3, bucket)) == (True, [])
    source.put(row(OTHER, 5), row(OTHER, 6, ms=-1))
    pipeline.run(options)
    assert dead_letters_of(options.home.dead_letters, "gone", "far").num_rows == 4
    assert table(f"{bucket}/visits").to_pyarrow_table()["user"].to_pylist() == [OTHER] * 4
    (counted,) = table(f"{bucket}/of_user").to_pyarrow_table().to_pylist()
    assert (counted["user"], counted["n"]) == (OTHER, 4)

"""State in S3, where the machines of a cluster write it, and its copy in the home of the driver."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, SinkError
from rs_assets.operators.state.exchange import NOTE, Exchange, left_over, queries_left
from rs_assets.runtime.job import opening
from rs_assets.runtime.options import SavepointPolicy
from tests.crash import Crash
from tests.s3.rows import table

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("s3_jars")]


class World:
    """Hits by page in windows of ten seconds, and the newest number of each page, against a plain count."""

    def __init__(self, folder: Path, bucket: str) -> None:
        self.folder, self.bucket = folder / "in", bucket
        self.folder.mkdir()
        self.hits: list[tuple[str, int]] = []

    def add(self, count: int = 20) -> None:
        new = [(f"p{n % 3}", n) for n in range(len(self.hits), len(self.hits) + count)]
        self.hits += new
        rows = [{"page": page, "n": n, "at": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"} for page, n in new]
        file = self.folder / f"{len(self.hits):06d}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    @property
    def pipeline(self):
        hits = StreamBuilder.data_stream("shop", "hits").from_file(
            self.folder, schema="page string, n bigint, at timestamp", name="file"
        )
        windowed = hits.window(TumblingWindow.of(Time.seconds(10), "at"), name="counts").group_by("page").count("n")
        windowed.water_mark(Time.seconds(1)).to_data_stream().to_delta(f"{self.bucket}/counts", name="counts_out")
        newest = hits.to_table("page", order_by="n", name="newest")
        return newest.to_delta(f"{self.bucket}/newest", name="newest_out").build()

    @property
    def want(self) -> Counter:
        return Counter((page, n // 10) for page, n in self.hits)

    def check(self, *, finished: bool = True) -> None:
        rows = table(f"{self.bucket}/counts").to_pyarrow_table().to_pylist()
        starts = [(row["page"], row["start_time"].minute * 6 + row["start_time"].second // 10) for row in rows]
        got = Counter({key: row["n"] for key, row in zip(starts, rows, strict=True)})
        assert len(got) == len(rows)
        assert got == self.want if finished else got.items() <= self.want.items()
        newest = table(f"{self.bucket}/newest").to_pyarrow_table().to_pylist()
        assert {row["page"]: row["n"] for row in newest} == dict(self.hits)


@pytest.fixture
def world(tmp_path, bucket, monkeypatch):
    monkeypatch.setenv("RS_STATE", f"{bucket}/state")
    made = World(tmp_path, bucket)
    made.add()
    return made


def states(options) -> set[str]:
    return {path.name for path in options.home.root.rglob("checkpoint/state/**/*.changelog")}


def test_state_goes_there_and_comes_home(world, options, s3):
    world.pipeline.run(options, finish=False)
    assert states(options)
    assert not queries_left(options.home.job("shop", "hits"))
    keys = [each["Key"] for each in s3.client().list_objects_v2(Bucket=world.bucket[5:], Prefix="state/")["Contents"]]
    assert not [key for key in keys if key.endswith((".changelog", ".zip", ".sst"))]
    world.add()
    world.pipeline.run(options, finish=False)
    world.check(finished=False)
    assert world.pipeline.state("counts", options).num_rows == 3
    world.add()
    world.pipeline.run(options, finish=True)
    world.check()


def killed(patch) -> None:
    """The run ends without a chance to bring its state home; the start of one still does that for the last one."""
    real = Exchange.end
    patch.setattr(Exchange, "end", lambda _: None)
    patch.setattr(opening, "settle", lambda query: real(left_over(query)) if left_over(query) else None)


@pytest.mark.parametrize("behind", [False, True])
def test_a_crash_loses_no_state(world, options, monkeypatch, behind):
    world.pipeline.run(options, finish=False)
    for _ in range(2):
        world.add()
        with monkeypatch.context() as patch:
            Crash(patch, DeltaWriter, behind=behind)
            killed(patch)
            with pytest.raises(SinkError, match="crash"):
                world.pipeline.run(options, finish=False)
        assert queries_left(options.home.job("shop", "hits"))
    world.pipeline.run(options, finish=False)
    world.add()
    world.pipeline.run(options, finish=True)
    world.check()


def test_a_home_without_the_rest_of_its_state_is_rewound_and_saved(world, options, monkeypatch, tmp_path):
    """What a run that was killed has left there is brought home first, and never again after the pipeline went back."""
    options = replace(options, savepoints=SavepointPolicy(uri=str(tmp_path / "store")))
    world.pipeline.run(options, finish=False)
    kept = [*world.hits]
    with monkeypatch.context() as patch:
        killed(patch)
        world.add()
        world.pipeline.run(options, finish=False)
    saved = world.pipeline.savepoint(options)
    assert saved.batches["newest"] == 1
    world.pipeline.rewind(0, options, step="newest")
    assert not queries_left(options.home.job("shop", "hits"))
    world.pipeline.run(options, finish=True)
    world.check()
    world.pipeline.rewind(0, options, step="counts")
    world.pipeline.run(options, finish=True)
    world.check()
    assert len(world.hits) > len(kept)


def test_a_blank_machine_continues_what_two_machines_began(world, options, monkeypatch, tmp_path):
    """The first one goes on without knowing that it was overtaken: nothing that it writes is read."""
    options = replace(options, savepoints=SavepointPolicy(uri=f"{world.bucket}/store", upload=True))
    with monkeypatch.context() as patch:
        killed(patch)
        world.pipeline.run(options, finish=False)
        world.add()
        world.pipeline.run(options, finish=False)
    other = replace(options, home=Home(tmp_path / "other"))
    world.add()
    report = world.pipeline.run(other, finish=False)
    assert report.recovered_from.startswith("upload")
    world.add()
    world.pipeline.run(options, finish=True)
    world.check()


def test_a_damaged_note_is_refused_and_a_new_generation_does_without(world, options):
    world.pipeline.run(options, finish=False)
    note = next(options.home.root.rglob("g0001/counts")) / NOTE
    note.write_text("{")
    with pytest.raises(CheckpointError, match="the note of the state in the object store is damaged"):
        world.pipeline.run(options, finish=False)
    world.pipeline.run(replace(options, new_generation=True), finish=True)
    world.check()

"""Records of two sources whose splits have one name are different ones, however equal they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from rs_assets import EventTimePartitions, StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.runtime.options import RunOptions
from rs_assets.stream.data_stream import DataStream

pytestmark = pytest.mark.long


def folders(folder: Path) -> list[DataStream]:
    """The streams of two folders, of one pipeline."""
    begin = StreamBuilder.data_stream("letters", "both")
    return [
        begin.from_file(
            folder / name,
            schema="id bigint, ts timestamp",
            bad_records="dead_letter",
            max_files_per_batch=1,
            name=name,
        )
        for name in ("one", "other")
    ]


def both(folder: Path) -> DataStream:
    """The union of two folders."""
    one, other = folders(folder)
    return one.union(other, name="all")


def put(folder: Path, number: int, *lines: str) -> None:
    """A file of the same name and text in each of two folders."""
    for name in ("one", "other"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"f{number}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def at(clock: str) -> str:
    return f'{{"id": 1, "ts": "2026-01-05 {clock}"}}'


def test_dead_letters_of_splits_of_one_name_have_their_source(tmp_path: Path, options: RunOptions) -> None:
    put(tmp_path, 0, at("10:00:00"), "bad")
    pipeline = both(tmp_path).expect("id > 1", on_fail="dead_letter", name="many").to_delta("all").build()
    report = pipeline.run(options)
    letters = dead_letters_of(options.home.dead_letters, "letters", "both").to_pylist()
    assert (len(letters), report.rows_dead, report.expectations) == (4, 2, {"many": (2, 2)})
    found = {(each["source"], each["split"], each["line"], each["step"]) for each in letters}
    assert found == {
        (source, "f0.jsonl", line, step) for source in ("one", "other") for line, step in ((1, "many"), (2, source))
    }
    (explained,) = pipeline.why(options, source=letters[0]["source"], split="f0.jsonl", line=letters[0]["line"])
    assert explained.steps[-1].outcome == "refused"


def test_late_rows_of_splits_of_one_name_are_counted_each(tmp_path: Path, options: RunOptions) -> None:
    hours = EventTimePartitions.hourly("start_time", since="2026-01-01")
    counts = both(tmp_path).window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("id").count("n")
    pipeline = counts.to_data_stream().to_delta("hits", partitions=hours).build()
    for number, clock in enumerate(("10:05:00", "11:15:00", "10:06:00", "12:30:00")):
        put(tmp_path, number, at(clock))
        pipeline.run(options)
    found = pipeline.partitions(options).partitions
    assert {each.key: each.late for each in found if each.late} == {"2026-01-05-10:00": 2}


def test_late_rows_of_a_join_have_their_source(tmp_path: Path, options: RunOptions) -> None:
    one, other = folders(tmp_path)
    joined = one.asof_join(other, on="id", time_field="ts", prefix="o_", tolerance=Time.minutes(1))
    pipeline = joined.to_delta("all").build()
    for number, clock in enumerate(("10:00:00", "12:00:00", "10:01:00")):
        put(tmp_path, number, at(clock))
        pipeline.run(options)
    letters = dead_letters_of(options.home.dead_letters, "letters", "both").to_pylist()
    assert {(each["source"], each["split"], each["line"]) for each in letters} == {
        (name, "f2.jsonl", 1) for name in ("one", "other")
    }

"""A log of a user as a source: exact offsets over restarts, batches read again, rows that are bad or gone."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.own.plan import loaded
from rs_assets.connectors.source import Lag
from rs_assets.dagster.sensors.inputs import ends_of, watched
from rs_assets.errors import (
    BadRecordError,
    CheckpointError,
    ConfigurationError,
    DataLossError,
    SchemaError,
    SealedError,
    SourceReadError,
    TopologyError,
)
from rs_assets.sources import LogSource


@dataclass
class Folder(LogSource):
    """Each file is a split, each line a row; a file `NAME.first` says which row its split begins with."""

    path: Path
    schema: str = "n bigint"
    max_rows_per_batch: int | None = None
    bounded: bool = False
    broken: str = ""

    def ends(self):
        if self.broken:
            raise OSError(self.broken)
        return {each.stem: self._first(each) + len(each.read_text().splitlines()) for each in self.path.glob("*.log")}

    def begins(self):
        return {each.stem: self._first(each) for each in self.path.glob("*.log")}

    def read(self, split, start, end):
        file = self.path / f"{split}.log"
        first = self._first(file)
        return [json.loads(line) for line in file.read_text().splitlines()[max(0, start - first) : end - first]]

    def location(self):
        return f"folder:{self.path}"

    def _first(self, file):
        mark = file.with_suffix(".first")
        return int(mark.read_text()) if mark.exists() else 0


class World:
    """A folder, and a pipeline that copies it; each run has a sink of its own, so that a repeated row shows."""

    def __init__(self, folder, options):
        self.path = folder / "logs"
        self.path.mkdir()
        self.batches = []
        self.options = replace(options, on_progress=self.batches.append)

    def write(self, split, *rows, first=0):
        (self.path / f"{split}.log").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (self.path / f"{split}.first").write_text(str(first))

    def add(self, split, *numbers):
        with (self.path / f"{split}.log").open("a") as file:
            file.writelines(f"{json.dumps({'n': n})}\n" for n in numbers)

    def stream(self, bad_records="fail", **settings):
        source = Folder(self.path, **settings)
        return StreamBuilder.data_stream("shop", "logs").from_source(source, bad_records=bad_records)

    def run(self, **settings):
        out = MemoryChannel()
        self.stream(**settings).to_memory(out).build().run(self.options)
        return sorted(row["n"] for row in out.rows())

    def forget_last_commit(self):
        """As after a kill: the last batch was planned, and Spark has not committed it."""
        log = CheckpointLog(self.options.home.job("shop", "logs") / "g0001" / "folder" / "checkpoint")
        last = log.last_committed()
        for name in (str(last), f".{last}.crc"):
            (log.folder / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def world(tmp_path, options):
    return World(tmp_path, options)


def test_should_read_each_row_once_over_restarts(world):
    world.add("a", 1, 2)
    assert world.run() == [1, 2]
    assert world.run() == []
    world.add("a", 3)
    world.add("b", 4)
    assert world.run() == [3, 4]
    assert loaded(world.batches[-1].offsets["folder"]) == {"a": (0, 3), "b": (0, 1)}
    # A batch that was cut off comes again as it was planned, and then what was added.
    world.forget_last_commit()
    world.add("b", 5)
    assert world.run() == [3, 4, 5]
    assert [batch.rows_in for batch in world.batches[-2:]] == [2, 1]


def test_should_plan_batches_of_bounded_size_over_all_splits(world):
    world.add("a", *range(5))
    world.write("b", *({"n": n} for n in range(10, 13)), first=100)
    assert world.run(max_rows_per_batch=4) == [0, 1, 2, 3, 4, 10, 11, 12]
    assert [batch.rows_in for batch in world.batches] == [4, 4]
    assert loaded(world.batches[-1].offsets["folder"]) == {"a": (0, 5), "b": (100, 103)}


def test_should_end_with_an_error_where_rows_are_lost(world):
    world.add("a", 1, 2)
    world.run()
    world.write("a", {"n": 1})
    with pytest.raises(DataLossError, match="'a' was read up to 2 and ends at 1"):
        world.run()
    world.write("a", {"n": 9}, first=3)
    with pytest.raises(DataLossError, match="it begins at 3, and 2 is the next row"):
        world.run()
    (world.path / "a.log").unlink()
    with pytest.raises(DataLossError, match="is not there any more"):
        world.run()
    world.write("a", {"n": 1}, {"n": 2})
    world.forget_last_commit()
    world.write("a", {"n": 2}, first=1)
    with pytest.raises(DataLossError, match="row 1 is missing or out of order"):
        world.run()
    # Put back, as the remedy says.
    world.write("a", {"n": 1}, {"n": 2}, {"n": 3})
    assert world.run() == [1, 2, 3]


def test_should_send_bad_rows_to_the_dead_letters_with_their_place(world):
    world.write("a", {"n": 1}, ["n"])
    with pytest.raises(SourceReadError, match="a dict or the text of a JSON object, not list") as refused:
        world.run(bad_records="dead_letter")
    assert refused.value.remedy == "return dicts with the fields of the schema"
    world.write("a", {"n": 1}, {"n": "soon"}, "{", "", {"n": 4})
    with pytest.raises(BadRecordError, match="n: 'soon' is not of type bigint") as raised:
        world.run()
    assert (raised.value.facts["split"], raised.value.facts["line"]) == ("a", 1)
    assert world.run(bad_records="dead_letter") == [1, 4]
    letters = DeltaTable(world.options.home.dead_letters).to_pyarrow_table().sort_by("line").to_pylist()
    assert [(row["split"], row["line"], row["record"]) for row in letters] == [
        ("a", 1, '{"n": "soon"}'),
        ("a", 2, "{"),
        ("a", 3, '""'),
    ]


@dataclass
class Once(LogSource):
    """One row of values of all types."""

    row: dict
    name = "once"

    def ends(self):
        return {"all": 1}

    def read(self, split, start, end):
        return [self.row]


def test_should_keep_values_of_all_types(options):
    row = {
        "d": Decimal("1.10"),
        "t": datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
        "day": date(2024, 3, 1),
        "raw": b"\xff\x00",
        "f": float("inf"),
        "parts": [{"a": 1}, {"a": None}],
        "text": "é\n",
    }
    schema = "d decimal(9,2), t timestamp, day date, raw binary, f double, parts array<struct<a bigint>>, text string"
    out = MemoryChannel()
    job = StreamBuilder.data_stream("shop", "once").from_source(Once(row), schema=schema.replace("a b", "a: b"))
    job.to_memory(out).build().run(options)
    (found,) = out.rows()
    found["t"] = found["t"].replace(tzinfo=UTC) if found["t"].tzinfo is None else found["t"].astimezone(UTC)
    assert found == row


def test_should_say_what_raised_and_go_on_once_it_is_mended(world):
    world.add("a", 1)
    with pytest.raises(SourceReadError, match="Folder.ends has raised OSError: no route") as raised:
        world.run(broken="no route")
    assert "nothing was committed" in raised.value.remedy
    assert world.run() == [1]


def test_should_close_a_bounded_log_for_good(world):
    world.add("a", 1)
    assert world.run(bounded=True) == [1]
    world.add("a", 2)
    job = world.stream(bounded=True).to_memory(MemoryChannel()).build()
    with pytest.raises(SealedError, match="there is more of it"):
        job.run(world.options)
    assert job.run(replace(world.options, new_generation=True)).rows_in == 2


def test_should_show_sensors_how_far_the_log_goes(world):
    topology = world.stream().to_print().build().topology
    world.add("a", 1, 2, 3)
    world.write("b", {"n": 1}, first=7)
    assert ends_of(watched(topology)) == {"folder": {"a": 3, "b": 8}}
    reader, patience = reader_of(topology["folder"]), timedelta(minutes=2)
    assert reader.lag('{"a": 1}', patience) == Lag(records=3)
    assert reader.lag(None, patience) == Lag(records=4)
    with pytest.raises(CheckpointError, match="not an offset"):
        reader.lag("[1]", patience)


# It is set, for a moment, when the answer is not waited for any more.
ASKED_LONG_AGO = threading.Event()


class Silent(LogSource):
    """Does not answer in time."""

    schema = "n bigint"

    def ends(self):
        ASKED_LONG_AGO.wait()
        return {"a": 1}

    def read(self, split, start, end):
        return []


class Wrong(Silent):
    """Returns what is not a dict of numbers."""

    def ends(self):
        return {"a": "1"}


def test_should_not_wait_for_a_source_that_is_silent_or_wrong():
    begin = StreamBuilder.data_stream("shop", "none")
    reader = reader_of(begin.from_source(Silent()).step.node)
    with pytest.raises(SourceReadError, match=r"'silent' has not answered within 0.01 s"):
        reader.ends(timedelta(milliseconds=10))
    ASKED_LONG_AGO.set()
    ASKED_LONG_AGO.clear()
    reader = reader_of(begin.from_source(Wrong()).step.node)
    with pytest.raises(SourceReadError, match="Wrong.ends must return a dict of whole numbers") as raised:
        reader.ends(timedelta(minutes=2))
    assert "{'0': 17, '1': 4}" in raised.value.remedy
    Wrong.ends = lambda _: {"0": 17, "1": 4}
    assert reader.ends(timedelta(minutes=2)) == {"0": 17, "1": 4}


def test_should_refuse_what_is_not_a_source(tmp_path):
    begin = StreamBuilder.data_stream("shop", "none")
    with pytest.raises(TopologyError, match="the source has no name, stream, batch") as refused:
        begin.from_source(object(), name="x")
    assert "LogSource" in refused.value.remedy
    with pytest.raises(TopologyError, match="is the class Silent, not an object") as refused:
        begin.from_source(Silent)
    assert "Silent(...)" in refused.value.remedy
    with pytest.raises(SchemaError, match="does not declare its fields") as refused:
        begin.from_source(Once({}))
    assert "schema=" in refused.value.remedy
    assert begin.from_source(Once({}), schema="n bigint").step.node.row_schema == "n bigint"
    with pytest.raises(TopologyError, match="the source has the name 'own'") as refused:
        begin.from_source(Bare(), name="other")
    assert "leave name= out" in refused.value.remedy
    assert begin.from_source(Bare()).step.node.name == "own"


class Bare:
    """Has the methods of a SourceReader."""

    name = "own"
    stream = batch = splits = check = None


class Sink:
    """Writes where `Folder` reads."""

    name = "sink"
    committed = last_committed = stage = None

    def __init__(self, where):
        self.where = where

    def location(self):
        return self.where


def test_should_refuse_a_sink_of_the_same_location(tmp_path):
    stream = StreamBuilder.data_stream("shop", "own").from_source(Folder(tmp_path))
    with pytest.raises(TopologyError, match="writes the location that the step 'folder' reads") as refused:
        stream.to(Sink(f"folder:{tmp_path}")).build()
    assert refused.value.remedy == "write another location"
    StreamBuilder.data_stream("shop", "own").from_source(Folder(tmp_path)).to(Sink("elsewhere")).build()


def test_should_refuse_a_source_that_holds_a_connection(world):
    source = Folder(world.path)
    source.connection = (n for n in "ab")
    stream = StreamBuilder.data_stream("shop", "held").from_source(source)
    with pytest.raises(ConfigurationError, match="cannot be sent to Spark's Python processes") as refused:
        stream.to_print().build().run(world.options)
    assert "connect within the methods" in refused.value.remedy

"""A place where a pipeline lives while people do things to it: inputs, a home, outputs, and the code of today."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from rs_assets import EventTimePartitions, Pipeline, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.lease import DEFAULT_TTL
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import REDRIVEN, UNDONE
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import SparkSettings
from rs_assets.stream.data_stream import DataStream
from rs_assets.stream.window_stream import WindowStream
from tests.torture.model import DELAY_S, WINDOW_S, Input, Row

COPY, WINDOWS = "copy", "windows"
# A machine that is busy takes its time to start Python for Spark.
PATIENT = {"spark.python.authenticate.socketTimeout": "600s"}
# What is looked for does not depend on size, and it is done thousands of times.
SMALL = SparkSettings(master="local[1]", partitions=1, extra=PATIENT)
SCHEMA = "page string, n bigint, ts timestamp"
# With partitions a window of some seconds becomes one of an hour: a partition of its own.
SLOWER = 3600 // WINDOW_S
SLOWLY = f"timestamp_seconds(unix_seconds(TIMESTAMP'2024-01-01 00:00:00') + {SLOWER} * n)"
HOURS = EventTimePartitions.hourly("start_time", since="2024-01-01")
FIRST_HOUR = "2024-01-01-00:00"
# The dead letters of the code's condition `usual`.
REFUSED = "step = 'usual'"


@dataclass(frozen=True, slots=True)
class Code:
    """What the user's program says today: its sources, what its sinks are called, and what they were called before.

    `kept` is the condition of the records that windows count, `usual` that of those that the copy takes: others become
    dead letters. Both are only asked where windows are partitions; by default they take all.
    """

    sources: tuple[str, ...] = ("a",)
    names: Mapping[str, str] = None  # type: ignore[assignment]
    renamed: Mapping[str, str] = None  # type: ignore[assignment]
    kept: str = "true"
    usual: str = "true"

    def __post_init__(self) -> None:
        """Names are those of the first version unless given."""
        first = {name: name for name in (COPY, WINDOWS, "a", "b", "window")}
        object.__setattr__(self, "names", {**first, **(self.names or {})})
        object.__setattr__(self, "renamed", dict(self.renamed or {}))

    def rename(self, what: str, name: str) -> Code:
        """The same with another name for a sink, a source or the window, which all its earlier ones lead to."""
        before = self.names[what]
        earlier = {old: name if new == before else new for old, new in self.renamed.items()}
        return replace(self, names={**self.names, what: name}, renamed={**earlier, before: name})


class Site:
    """A folder of its own for one history. Paths of tables stay when their sinks are renamed.

    Its source is a folder of files, or one that grows (`tail`); savepoints lie in the home, or elsewhere (`remote`).
    Windows fire once, or more often, of which the last rows are kept (`fired`); they may follow a durable shuffle
    (`shuffled`). With `uploaded` each checkpoint is uploaded, and tables are outside of the home, which may be lost.
    With `parted` each window is a partition by event time, and the code's conditions may be others. Then the copy reads
    the sources for itself: dead letters of records that go to several outputs cannot be redriven.
    """

    def __init__(
        self,
        root: Path,
        driver: SparkDriver,
        *,
        tail: bool = False,
        remote: bool = False,
        fired: bool = False,
        shuffled: bool = False,
        uploaded: bool = False,
        parted: bool = False,
    ) -> None:
        self.root, self.driver, self.tail, self.fired, self.shuffled = root, driver, tail, fired, shuffled
        self.parted = parted
        self.home = root / "home"
        self.uploaded = uploaded
        uri = str(root / "savepoints") if remote or uploaded else None
        self.policy = SavepointPolicy(uri=uri, upload=uploaded)
        self.input = Input()
        self.code = Code()
        self.runs = 0

    def make(self) -> None:
        """The empty inputs."""
        for source in ("a", "b"):
            place = self.place(source)
            place.touch() if self.tail else place.mkdir(parents=True)

    def look(self) -> None:
        """Know what lies in the inputs, which somebody has brought to another point."""
        self.input = Input()
        for source in self.code.sources:
            files = [self.place(source)] if self.tail else sorted(self.place(source).iterdir())
            self.input.add(source, [line for file in files for line in file.read_text().splitlines()])

    def place(self, source: str) -> Path:
        """The file or the folder of a source."""
        return self.root / (f"{source}.jsonl" if self.tail else f"in-{source}")

    def table(self, sink: str, job: str = "town") -> Path:
        """Where the table of a sink lies: one in the home's own place, one elsewhere."""
        return self.root / "out" / job if sink == COPY else Path(self._home.table("shop", f"{job}_windows"))

    @property
    def _home(self) -> Home:
        return Home(self.home, tables_of=Home(self.root / "elsewhere") if self.uploaded else None)

    @property
    def options(self) -> RunOptions:
        """Options of a new run."""
        self.runs += 1
        return RunOptions(
            home=self._home,
            driver=self.driver,
            savepoints=self.policy,
            run_id=f"run{self.runs}",
            interval=timedelta(milliseconds=10),
            # For so long a start on a blank machine waits for a sign of life.
            lease_ttl=timedelta(seconds=1) if self.uploaded else DEFAULT_TTL,
        )

    def pipeline(self, job: str = "town") -> Pipeline:
        """The pipeline as the code has it today."""
        names = self.code.names
        builder = StreamBuilder.data_stream("shop", job)
        stream = self._read(builder, names, "dead_letter")
        copied = stream if not self.parted else self._read(builder, {each: f"{each}_copied" for each in "ab"}, "skip")
        taken = copied.expect(self.code.usual, on_fail="dead_letter", name="usual") if self.parted else copied
        taken.to_delta(str(self.table(COPY, job)), name=names[COPY])
        if self.shuffled:
            stream = stream.shuffle(1, keys=("page",), strategy="delta", name="spread")
        slower = 1
        if self.parted:
            slower, stream = SLOWER, stream.with_fields(ts=SLOWLY).filter(self.code.kept, name="kept")
        window = stream.window(TumblingWindow.of(Time.seconds(WINDOW_S * slower), "ts"), name=names["window"])
        counted = window.group_by("page").count("rows").sum("n", "total").water_mark(Time.seconds(DELAY_S * slower))
        partitions = HOURS if self.parted else None
        closed = self._closed(counted).to_delta(f"{job}_windows", partitions=partitions, name=names[WINDOWS])
        ends = {*names.values()} - {names[s] for s in ("a", "b") if s not in self.code.sources}
        return closed.build(renamed={old: new for old, new in self.code.renamed.items() if new in ends})

    def _read(self, builder: StreamBuilder, names: Mapping[str, str], bad_records: str) -> DataStream:
        streams = [
            builder.from_file(
                self.place(source), schema=SCHEMA, tail=self.tail, bad_records=bad_records, name=names[source]
            )
            for source in self.code.sources
        ]
        return streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]

    def _closed(self, counted: WindowStream[Any]) -> DataStream:
        """The rows of windows that have closed."""
        if not self.fired:
            return counted.to_data_stream()
        return counted.emit_before(Time.seconds(WINDOW_S // 3)).to_data_stream().filter("final")

    def grow(self, source: str, rows: int) -> None:
        """Put records into a source, and only then know of them: a kill may come before they are there."""
        lines = self.input.following(rows)
        text = "".join(f"{line}\n" for line in lines)
        if self.tail:
            with self.place(source).open("a") as file:
                file.write(text)
        else:
            hidden = self.root / ".growing"
            hidden.write_text(text)
            hidden.rename(self.place(source) / f"{self.input.count + rows:06d}.jsonl")
        self.input.add(source, lines)

    def held(self, job: str = "town") -> dict[str, list[Row]]:
        """What every sink holds, and the dead letters that count."""
        rows = rows_of(Home(self.home).dead_letters)
        letters = [row for row in rows if row["job"] == job and row[UNDONE] is None and row.get(REDRIVEN) is None]
        return {
            COPY: self.held_by(COPY, job),
            WINDOWS: self.held_by(WINDOWS, job),
            "letters": sorted((row["record"],) for row in letters),
        }

    def held_by(self, sink: str, job: str = "town") -> list[Row]:
        """What one sink holds."""
        rows = rows_of(self.table(sink, job))
        return sorted((row["n"],) for row in rows) if sink == COPY else sorted(map(self._window, rows))

    def _window(self, row: Mapping[str, Any]) -> Row:
        since = row["start_time"] - datetime(2024, 1, 1, tzinfo=UTC)
        return row["page"], int(since.total_seconds()) // (SLOWER if self.parted else 1), row["rows"], row["total"]

    def move_home(self) -> None:
        """Give the home another place."""
        target = self.root / ("moved" if self.home.name == "home" else "home")
        self.home.rename(target)
        self.home = target

    def lose(self, path: Path) -> None:
        """A folder is gone."""
        shutil.rmtree(path, ignore_errors=True)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a Delta table, none if there is none."""
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(str(path)) else []

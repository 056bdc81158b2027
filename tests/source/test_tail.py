"""The Spark source `rs_lines`: streams and batches give the same rows, and its errors arrive whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from rs_assets import errors
from rs_assets.common.errors_wire import MARKER, from_wire, to_wire, wired
from rs_assets.connectors.files.lines.offsets import ranges_between, splits_of
from rs_assets.connectors.files.lines.spark_source import FORMAT, register
from rs_assets.errors import ConfigurationError, DataLossError, RsError, SourceReadError, SqlError, UnknownFieldError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def lines_source(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def run(spark: SparkSession, path: object, folder: Path, **options: object) -> tuple[list[str], StreamingQuery]:
    """Catch up with the path into a Parquet table; the new state of the table's values in order of place."""
    reader = spark.readStream.format(FORMAT).name("lines").option("path", str(path))
    for name, value in options.items():
        reader = reader.option(name, str(value))
    query = (
        reader.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    return values(spark.read.parquet(str(folder / "out"))), query


def values(frame: DataFrame) -> list[str]:
    rows = frame.selectExpr("split", "line", "string(value) as value").collect()
    return [f"{row.split}:{row.line}:{row.value}" for row in sorted(rows)]


def caught(raised: BaseException) -> RsError:
    found = from_wire(str(raised))
    assert found is not None, str(raised)
    return found


def test_a_stream_follows_a_rotated_file_over_restarts(lines_source: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "in" / "a.log"
    file.parent.mkdir()
    file.write_bytes(b"1\r\n\r\n2\n3\nhal")
    first, query = run(lines_source, file, tmp_path, max_rows_per_batch=2)
    assert first == ["a.log:1:1", "a.log:3:2", "a.log:4:3"]
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [1, 2]
    with file.open("ab") as out:
        out.write(b"f\nwhole\n")
    file.rename(file.with_name("a.log.1"))
    file.write_bytes(b"new\n")
    second, query = run(lines_source, file, tmp_path)
    assert second == [*first, "a.log:5:half", "a.log:6:whole", "a.log@2:1:new"]
    progress = next(p for p in query.recentProgress if p["numInputRows"])
    source = progress["sources"][0]
    end = source["endOffset"]
    assert [(s.split, s.line) for s in splits_of(end)] == [("a.log", 6), ("a.log@2", 1)]
    assert splits_of(source["latestOffset"]) == splits_of(end)
    again = lines_source.read.format(FORMAT).option("ranges", json.dumps(ranges_between(source["startOffset"], end)))
    assert values(again.load()) == second[3:]


def test_lost_input_is_an_error_with_file_and_range(lines_source: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"1\n2\n")
    run(lines_source, file, tmp_path)
    # As if the run had been killed after the plan of its batch: planned, not committed.
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    file.unlink()
    with pytest.raises(PySparkException) as raised:
        _replay(lines_source, file, tmp_path)
    error = caught(raised.value)
    assert isinstance(error, DataLossError)
    assert error.facts == {
        "file": str(file),
        "split": "a.log",
        "start_byte": 0,
        "end_byte": 4,
        "start_line": 1,
        "end_line": 2,
    }


def _replay(spark: SparkSession, file: Path, folder: Path) -> None:
    stream = spark.readStream.format(FORMAT).name("lines").option("path", str(file)).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_missing_path_is_refused(lines_source: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as raised:
        _replay(lines_source, tmp_path / "none", tmp_path)
    assert isinstance(caught(raised.value), ConfigurationError)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"path": "s3://bucket/a"},
        {"path": "a", "max_line_bytes": "0"},
        {"ranges": "{"},
        {"ranges": "[{}]"},
    ],
)
def test_options_that_cannot_be_used_are_refused(lines_source: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(PySparkException) as raised:
        lines_source.read.format(FORMAT).options(**options).load().collect()
    assert isinstance(caught(raised.value), ConfigurationError)


def test_a_batch_reads_a_path_to_its_last_line_and_a_damaged_archive_not_at_all(
    lines_source: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(b"1\n2")
    reader = lines_source.read.format(FORMAT).option("path", str(tmp_path))
    assert values(reader.load()) == ["a.log:1:1", "a.log:2:2"]
    assert lines_source.read.format(FORMAT).option("ranges", "[]").load().count() == 0
    (tmp_path / "b.gz").write_bytes(b"no archive")
    with pytest.raises(PySparkException) as raised:
        reader.load().collect()
    error = caught(raised.value)
    assert isinstance(error, SourceReadError)
    assert error.facts["file"] == str(tmp_path / "b.gz")


class TestWire:
    ERROR = DataLossError(
        'a "quoted" path\\with\nlines',
        remedy='say "no"',
        file="/x/ü.log",
        start_byte=3,
        end_byte=None,
        nested={"a": [1]},
    )

    @pytest.mark.parametrize("escapes", range(4))
    def test_an_error_survives_traces_and_escapes(self, escapes: int) -> None:
        text = (
            f"py4j: An error occurred\n: Job aborted.\n  {MARKER}Trace\n{to_wire(self.ERROR)}\n\tat x.y(Z.java:1) {{}}"
        )
        for _ in range(escapes):
            text = json.dumps({"message": text})
        error = from_wire(text)
        assert type(error) is DataLossError
        assert (error.what, error.remedy, error.facts) == (self.ERROR.what, self.ERROR.remedy, self.ERROR.facts)
        assert str(error) == str(self.ERROR)

    @pytest.mark.parametrize("name", [n for n, kind in vars(errors).items() if isinstance(kind, type)])
    def test_every_class_of_the_tree_comes_back_as_itself(self, name: str) -> None:
        kind = getattr(errors, name)
        if not issubclass(kind, RsError):
            return
        made = {
            UnknownFieldError: lambda: UnknownFieldError("f", step="s", known=("a", "b")),
            SqlError: lambda: SqlError("what", line=3, column=8),
        }
        error = made.get(kind, lambda: kind("what", step="s"))()
        back = from_wire(to_wire(error))
        assert type(back) is kind
        assert (str(back), vars(back)) == (str(error), vars(error))

    def test_the_marker_is_one_line_of_ascii_and_facts_of_any_kind_are_carried_as_text(self) -> None:
        text = to_wire(RsError("ü\n", path=Path("/x"), raw=b"1"))
        assert text.isascii()
        assert "\n" not in text
        back = from_wire(text)
        assert back is not None
        assert back.facts == {"path": "/x", "raw": "b'1'"}

    @pytest.mark.parametrize("text", ["", "no marker", MARKER, MARKER + "{", to_wire(ERROR)[:-5], MARKER + '{"a": 1}'])
    def test_text_without_a_whole_error_gives_none(self, text: str) -> None:
        assert from_wire(text) is None

    def test_a_class_of_another_version_comes_back_as_the_root(self) -> None:
        for name in ("NewError", "Mapping", "__doc__"):
            back = from_wire(to_wire(self.ERROR).replace("DataLossError", name))
            assert type(back) is RsError
            assert back.what == self.ERROR.what

    def test_an_error_is_wired_once(self) -> None:
        with pytest.raises(RsError) as raised, wired(), wired():
            raise self.ERROR
        assert str(raised.value) == to_wire(self.ERROR)
        assert type(from_wire(str(raised.value))) is DataLossError

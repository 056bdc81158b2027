"""From lines to fields: what is a record, and the reason for each line that is none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.connectors.files.lines.spark_source import FORMAT, RECORDS_DDL, SCHEMA_DDL, register
from rs_assets.connectors.files.parse import LINE_END, LineFormat, java_pattern, parse_lines, without_address
from rs_assets.errors import ConfigurationError
from rs_assets.records.columns import LINE, OFFSET, RAW, RAW_LIMIT_BYTES, REASON, SPLIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def lines(spark: SparkSession, *values: bytes, length: int | None = None) -> DataFrame:
    rows = [("a.log", n, 100 * n, length or len(v), bytearray(v)) for n, v in enumerate(values, start=1)]
    return spark.createDataFrame(rows, SCHEMA_DDL)


def records(spark: SparkSession, *values: bytes) -> DataFrame:
    rows = [("a.csv", n, 100 * n, len(v), bytearray(v), None, None) for n, v in enumerate(values, start=1)]
    return spark.createDataFrame(rows, RECORDS_DDL)


def schema(spark: SparkSession, ddl: str) -> StructType:
    return spark.createDataFrame([], ddl).schema


def reasons(frame: DataFrame) -> list[str | None]:
    return [row[REASON] for row in frame.collect()]


def test_fields_of_a_pattern_are_cast(spark: SparkSession) -> None:
    form = LineFormat(
        "text",
        schema(spark, "at timestamp, status int, path string"),
        pattern=r"(?P<path>\S*) (?P<status>\S*) \[(?P<at>[^\]]*)\]",
        time_format="dd/MMM/yyyy:HH:mm:ss Z",
    )
    good, empty, word, time, other = parse_lines(
        lines(
            spark,
            b"/a 200 [05/Jan/2026:06:00:00 +0100]",
            b"  []",
            b"/a two [05/Jan/2026:06:00:00 +0100]",
            b"/a 200 [05/20x6]",
            b"/a 200 [x",
        ),
        form,
    ).collect()
    assert (good["path"], good["status"], good[REASON]) == ("/a", 200, None)
    assert good["at"].astimezone(UTC) == datetime(2026, 1, 5, 5, tzinfo=UTC)
    assert (empty["path"], empty["status"], empty["at"], empty[REASON]) == ("", None, None, None)
    assert word[REASON] == "status: 'two' is not of type int"
    assert time[REASON] == "at: '05/20x6' is not of type timestamp"
    assert other[REASON] == "the line does not match the pattern"


def test_marks_cannot_be_forged(spark: SparkSession) -> None:
    form = LineFormat("text", schema(spark, "a string, b string"), pattern="(?P<a>[^ ]*) (?P<b>.*)")
    frame = parse_lines(lines(spark, b"x \x01y", b"\x02x y", b"$1 \\$2"), form)
    assert reasons(frame) == ["control characters in the line", "control characters in the line", None]
    assert frame.collect()[2][:2] == ("$1", "\\$2")


def test_a_schema_may_take_some_groups_in_any_order(spark: SparkSession) -> None:
    form = LineFormat("text", schema(spark, "c long, a string"), pattern="(?P<a>.) (?P<b>.) (?P<c>.)")
    assert parse_lines(lines(spark, b"x y 3"), form).collect()[0][:2] == (3, "x")


def test_a_field_without_a_group_is_refused(spark: SparkSession) -> None:
    form = LineFormat("text", schema(spark, "d string"), pattern="(?P<a>.)")
    with pytest.raises(ConfigurationError, match="no group called 'd'") as refused:
        parse_lines(lines(spark, b"x"), form)
    assert "its groups are: a" in str(refused.value)


@pytest.mark.parametrize("pattern", ["(a)", "(?P<a>.)(b)", "a", "(?P<a>", "(?P<a>.)|(?P<a>.)"])
def test_a_pattern_without_names_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="pattern"):
        java_pattern(pattern)


def test_a_pattern_matches_the_whole_line() -> None:
    assert java_pattern("(?P<a>x)|(?P<b>y)") == (["a", "b"], f"^(?:(x)|(y)){LINE_END}")


def test_an_end_of_line_does_not_come_into_the_last_field(spark: SparkSession) -> None:
    form = LineFormat("text", schema(spark, "a string, b string"), pattern="(?P<a>[a-z]+) (?P<b>[a-z]+|.*)")
    ends = ("", "\n", "\r\n", "\r", "\u2028", "\u0085")
    frame = parse_lines(lines(spark, *(f"x y{end}".encode() for end in ends), b"x y\n\n"), form)
    assert [row[:2] for row in frame.collect()[:-1]] == [("x", "y")] * len(ends)
    assert reasons(frame)[-1] == "the line does not match the pattern"


def test_blank_lines_are_no_records_but_any_other_is(spark: SparkSession) -> None:
    frame = parse_lines(lines(spark, b" ", b"\t\r", b"\x0b\x0c", b"x", b" x "), LineFormat("text"))
    assert [row["value"] for row in frame.collect()] == ["x", " x "]


def test_a_header_is_the_first_line_of_its_file_only(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b" \nid\n7\nid\n")
    form = LineFormat("csv", schema(spark, "id long"))
    register(spark)
    frame = spark.read.format(FORMAT).options(**form.line_options).load(str(tmp_path / "a.csv"))
    assert [(row["id"], row[REASON]) for row in parse_lines(frame, form).collect()] == [
        (7, None),
        (None, "malformed CSV"),
    ]


def test_a_cut_line_and_one_that_is_no_text_have_their_reasons(spark: SparkSession) -> None:
    form = LineFormat("json", schema(spark, "id long"), max_line_bytes=10)
    assert reasons(parse_lines(lines(spark, b'{"id":1}   ', length=99), form)) == [
        "the line has 99 bytes, more than 10"
    ]
    assert reasons(parse_lines(lines(spark, b'{"id":1,"\xff":2}'), form)) == ["invalid UTF-8"]


def test_the_address_of_a_line_comes_along(spark: SparkSession) -> None:
    frame = parse_lines(lines(spark, b"good", b"\xffbad", b"x" * 70_000), LineFormat("text"), addressed=True)
    good, bad, long = frame.collect()
    assert (good[SPLIT], good[LINE], good[OFFSET], good[RAW]) == ("a.log", 1, 100, "good")
    assert (bad[LINE], bad[RAW]) == (2, "\ufffdbad")
    assert len(long[RAW]) == RAW_LIMIT_BYTES
    assert without_address(frame).columns == ["value", REASON]


@pytest.mark.parametrize("name", ["odd name", "dotted.name", "tick`ed"])
@pytest.mark.parametrize("format_", ["json", "csv"])
def test_fields_of_odd_names_are_read(spark: SparkSession, name: str, format_: str) -> None:
    form = LineFormat(format_, StructType().add(name, "string"), header=False)
    line = b'{"%s":"x"}' % name.encode() if format_ == "json" else b"x"
    frame = (lines if format_ == "json" else records)(spark, line)
    assert parse_lines(frame, form).collect()[0][0] == "x"


def test_a_pattern_is_matched_once_a_line_whoever_asks(spark: SparkSession) -> None:
    form = LineFormat(
        "text", schema(spark, "a int, b timestamp, c string"), pattern="(?P<a>[0-9]+) (?P<b>[^ ]+) (?P<c>.*)"
    )
    parsed = parse_lines(lines(spark, b"1 2026-01-05 x", b"1 x y"), form, addressed=True).observe("all", F.count("*"))
    refused = parsed.filter(F.col(REASON).isNotNull()).select(RAW, REASON)
    assert refused.collect() == [("1 x y", "b: 'x' is not of type timestamp")]
    plan = refused._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("regexp_replace") == 1

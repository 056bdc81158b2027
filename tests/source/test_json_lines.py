"""JSON lines of whole files: what the project's own format makes of a line is what Spark's parsers make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets import MemoryChannel, StreamBuilder, Time
from rs_assets.connectors.files.parse import LineFormat, parsed_text
from rs_assets.connectors.files.whole.json_lines import FORMAT
from rs_assets.errors import BadRecordError, SourceReadError
from rs_assets.records.calendar import judged as in_calendar
from rs_assets.records.columns import REASON
from rs_assets.records.json_text import json_reason
from rs_assets.spark.processor.session import processors_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "s string, l long, i int, h smallint, y tinyint, d double, f float, b boolean, t timestamp, day date,"
    " c decimal(9,2), k decimal(18,18), big decimal(30,2), m array<int>, o struct<x: date>, `a b` int, `ü` string"
)
GOOD: Final = (
    (
        '{"s":"u0001","l":12,"i":-7,"h":300,"y":12,"d":1.5e3,"f":0.25,"b":true,"t":"2024-01-01T00:00:01.123Z",'
        '"day":"2024-02-29","ü":"x","c":-12.5,"k":0.000000000000000001,"a b":5}'
    ),
    (
        '{"l":-123456789012345678, "s":"é € 😀", "d":-0.5, "f":123456789.5, "b":false,"t":"1999-12-31 23:59:59+05:30",'
        '"ü":null,"c":1234567.89}'
    ),
    (
        ' { "zz" : {"a":[1,2.5e-3,null,true,"x\\n"],"b":{}} , "t":"8999-12-31T23:59:59.000001-17:59",'
        ' "day":"1600-01-01" ,"c":7,"m":[1]} '
    ),
    '{"s":"plain/","zz":"a\\u00e9\\"\\\\\\/\\b\\f\\n\\r\\t","l":0,"i":0,"h":0,"y":-0,"d":0.1,"f":1e10,"c":-0.01}\r',
    '{"d":4.9E-32,"f":3.4e38,"t":"1970-01-01T00:00:00","day":"1900-03-01","other":[],"l":999999999999999999}',
    '{"big":"12.5","k":"0.5","c":"1,5","b":true}',
    '{"s":"\\\\ud83d\\\\\\\\ud83d\\ude00x","f":1e39,"zz":"\\ude00\\ud83d"}',
    '{"d":1e400,"f":-3.4e38,"s":"inf","big":"1,5"}',
    '{"t":"1:02","y":1}',
    '{"o":{"x":"0001-01-01"},"big":12345678901234567890.12,"s":"\\ud83d\\ude00","l":9223372036854775807}',
)
# Without exponents: Spark takes minutes for a decimal with a large one.
ODD: Final = np.frombuffer(b'"\\{}[]:,0129-+.trufalsn \tZT/u\0\x1f\x7f\r\xc3\xa9\xff\x80\xe2\xed\xa0\xf0', np.uint8)
NEWLINE: Final = 10
OPTIONS: Final = {"rs.source": "lines", "rs.cap": "1000000", "rs.beyond": "too long"}


def mutated(lines: int, seed: int, share: float = 0.5) -> bytes:
    """So many lines, of which a `share` is mutated twice or so: bytes are changed, removed, and come twice."""
    dice = np.random.default_rng(seed)
    texts = [f"{line}\n".encode() for line in GOOD]
    content = np.frombuffer(b"".join(texts[n] for n in dice.integers(len(texts), size=lines)), np.uint8).copy()

    def places(part: float) -> np.ndarray:
        found = dice.integers(len(content), size=int(lines * share * part))
        return found[content[found] != NEWLINE]

    digits = np.flatnonzero((content >= ord("0")) & (content <= ord("9")))
    chosen = digits[dice.integers(len(digits), size=int(lines * share))]
    content[chosen] = dice.integers(ord("0"), ord("9") + 1, size=len(chosen), dtype=np.uint8)
    at = places(0.8)
    content[at] = ODD[dice.integers(len(ODD), size=len(at))]
    content = np.delete(content, places(0.4))
    at = places(0.4)
    return np.insert(content, at, content[at]).tobytes()


def read(spark: SparkSession, path: Path, schema: str = SCHEMA) -> DataFrame:
    return spark.read.format(FORMAT).options(**OPTIONS).schema(schema).load(str(path))


def judged(spark: SparkSession, rows: DataFrame) -> list[int]:
    return [*map(int, processors_in(spark).JsonLines.judged(rows._jdf.queryExecution(), "lines"))]


def by_spark(spark: SparkSession, path: Path, schema: str = SCHEMA) -> DataFrame:
    lines = spark.read.option("lineSep", "\n").text(str(path)).selectExpr("rtrim('\r', value) AS value")
    return parsed_text(lines, LineFormat("json", schema=StructType.fromDDL(schema)))


def digest(rows: DataFrame) -> tuple:
    text = ", ".join(f"`{name}`" for name in rows.columns)
    row = rows.selectExpr("count(*)", f"sum(xxhash64({text}) % 1000000007)").first()
    assert row is not None
    return tuple(row)


def same(spark: SparkSession, ours: DataFrame, theirs: DataFrame) -> bool:
    if digest(ours) == digest(theirs):
        return True
    print(ours.exceptAll(theirs).head(5), theirs.exceptAll(ours).head(5))
    return False


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in conf:
            spark.conf.unset(name)


def check(spark: SparkSession, file: Path, lines: int, seed: int, share: float) -> None:
    file.write_bytes(mutated(lines, seed, share))
    ours, theirs = read(spark, file), by_spark(spark, file).cache()
    good = theirs.filter(f"{REASON} IS NULL").drop(REASON)
    assert same(spark, ours, good), seed
    assert judged(spark, ours) == [theirs.count(), theirs.filter(f"{REASON} IS NOT NULL").count()], seed
    theirs.unpersist()


@pytest.mark.canary
def test_mutated_lines_are_rows_just_where_spark_makes_a_row_of_them(spark, tmp_path: Path) -> None:
    check(spark, tmp_path / "a.jsonl", 60_000, 1, share=0.05)


def test_text_after_a_record_has_the_faults_of_a_text(spark, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    texts = [b"\\ud3d\\ude00", b"\\ud8Td\\ude00", b"\\ud83d\\ude00", b"\\ud83d\\ude0,"]
    file.write_bytes(b"".join(b'{"l":%d},"s":"%s"}\n' % line for line in enumerate(texts)))
    ours, theirs = read(spark, file), by_spark(spark, file)
    assert (
        [row["l"] for row in ours.collect()] == [row["l"] for row in theirs.collect() if row[REASON] is None] == [2, 3]
    )
    assert judged(spark, ours) == [4, 2]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_million_mutated_lines_are_rows_just_where_spark_makes_a_row_of_them(spark, tmp_path: Path) -> None:
    for seed in range(2, 52):
        check(spark, tmp_path / "a.jsonl", 200_000, seed, share=0.5)


def test_sparks_strict_reader_takes_each_line_that_is_a_row(spark, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(mutated(20_000, 52))
    lines = spark.read.option("lineSep", "\n").text(str(tmp_path / "a.jsonl")).filter("is_valid_utf8(value)")
    bad = {"columnNameOfCorruptRecord": "_bad"}
    parsed = lines.withColumn("parsed", F.from_json("value", f"{SCHEMA}, _bad string", bad))
    reason = json_reason(F.col("value"), StructType.fromDDL(SCHEMA), F.col("parsed"), {})
    good = parsed.filter(F.col("parsed._bad").isNull() & F.coalesce(reason, F.lit("years")).contains("years"))
    good.select("value").write.text(str(tmp_path / "good"))
    ours = read(spark, tmp_path / "good")
    strict = spark.read.schema(SCHEMA).option("mode", "FAILFAST").option("lineSep", "\n")
    # The values that the project refuses and Spark takes were left out, but for times that Python does not have.
    theirs = in_calendar(strict.json(str(tmp_path / "good")), ours.schema).filter(f"{REASON} IS NULL").drop(REASON)
    assert same(spark, ours, theirs)
    assert ours.count() > 5_000


@pytest.mark.parametrize("size", ["97", "1000", "70001"])
def test_parts_of_files_of_any_size_give_each_line_once(spark, tmp_path: Path, size: str) -> None:
    content = mutated({"97": 60, "1000": 600}.get(size, 3000), 53)
    for name, text in {
        "a": content,
        "b": content.removesuffix(b"\n"),
        "c": b"",
        "d": b'\xef\xbb\xbf{"l":1}\r\n\r\n',
    }.items():
        (tmp_path / f"{name}.jsonl").write_bytes(text)
    whole = read(spark, tmp_path)
    expected, counts = digest(whole), judged(spark, whole)
    with settings(spark, {"spark.sql.files.maxPartitionBytes": size, "spark.sql.files.openCostInBytes": "1"}):
        parted = read(spark, tmp_path)
        assert parted.rdd.getNumPartitions() > 1
        assert (digest(parted), judged(spark, parted)) == (expected, counts)


@pytest.mark.parametrize(
    "condition",
    ["s = 'u0001'", "l > 12", "l >= 12 and l <= 0", "l < 1", "i = -7", "h >= 300", "y = 1", "m is not null",
     "s is null", "`ü` = 'x' and b", "`a b` = 5", "c = 7", "s <> 'u0001'", "o.x is not null",
     "s in ('u0001', 'plain/')", "s is null or startswith(s, 'u')", "l is null or l > 12", "contains(s, '')",
     "endswith(s, '/') or s = 'u0001' or contains(s, '€')", "startswith(s, 'u') and endswith(s, '1') or s is null",
     "l > 12 and b or l < 0 and i = 0", "i in (0, -7) or i is null", "s = 'u0001' or l = 0", "not (s <=> 'u0001')"],
)  # fmt: skip
def test_a_condition_in_the_scanner_keeps_what_it_keeps_after_it(spark, tmp_path: Path, condition: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(mutated(2_000, 54))
    whole, asked = read(spark, tmp_path), read(spark, tmp_path).filter(condition)
    with settings(spark, {"spark.sql.json.filterPushdown.enabled": "false"}):
        expected = digest(read(spark, tmp_path).filter(condition).select("d", "t"))
    assert digest(asked.select("d", "t")) == expected
    digest(whole)
    assert judged(spark, asked) == judged(spark, whole)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("s is null or startswith(s, 'u3')", 3), ("endswith(s, '3')", 1), ("contains(s, '3')", 2), ("s is null", 1),
     ("s in ('u1', 'u2')", 2), ("l is null or l > 8", 3), ("l > 1 and l < 3 or l = 5", 4), ("s = 'u1' or l = 2", 12)],
)  # fmt: skip
def test_a_condition_of_one_field_drops_lines_in_the_scanner(spark, tmp_path: Path, condition: str, rows: int) -> None:
    lines = [f'{{"s":"u{n}","l":{n}}}\n' for n in (*range(10), 30)]
    (tmp_path / "a.jsonl").write_text("".join([*lines, '{"s":null}\n']))
    asked = read(spark, tmp_path, "s string, l long").filter(condition)
    asked.collect()
    scan = asked._jdf.queryExecution().executedPlan().collectLeaves().head()
    # One range is compared, and fields are compared on their own.
    assert scan.metrics().apply("numOutputRows").value() == rows


def test_times_without_a_zone_are_of_the_session(spark, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"t":"2024-07-01T12:00:00"}\n{"t":"2024-07-01T12:00:00Z"}\n')
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        ours = read(spark, tmp_path, "t timestamp")
        assert same(spark, ours, spark.read.schema("t timestamp").json(str(tmp_path)))
        assert ours.selectExpr("count(DISTINCT t)").first()[0] == 2
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("line", [b'{"day":"' + b"\0" * 10 + b'"}', b'{"day":"' + b"\xff" * 10 + b'"}'])
def test_bytes_that_no_day_has_are_not_the_last_day(spark, tmp_path: Path, line: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(line + b"\n")
    rows = read(spark, tmp_path)
    assert (rows.count(), judged(spark, rows)) == (0, [1, 1])


@pytest.mark.parametrize("names", ['`a"b` int', "`a\\\\b` int", ", ".join(f"f{n} int" for n in range(200))])
def test_names_and_numbers_of_fields_may_be_odd(spark, tmp_path: Path, names: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"a\\"b":1}\n{"a"b":null}\n{"a\\\\b":2}\n{"f199":3,"f0":4}\n{"f0":"x"}\n')
    good = by_spark(spark, tmp_path, names).filter(f"{REASON} IS NULL").drop(REASON)
    assert same(spark, read(spark, tmp_path, names), good)


class TestRun:
    """Whole files in a pipeline that uses less than there is."""

    SCHEMA = "page string, id long, at timestamp"

    @staticmethod
    def content(rows: int = 3000) -> bytes:
        row = '{{"page":"/{}","id":{},"at":"2024-01-01T00:00:00Z"}}\n'
        return "".join(row.format(n % 100, n) for n in range(rows)).encode()

    def stream(self, file: Path, **source: str):
        return StreamBuilder.data_stream("plain", "files").from_file(str(file), schema=self.SCHEMA, **source)

    @pytest.mark.parametrize(
        ("odd", "reason", "state"),
        [(b'{"page":"/1","id":"two"}', "id: 'two'", False), (b'{"page":"/1","id":"two"}', "id: 'two'", True),
         (b"[]", "malformed", False), (b'{"page":"\xff","id":3}', "UTF-8", False)],
    )  # fmt: skip
    def test_a_bad_record_that_nobody_reads_is_found(
        self, tmp_path: Path, options, odd: bytes, reason: str, state: bool
    ) -> None:
        file = tmp_path / "a.jsonl"
        file.write_bytes(self.content() + odd + b"\n" + self.content(5))
        called = MemoryChannel()
        used = self.stream(file).filter("page = '/7'")
        steps = used.distinct("id", within=Time.minutes(1), time_field="at") if state else used
        with pytest.raises(BadRecordError, match=reason) as raised:
            steps.to_memory(called).build().run(options)
        assert (raised.value.facts["line"], raised.value.facts["offset"]) == (3001, len(self.content()))
        assert called.rows() == []

    @pytest.mark.parametrize("policy", ["fail", "skip"])
    def test_a_plan_that_reads_nothing_misses_no_bad_record(self, tmp_path: Path, options, policy: str) -> None:
        file = tmp_path / "a.jsonl"
        file.write_bytes(self.content() + b'{"page":"/1","id":"two"}\n')
        made = self.stream(file, bad_records=policy).filter("false").to_memory(MemoryChannel()).build()
        if policy == "fail":
            with pytest.raises(BadRecordError, match="id: 'two' is not of type") as raised:
                made.run(options)
            assert raised.value.facts["line"] == 3001
        else:
            report = made.run(options)
            assert (report.rows_in, report.rows_out, report.rows_dead) == (3001, 0, 1)

    def test_lines_that_only_spark_reads_are_rows_of_the_same_batch(self, tmp_path: Path, options) -> None:
        file, out = tmp_path / "a.jsonl", MemoryChannel()
        odd = b'{"page":"/7","id":1,"page":"/8"}\n\n{"id":2,"page":"/7"}\n{"page":"\\/7","id":5,"x":[[[[1]]]]}\n'
        file.write_bytes(self.content() + odd)
        report = self.stream(file).filter("page = '/7'").to_memory(out).build().run(options)
        # Of a key that comes twice the last value counts.
        assert sorted(row["id"] for row in out.rows()) == sorted([*range(7, 3000, 100), 2, 5])
        assert (report.rows_in, report.rows_out, report.batches) == (3003, 32, 1)

    @pytest.mark.parametrize(("policy", "error"), [("fail", BadRecordError), ("skip", SourceReadError)])
    def test_a_line_beyond_the_limit_ends_the_batch(self, tmp_path: Path, options, policy: str, error: type) -> None:
        file = tmp_path / 'a"\\.jsonl'
        file.write_bytes(self.content(5) + b'{"page":"' + b"x" * 5000 + b'"}\n' + self.content(5))
        made = self.stream(file, bad_records=policy).to_memory(MemoryChannel()).build()
        with pytest.raises(error, match="more than 4096") as raised:
            made.run(replace(options, max_line_bytes=4096))
        if policy == "skip":
            assert raised.value.facts["file"] == str(file)

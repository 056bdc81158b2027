"""Values that a parser would change without a word: each reader refuses them, or gives what is in the text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.kafka.source.avro import AvroFormat
from rs_assets.errors import BadRecordError, SourceReadError
from rs_assets.runtime.options import RunOptions

# Of each type: the text of a value, and what it is, or None if it is refused.
NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "decimal(9,2)": {
        "1.5": Decimal("1.50"), "1e3": Decimal("1000.00"), "+12": Decimal("12.00"), "-.5": Decimal("-0.50"),
        "1,5": None, "1,234": None, ",5": None, "5,": None, "12345678.9": None, "x": None,
    },
    "decimal(30,2)": {"1234567890123456789012345678.25": Decimal("1234567890123456789012345678.25"), "1,5": None},
    "double": {"1e308": 1e308, "1E400": None, "-1e999": None, "Infinity": math.inf, "1e-400": 0.0, "1,5": None},
    "float": {"1e38": 9.999999680285692e37, "1e39": None, "-1e39": None, "-Infinity": -math.inf},
}  # fmt: skip
# As they are, and as parts of JSON.
BARE: Mapping[str, Mapping[str, Any]] = {
    # Seconds since 1970; Spark would wrap a larger number around to a time of other years.
    "timestamp": {
        "1767607200": datetime(2026, 1, 5, 10, tzinfo=UTC), "-1": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        "1767607200000": None, "1767607200000000": None, "9223372036854775807": None, "-9223372036854775808": None,
        "18446744073710": None, "-18446744073710": None, "1767607200.5": None,
    },
    "tinyint": {"127": 127, "-128": -128, "12": 12, "128": None, "200": None, "255": None, "256": None, "-129": None},
    "string": {
        "1.50": "1.50", "-0": "-0", "1e2": "1e2", "1E400": "1E400", "true": "true", '"1.50"': "1.50",
        "12345678901234567890.123456789": "12345678901234567890.123456789", '{"ä" : 1.10}': '{"ä" : 1.10}',
        '[1.0, "x"]': '[1.0, "x"]',
    },
}  # fmt: skip
# Both readers are compared on such lines of JSON by tests/source/test_json_lines.py.
TAIL = [False, pytest.param(True, marks=pytest.mark.long)]
HALVES = {
    r"\ud83d\ude00": "😀", r"\uD83D\uDE00": "😀", r"\\ud83d": r"\ud83d", r"\\\\ud83d": r"\\ud83d",
    r"\ud83d": None, r"\ude00": None, r"\ude00\ud83d": None, r"\ud83d\ud83d\ude00": None, r"\ud83dx\ude00": None,
    r"\\\ud83d": None, r"\ud83d\ude00\ude00": None, r"\\ud83d\ude00": None, r"\ud83d\\\ude00": None,
    r"\ud7ff\ue000": "\ud7ff\ue000",
}  # fmt: skip


def kept(path: Path, options: RunOptions, form: str, schema: str, **source: object) -> dict[int, Any]:
    """What came out, by id; the sum of rows and dead letters is what came in."""
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("odd", "values").from_file(path, form, schema=schema, **source)
    report = stream.to_memory(out).build().run(options)
    letters = dead_letters_of(options.home.dead_letters, "odd", "values")
    assert report.rows_in == len(out.rows()) + len(letters)
    return {row["id"]: row["v"] for row in out.rows()}


def check(file: Path, lines: Mapping[str, Any], options: RunOptions, form: str, kind: str, **source: object) -> None:
    file.write_text("".join(["id,v\n"] * (form == "csv") + [f"{line}\n" for line in lines]))
    good = {number: value for number, value in enumerate(lines.values()) if value is not None}
    assert kept(file, options, form, f"id int, v {kind}", bad_records="dead_letter", **source) == good


@pytest.mark.parametrize("tail", TAIL)
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_csv_are_what_is_written(tmp_path: Path, options: RunOptions, kind: str, tail: bool) -> None:
    lines = {f'{n},"{text}"': value for n, (text, value) in enumerate(NUMBERS[kind].items())}
    check(tmp_path / "a.csv", lines, options, "csv", kind, tail=tail)


@pytest.mark.long
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_csv_that_is_refused_ends_a_run_that_fails(tmp_path: Path, options: RunOptions, kind: str) -> None:
    good = [(n, text) for n, (text, value) in enumerate(NUMBERS[kind].items()) if value is not None]
    (tmp_path / "a.csv").write_text("id,v\n" + "".join(f'{n},"{text}"\n' for n, text in good))
    found = kept(tmp_path / "a.csv", options, "csv", f"id int, v {kind}")
    assert found == {n: NUMBERS[kind][text] for n, text in good}
    bad = next(text for text, value in NUMBERS[kind].items() if value is None)
    (tmp_path / "b.csv").write_text(f'id,v\n1,"{bad}"\n')
    with pytest.raises(BadRecordError) as raised:
        kept(tmp_path / "b.csv", replace(options, home=Home(tmp_path / "b")), "csv", f"id int, v {kind}")
    assert (raised.value.facts["line"], bad in str(raised.value) or "larger" in str(raised.value)) == (2, True)


@pytest.mark.parametrize("tail", TAIL)
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_json_are_what_is_written(tmp_path: Path, options: RunOptions, kind: str, tail: bool) -> None:
    texts = NUMBERS[kind] if kind.startswith("decimal") else {}
    bare = {text: value for text, value in NUMBERS[kind].items() if re.fullmatch(r"-?\d+(\.\d+)?([eE]\d+)?", text)}
    values = [*((f'"{text}"', value) for text, value in texts.items()), *bare.items()]
    lines = {f'{{"id":{n},"v":{text}}}': value for n, (text, value) in enumerate(values)}
    check(tmp_path / "a.jsonl", lines, options, "json", kind, tail=tail)


@pytest.mark.parametrize("tail", TAIL)
@pytest.mark.parametrize("kind", BARE)
def test_values_of_json_without_quotes_are_what_is_written(
    tmp_path: Path, options: RunOptions, kind: str, tail: bool
) -> None:
    texts = BARE[kind].items()
    plain = {f'{{"id":{n},"é":0,"v":{{"a":{text}}}}}': made and {"a": made} for n, (text, made) in enumerate(texts)}
    check(tmp_path / "a.jsonl", plain, options, "json", f"struct<a:{kind}>", tail=tail)
    lists = {f'{{"id":{n},"v":[{text} ]}}': made and [made] for n, (text, made) in enumerate(texts)}
    check(tmp_path / "b.jsonl", lists, replace(options, home=Home(tmp_path / "b")), "json", f"array<{kind}>", tail=tail)


@pytest.mark.parametrize("tail", TAIL)
def test_half_of_a_pair_is_not_a_question_mark(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    lines = {f'{{"id":{n},"v":"{text}"}}': value for n, (text, value) in enumerate(HALVES.items())}
    check(tmp_path / "a.jsonl", lines, options, "json", "string", tail=tail)


@pytest.mark.parametrize("tail", TAIL)
def test_parts_of_values_are_looked_at(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    kind = "struct<a: array<decimal(9,2)>, m: map<string, double>, s: string>"
    lines = {
        '{"id":0,"v":{"a":["1.5",2],"m":{"x":1e3},"s":"1,5"}}': {
            "a": [Decimal("1.50"), Decimal("2.00")], "m": {"x": 1000.0}, "s": "1,5",
        },
        '{"id":1,"v":{"a":["1.5","2,5"]}}': None,
        '{"id":2,"v":{"m":{"x":1e400}}}': None,
        '{"id":3,"v":{"m":{"x":"Infinity"}}}': {"a": None, "m": {"x": math.inf}, "s": None},
        '{"id":4,"v":{"m":{"x":-1e400}},"other":"1,5"}': None,
    }  # fmt: skip
    check(tmp_path / "a.jsonl", lines, options, "json", kind, tail=tail)


@pytest.mark.parametrize("tail", TAIL)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_times_without_a_zone_are_of_the_years_of_python(
    tmp_path: Path, options: RunOptions, form: str, tail: bool
) -> None:
    good = ("2024-02-29T10:00:00", "0001-01-01", "9999-12-31T23:59:59.999999")
    times = {text: datetime.fromisoformat(text) for text in good} | {"10000-01-01T00:00:00": None, "0000-12-31": None}
    line = {"csv": "{},{}", "json": '{{"id":{},"v":"{}"}}'}[form]
    lines = {line.format(n, text): value for n, (text, value) in enumerate(times.items())}
    check(tmp_path / f"a.{form}", lines, options, form, "timestamp_ntz", tail=tail)


@pytest.mark.parametrize("text", ["1,a\r2,b", '1,"a\rb"'])
def test_a_carriage_return_within_a_line_of_csv_makes_no_second_record(
    tmp_path: Path, options: RunOptions, text: str
) -> None:
    (tmp_path / "a.csv").write_text(f"id,v\n{text}\n3,c\n", newline="")
    with pytest.raises((SourceReadError, BadRecordError)):
        kept(tmp_path / "a.csv", options, "csv", "id int, v string")
    # As the remedy says.
    found = kept(tmp_path / "a.csv", options, "csv", "id int, v string", bad_records="dead_letter")
    assert found == {3: "c"} | ({1: "a\rb"} if '"' in text else {})


def test_a_file_of_csv_with_one_column_has_no_record_within_a_value(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "a.csv").write_text('v\n"a\rb"\nc\n', newline="")
    stream = StreamBuilder.data_stream("odd", "values").from_file(tmp_path / "a.csv", "csv", schema="v string")
    with pytest.raises(SourceReadError, match="a carriage return within it"):
        stream.to_memory(MemoryChannel()).build().run(options)


def test_a_header_with_a_carriage_return_is_refused_in_words(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "a.csv").write_text("id,v\r1,a\r2,b\r", newline="")
    with pytest.raises(SourceReadError, match="the header contains a carriage return"):
        kept(tmp_path / "a.csv", options, "csv", "id int, v string")
    (tmp_path / "a.csv").write_text("id,v\r\n1,a\r\n2,b\r\n", newline="")
    assert kept(tmp_path / "a.csv", options, "csv", "id int, v string") == {1: "a", 2: "b"}


@pytest.mark.parametrize("tail", TAIL)
def test_a_nul_within_quotes_of_csv_is_not_dropped(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    lines = {'0,"a\0"': None, '1,"a\0""b"': None, '2,"a\0b"': None, "3,a\0": "a\0", '4,"a"': "a"}
    check(tmp_path / "a.csv", lines, options, "csv", "string", tail=tail)
    if not tail:
        with pytest.raises(BadRecordError, match="a NUL in a line with quotes") as raised:
            kept(tmp_path / "a.csv", replace(options, home=Home(tmp_path / "b")), "csv", "id int, v string")
        assert raised.value.facts["line"] == 2


@pytest.mark.long
def test_texts_of_avro_are_utf8(spark) -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"v","type":"string"}]}'
    values = spark.createDataFrame([(bytearray(b"\x02a"),), (bytearray(b"\x04\xff\xfe"),)], "value binary")
    frame, [value], reason = AvroFormat(schema=schema).decoded(values)
    rows = frame.select(F.when(reason.isNull(), value).alias("v"), reason.alias("reason")).collect()
    assert [tuple(row) for row in rows] == [("a", None), (None, "v: invalid UTF-8")]

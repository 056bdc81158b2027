"""Values that Python does not have: a record with one is refused by its policy, and stops no stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.errors import BadRecordError

SCHEMA = "id int, at timestamp, day date, more struct<seen: array<timestamp>, by: map<string, date>>"
TIMES = ["2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]
BEYOND = [
    {"at": "9999-12-31T23:59:59-01:30"},
    {"at": "0001-01-01T00:00:00+05:00"},
    {"at": "0000-06-01T00:00:00Z"},
    {"at": "-0005-06-01T00:00:00Z"},
    {"at": "+10000-01-01T00:00:00Z"},
    {"day": "+10000-01-01"},
    {"day": "0000-12-31"},
    {"more": {"seen": [None, "2024-01-01T00:00:00Z", "+12000-01-01T00:00:00Z"]}},
    {"more": {"by": {"a": "2024-01-01", "b": "-0001-01-01"}}},
]


def written(folder: Path) -> Path:
    sound = [{"at": at} for at in TIMES] + [{"day": "9999-12-31"}, {"day": "0001-01-01"}, {}, {"more": {"seen": None}}]
    records = [{"id": number, **record} for number, record in enumerate(sound + BEYOND)]
    file = folder / "a.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


@pytest.mark.parametrize("tail", [False, True])
def test_should_refuse_a_record_whose_time_python_does_not_have(tmp_path: Path, options, tail: bool) -> None:
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("calendar", f"tail_{tail:d}").from_file(
        written(tmp_path), schema=SCHEMA, tail=tail, bad_records="dead_letter"
    )
    built = stream.map(lambda row: {"id": row["id"], "text": repr(row)}, schema="id int, text string").to_memory(out)
    report = built.build().run(options)
    assert [row["id"] for row in out.rows()] == list(range(7))
    assert (report.rows_in, report.rows_dead) == (16, 9)


def test_should_name_the_field_and_the_place_where_bad_records_fail(tmp_path: Path, options) -> None:
    stream = StreamBuilder.data_stream("calendar", "fail").from_file(written(tmp_path), schema=SCHEMA)
    with pytest.raises(BadRecordError, match="at: not in the years 1 to 9999") as raised:
        stream.to_memory(MemoryChannel()).build().run(options)
    assert raised.value.facts["line"] == 8


def test_should_refuse_such_days_of_csv_and_of_a_pattern(tmp_path: Path, options) -> None:
    for job, text, form in (
        ("csv", "id,day\n1,2024-01-01\n2,+10000-01-01\n", {"format": "csv"}),
        ("text", "1 2024-01-01\n2 +10000-01-01\n", {"format": "text", "pattern": r"(?P<id>\d+) (?P<day>\S+)"}),
    ):
        (tmp_path / job).write_text(text)
        out = MemoryChannel()
        source = StreamBuilder.data_stream("calendar", job).from_file(
            tmp_path / job, schema="id int, day date", bad_records="dead_letter", **form
        )
        report = source.to_memory(out).build().run(options)
        assert ([row["id"] for row in out.rows()], report.rows_dead) == ([1], 1)


CLOCKS = ["12:34:56", "1:2", "T12:34", " 12:34", "12:34:56+02:00"]
DATED = ["2024-01-01T12:34:56", "2024-01-01", "2024-1-2 3:4:5", " 2024-01-01 12:34", "2024"]


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("form", ["json", "csv", "pattern"])
def test_should_refuse_a_time_of_day_without_a_date(tmp_path: Path, options, tail: bool, form: str) -> None:
    """Spark takes it for one of today, so that a batch that is computed again tomorrow has another time."""
    rows = [*enumerate(DATED + CLOCKS)]
    text = {
        "json": "".join(json.dumps({"id": number, "at": at, "all": [{"at": at}]}) + "\n" for number, at in rows),
        "csv": "id,at\n" + "".join(f'{number},"{at}"\n' for number, at in rows),
        "pattern": "".join(f"{number};{at}\n" for number, at in rows),
    }
    (tmp_path / "a.txt").write_text(text[form])
    settings = {
        "json": {"format": "json", "schema": "id int, at timestamp, all array<struct<at: timestamp>>"},
        "csv": {"format": "csv", "schema": "id int, at timestamp"},
        "pattern": {"format": "text", "schema": "id int, at timestamp", "pattern": r"(?P<id>\d+);(?P<at>.*)"},
    }
    out = MemoryChannel()
    source = StreamBuilder.data_stream("calendar", f"clock_{form}_{tail:d}").from_file(
        tmp_path / "a.txt", tail=tail, bad_records="dead_letter", **settings[form]
    )
    report = source.map("id", "year(at) AS year").to_memory(out).build().run(options)
    assert sorted((row["id"], row["year"]) for row in out.rows()) == [(number, 2024) for number in range(len(DATED))]
    assert report.rows_dead == len(CLOCKS)


def test_should_take_a_time_of_day_that_the_format_of_the_source_reads(tmp_path: Path, options) -> None:
    (tmp_path / "a.jsonl").write_text('{"at": "12:34"}\n')
    (tmp_path / "a.csv").write_text("at\n12:34\n")
    for file in ("a.jsonl", "a.csv"):
        out = MemoryChannel()
        source = StreamBuilder.data_stream("calendar", file[2:]).from_file(
            tmp_path / file, format=file[2:].removesuffix("l"), schema="at timestamp", time_format="HH:mm"
        )
        _ = source.map("string(at) AS text").to_memory(out).build().run(options)
        assert out.rows() == [{"text": "1970-01-01 12:34:00"}]


def test_should_infer_texts_from_times_of_day_in_csv(tmp_path: Path, options) -> None:
    (tmp_path / "a.csv").write_text("at,seen\n12:34:56,2024-01-01 00:00:00\n1:02,\n")
    out = MemoryChannel()
    source = StreamBuilder.data_stream("calendar", "inferred").from_file(tmp_path / "a.csv", format="csv")
    _ = source.map("at", "year(seen) AS year").to_memory(out).build().run(options)
    assert out.rows() == [{"at": "12:34:56", "year": 2024}, {"at": "1:02", "year": None}]


@pytest.mark.parametrize("tail", [False, True])
def test_should_refuse_a_map_of_json_with_a_key_twice(tmp_path: Path, options, tail: bool) -> None:
    """Spark keeps both entries; a look-up finds the first, Python the last, and a table has two."""
    (tmp_path / "a.jsonl").write_text(
        '{"id":1,"m":{"a":1,"b":1}}\n{"id":2,"m":{"a":1,"a":2}}\n{"id":3,"deep":[{"x":{"k":1,"k":1}}]}\n{"id":4}\n'
    )
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("calendar", f"keys_{tail:d}").from_file(
        tmp_path / "a.jsonl",
        schema="id int, m map<string, int>, deep array<struct<x: map<string, int>>>",
        tail=tail,
        bad_records="dead_letter",
    )
    report = stream.to_memory(out).build().run(options)
    assert ([row["id"] for row in out.rows()], report.rows_dead) == ([1, 4], 2)

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

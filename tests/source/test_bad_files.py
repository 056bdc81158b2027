"""Input as it should not be: both readers say the same of it, lose nothing of it, and make no row of nulls."""

from __future__ import annotations

import csv
import gzip
import resource
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.errors import BadRecordError, ConfigurationError, SourceReadError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import RunReport

SCHEMA = "id long, name string"
CSV_SCHEMA = "id long, name string, n int"
ODD_NAME = "odd ü [1]*?{a,b}.jsonl"
NAMES = ['He said "hi"', '"', 'a","b', '5" pipe, 6" pipe', "a\\", "ü, x", " y ", 'a""b', '""x""']
MALFORMED = "malformed JSON"
UTF8 = "invalid UTF-8"


def misfit(value: object) -> str:
    """Why the value of `id` is refused."""
    return f"id: '{value}' is not of type bigint"


# The files of a folder: their bytes, the ids that come out of them, and the lines that cannot be used.
JSON_FILES: dict[str, tuple[bytes, list[int | None], dict[int, str]]] = {
    "empty.jsonl": (b"", [], {}),
    "blank.jsonl": (b"\n  \n\t\n \r\n", [], {}),
    "sound.jsonl": (b'{"id":1,"name":"a"}\n{"id":2}\n{"id":3,"more":[]}\n', [1, 2, 3], {}),
    "utf8.jsonl": (b'{"id":10,"name":"\xff\xfe"}\n{"id":11}\n', [11], {1: UTF8}),
    "deep_1000.jsonl": (b'{"id":20,"deep":' + b"[" * 998 + b"]" * 998 + b"}\n", [20], {}),
    "deep_5000.jsonl": (b'{"id":21,"deep":' + b"[" * 5000 + b"]" * 5000 + b"}\n", [], {1: MALFORMED}),
    "bom.jsonl": (b'\xef\xbb\xbf{"id":30}\n{"id":31}\n', [30, 31], {}),
    "crlf.jsonl": (b'{"id":40}\r\n\r\n{"id":41}\r\n', [40, 41], {}),
    "big.jsonl": (b'{"id":9223372036854775807}\n{"id":9223372036854775808}\n', [2**63 - 1], {2: misfit(2**63)}),
    "types.jsonl": (
        b'{"id":"seven"}\n{"id":true}\n{"id":1.5}\n{"id":{"x":1}}\n{"id":50,"name":5}\n',
        [50],
        {1: misfit("seven"), 2: misfit("true"), 3: misfit("1.5"), 4: misfit('{"x":1}')},
    ),
    "literals.jsonl": (
        b'null\n17\n"text"\n[1,2]\n[]\n[{"id":60},{"id":61}]\n{"id":62}\n',
        [62],
        dict.fromkeys(range(1, 7), MALFORMED),
    ),
    "torn.jsonl": (b'{"id":1,"na\n{"id":71}\r{"id":72\n{"id":73}\n', [71, 73], {1: MALFORMED}),
    "w1.jsonl": (b'{"id":80}\n', [80], {}),
    "w[1].jsonl": (b'{"id":81}\n', [81], {}),
    ODD_NAME: (b'{"id":82}\nno json\n', [82], {2: MALFORMED}),
    "below/it.jsonl": (b'{"id":90}\n', [90], {}),
    "day=1/it.jsonl": (b'{"id":91}\n', [91], {}),
    ".hidden/it.jsonl": (b'{"id":98}\n', [], {}),
    "_hidden.jsonl": (b'{"id":99}\n', [], {}),
}
CSV_FILES: dict[str, tuple[bytes, list[int | None], dict[int, str]]] = {
    "a.csv": (
        b'id,name,n\n1,a,2\n2,b\n3,c,4,5\nx,d,6\n4,\xff,1\n5,,\n\n"6","q,q",7\n9223372036854775808,z,1\n',
        [1, 5, 6],
        {3: "malformed CSV", 4: "malformed CSV", 5: "malformed CSV", 6: UTF8, 10: "malformed CSV"},
    ),
    "quotes.csv": (
        b'id,name,n\r\n20,"He said ""hi""",1\r\n21,"""",2\r\n22,"a"",""b",3\r\n23,"5"" x, 6"" x",4\r\n24,"a\\",5\r\n',
        [20, 21, 22, 23, 24],
        {},
    ),
    "unbalanced.csv": (
        b'id,name,n\n30,"one\n31",x,1\n32,5" pipe,1\n33,"",1\n34,x,"2\n',
        [33],
        dict.fromkeys((2, 3, 4, 6), "malformed CSV: a quote is not closed in its line"),
    ),
    "header.csv": (b"id,name,n\n", [], {}),
    "empty.csv": (b"", [], {}),
    "bom.csv": (b"\xef\xbb\xbfid,name,n\r\n8,e,1\r\n", [8], {}),
}
TEXT_FILES: dict[str, tuple[bytes, list[str], dict[int, str]]] = {
    "a.log": (b"\xef\xbb\xbfone\r\n\r\n \t \ntwo\n\xff\xfethree\nfo\rur\n", ["one", "two", "fo\rur"], {5: UTF8}),
}


def written(folder: Path, files: dict) -> Path:
    for name, (content, _, _) in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def letters(options: RunOptions) -> list[dict]:
    path = options.home.dead_letters
    return DeltaTable(str(path)).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []


def run(path: object, options: RunOptions, **source: object) -> tuple[list[dict], RunReport]:
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("bad", "files").from_file(str(path), **({"schema": SCHEMA} | source))
    report = stream.to_memory(out).build().run(options)
    return out.rows(), report


def last_committed(options: RunOptions) -> int:
    return CheckpointLog(options.home.job("bad", "files") / "g0001" / "file" / "checkpoint").last_committed()


@pytest.fixture(params=[False, True], ids=["whole", "tail"])
def tail(request: pytest.FixtureRequest) -> bool:
    return request.param


def check(folder: Path, files: dict, options: RunOptions, policy: str, column: str, **source: object) -> None:
    """Every record is either a row or a dead letter with its place, and the report's sum holds."""
    rows, report = run(folder, options, bad_records=policy, **source)
    good = [value for _, values, _ in files.values() for value in values]
    bad = {(name, line): reason for name, (_, _, lines) in files.items() for line, reason in lines.items()}
    assert sorted(row[column] for row in rows) == sorted(good)
    assert (report.rows_in, report.rows_out, report.rows_dead) == (len(good) + len(bad), len(good), len(bad))
    found = letters(options)
    if policy == "skip":
        assert not found
        return
    base = {Path(name).name: name for name in files}
    assert {(base[Path(x["split"]).name], x["line"]): x["reason"] for x in found} == bad
    assert len(found) == len(bad)
    for letter in found:
        content = files[base[Path(letter["split"]).name]][0]
        raw = content[letter["offset"] :].partition(b"\n")[0].removesuffix(b"\r")
        assert raw.decode("utf-8", "replace")[:50] == letter["record"][:50]


def test_a_quote_within_quotes_is_a_quote(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    file = tmp_path / "a.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([["id", "name", "n"], *([n, name, n] for n, name in enumerate(NAMES))])
    rows, _ = run(file, options, tail=tail, format="csv", schema=CSV_SCHEMA)
    assert [row["name"] for row in sorted(rows, key=lambda row: row["id"])] == NAMES


@pytest.mark.parametrize("steps", [lambda s: s.filter("name <> 'bad'"), lambda s: s.select_fields("name")])
@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("json", b'{"name":"a","id":1}\n{"name":"bad" "id":2}\n'),
        ("json", b'{"name":"a","id":1}\n{"name":"bad","id":"two"}\n'),
        ("csv", b"id,name,n\n1,a,1\ntwo,bad,1\n"),
    ],
)
def test_a_bad_record_fails_though_nobody_reads_what_is_bad(tmp_path, options, steps, form, content) -> None:
    (tmp_path / "a").write_bytes(content)
    schema = CSV_SCHEMA if form == "csv" else "name string, id long"
    stream = StreamBuilder.data_stream("bad", "files").from_file(tmp_path / "a", form, schema=schema)
    with pytest.raises(BadRecordError, match="malformed|is not of type bigint"):
        steps(stream).to_memory(MemoryChannel()).build().run(options)


@pytest.mark.parametrize("name", ["a:b.jsonl", "a.jsonl.bz2", "a.jsonl.GZ", "a.jsonl.snappy"])
def test_a_file_that_spark_would_read_in_another_way_is_refused(tmp_path: Path, options: RunOptions, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(b'{"id":1}\n')
    with pytest.raises(SourceReadError, match="Spark cannot read|are not read") as refused:
        run(tmp_path / "in", options)
    assert refused.value.facts["file"] == tmp_path / "in" / name
    # Nothing was planned, so that the remedy helps.
    (tmp_path / "in" / name).rename(tmp_path / "in" / "good.jsonl")
    assert [row["id"] for row in run(tmp_path / "in", options)[0]] == [1]


@pytest.mark.parametrize("policy", ["dead_letter", "skip"])
def test_json_lines_are_rows_or_counted(tmp_path: Path, options: RunOptions, tail: bool, policy: str) -> None:
    folder = written(tmp_path / "in put [1]", JSON_FILES)
    check(folder, JSON_FILES, options, policy, "id", tail=tail)


def test_csv_lines_are_rows_or_dead_letters(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    folder = written(tmp_path / "in", CSV_FILES)
    check(folder, CSV_FILES, options, "dead_letter", "id", tail=tail, format="csv", schema=CSV_SCHEMA)


def test_lines_of_text_are_rows_or_dead_letters(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    folder = written(tmp_path / "in", TEXT_FILES)
    check(folder, TEXT_FILES, options, "dead_letter", "value", tail=tail, format="text", schema=None)


@dataclass(frozen=True)
class Culprit:
    """A file with a bad line, and how it is read."""

    content: bytes
    line: int
    reason: str
    format: str = "json"
    schema: str | None = SCHEMA


CULPRITS = {
    "malformed": Culprit(b'{"id":1}\n\n{"id":2\n', 3, "malformed JSON"),
    "utf8": Culprit(b'{"id":1}\n{"id":2,"name":"\xff"}\n', 2, "invalid UTF-8"),
    "array": Culprit(b'{"id":1}\n[]\n', 2, "malformed JSON"),
    "array_of_rows": Culprit(b'{"id":1}\n \n [{"id":2},{"id":3}]\n', 3, "malformed JSON"),
    "null": Culprit(b"null\n", 1, "malformed JSON"),
    "type": Culprit(b'{"id":1}\n{"id":"n/a","name":"a"}\n', 2, "id: 'n/a' is not of type bigint"),
    "nested_type": Culprit(
        b'{"id":1,"t":5}\n', 1, "a value is not of its field's type", schema="id long, t array<int>"
    ),
    "too_deep": Culprit(b'{"id":1,"x":' + b"[" * 5000 + b"]" * 5000 + b"}\n", 1, "malformed JSON"),
    "csv_columns": Culprit(b"id,name,n\n1,a,2\n2,b\n", 3, "malformed CSV", "csv", CSV_SCHEMA),
    "text": Culprit(b"good\nbad \xff\n", 2, "invalid UTF-8", "text", None),
}


@pytest.mark.parametrize("name", CULPRITS)
def test_a_bad_line_ends_the_run_before_anything_is_committed(tmp_path: Path, options: RunOptions, name: str) -> None:
    culprit = CULPRITS[name]
    file = tmp_path / "in" / "a.log"
    file.parent.mkdir()
    file.write_bytes(culprit.content)
    with pytest.raises(BadRecordError, match=culprit.reason) as raised:
        run(file.parent, options, format=culprit.format, schema=culprit.schema)
    facts = raised.value.facts
    assert (facts["step"], facts["split"], facts["line"]) == ("file", "a.log", culprit.line)
    assert facts["offset"] == len(b"".join(culprit.content.splitlines(keepends=True)[: culprit.line - 1]))
    assert last_committed(options) == -1
    assert not letters(options)
    # Under another policy the same checkpoint goes on.
    rows, report = run(file.parent, options, format=culprit.format, schema=culprit.schema, bad_records="dead_letter")
    assert report.rows_dead == 1
    assert report.rows_in == len(rows) + 1


def test_a_followed_file_goes_on_once_its_bad_line_was_mended(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"id":1}\n{"id":2]\n')
    with pytest.raises(BadRecordError) as raised:
        run(file, options, tail=True)
    assert (raised.value.facts["split"], raised.value.facts["line"], raised.value.facts["offset"]) == ("a.jsonl", 2, 9)
    assert last_committed(options) == -1
    file.write_bytes(b'{"id":1}\n{"id":2}\n')
    rows, _ = run(file, options, tail=True)
    assert [row["id"] for row in rows] == [1, 2]


def test_a_missing_path_is_refused(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.jsonl"):
        run(tmp_path / "none.jsonl", options, tail=tail)
    with pytest.raises(ConfigurationError, match="nowhere"):
        run(tmp_path / "nowhere" / "none.jsonl", options, tail=tail)


def test_an_empty_file_is_no_input_and_gives_no_schema(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    file = tmp_path / "a.jsonl"
    file.touch()
    rows, report = run(file, options, tail=tail)
    assert (rows, report.rows_in, report.sealed) == ([], 0, not tail)
    fresh = replace(options, home=Home(tmp_path / "other"))
    with pytest.raises(ConfigurationError, match="no schema"):
        run(file, fresh, tail=tail, schema=None)


@pytest.mark.parametrize("policy", ["fail", "dead_letter"])
def test_a_truncated_archive_is_an_error_until_it_is_whole(
    tmp_path: Path, options: RunOptions, tail: bool, policy: str
) -> None:
    # Half of an archive is no bad record: what the rest of it holds, nobody knows.
    archive = gzip.compress(b"".join(b'{"id":%d}\n' % number for number in range(20_000)))
    file = tmp_path / "in" / "a.jsonl.gz"
    file.parent.mkdir()
    file.write_bytes(archive[: len(archive) // 2])
    with pytest.raises(SourceReadError, match=r"a\.jsonl\.gz"):
        run(file.parent, options, tail=tail, bad_records=policy)
    assert last_committed(options) == -1
    if tail:
        file.write_bytes(archive)
        rows, _ = run(file.parent, options, tail=tail, bad_records=policy)
        assert sorted(row["id"] for row in rows) == list(range(20_000))


def test_a_line_of_100_mb_is_cut_or_refused_but_never_held(tmp_path: Path, options: RunOptions) -> None:
    file = tmp_path / "in" / "a.jsonl"
    file.parent.mkdir()
    with file.open("wb") as out:
        out.write(b'{"id":1}\n{"id":2,"name":"')
        for _ in range(100):
            out.write(b"x" * 1_000_000)
        out.write(b'"}\n{"id":3}\n')
    with pytest.raises(BadRecordError, match="more than") as raised:
        run(file.parent, options)
    assert (raised.value.facts["line"], raised.value.facts["offset"]) == (2, 9)
    with pytest.raises(SourceReadError, match="more than") as refused:
        run(file.parent, options, bad_records="dead_letter")
    assert refused.value.facts["file"] == str(file)
    assert last_committed(options) == -1
    followed = replace(options, home=Home(tmp_path / "other"))
    rows, report = run(file.parent, followed, tail=True, bad_records="dead_letter")
    assert [row["id"] for row in rows] == [1, 3]
    assert (report.rows_in, report.rows_dead) == (3, 1)
    (letter,) = letters(followed)
    assert (letter["line"], letter["offset"]) == (2, 9)
    assert "more than" in letter["reason"]
    assert len(letter["record"]) == 65_536
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000, "kilobytes of this process"


def test_one_file_of_an_odd_name_is_bounded(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / ODD_NAME
    file.write_bytes(b'{"id":1}\n')
    (tmp_path / "in" / "odd ü 1a.jsonl").write_bytes(b'{"id":2}\n')
    rows, report = run(file, options)
    assert ([row["id"] for row in rows], report.sealed) == ([1], True)


def test_a_batch_of_one_file_of_an_odd_name_reads_no_other(tmp_path: Path, options: RunOptions) -> None:
    for number, name in enumerate(("w[1].jsonl", "w1.jsonl", "w*.jsonl")):
        (tmp_path / name).write_bytes(b'{"id":%d}\n' % number)
    rows, report = run(tmp_path / "*.jsonl", options, max_files_per_batch=1)
    assert sorted(row["id"] for row in rows) == [0, 1, 2]
    assert report.batches == 3

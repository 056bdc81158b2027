"""Plain lines: which are taken for it, what Spark's parser makes of them, and what becomes of a batch with others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets import MemoryChannel, StreamBuilder, Time
from rs_assets.connectors.files.whole import fast_check as plain
from rs_assets.connectors.files.whole.fast_check import Part, PlainLines, parts_of
from rs_assets.connectors.files.whole.plain_regex import Order, Shape
from rs_assets.errors import BadRecordError
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.run.run import wire_all

SCHEMA = (
    "i long, n int, s smallint, t tinyint, x double, f float, b boolean, text string, at timestamp, day date, `a b` int"
)
SOUND = {
    "i": ["0", "-1", "999999999999999999", "-0", "null"],
    "n": ["999999999", "-7"],
    "s": ["9999", "-9999"],
    "t": ["99", "-0"],
    "x": ["1", "-0.5", "1e9", "2.5E-3", "1e99", "123456789012345678901234567890.5"],
    "f": ["0.1", "1e99", "-3"],
    "b": ["true", "false"],
    "text": ['""', '"a\\"b"', '"\\u00e9\\ud83d\\ude00 ü€😀"', '"\\ud800"', '"\\\\"', '"{[,:]}"', '"null"'],
    "at": [
        '"2024-02-29T23:59:59Z"',
        '"2024-01-01 00:00:00"',
        '"1600-01-01T00:00:00.123456789+17:59"',
        '"8999-12-31T23:59:59.9-01:30"',
    ],
    "day": ['"2024-02-29"', '"1999-12-31"'],
    "a b": ["5"],
    "more": ['{"x":[1,"a"],"y":[]}', '[[],["a"]]', "1E5", '"\\n"', "{ }"],
}
ODD = {
    "i": ["9999999999999999999", "1.0", '"1"', "01", "+1", "true", "[]"],
    "n": ["2147483648", "1e3"],
    "s": ["40000"],
    "t": ["128"],
    "x": ["NaN", '"1"', ".5", "1.", "Infinity"],
    "b": ["1", "TRUE", '"true"'],
    "text": ["1", '"a', '"\t"', '"\\x"', "{}", "'a'"],
    "at": [
        '"9999-12-31T23:59:59-01:00"',
        '"2023-02-29T00:00:00Z"',
        '"2100-02-29T00:00:00"',
        '"10:00"',
        '"2024-01-01T24:00:00"',
        "17",
    ],
    "day": ['"2024-02-30"', '"2024-1-1"'],
    "more": ['{"\\ud800":1}', "nul", "[1,]", "{1:2}", '{"a"}', "[", "01"],
}


def taken(content: bytes, schema: str = SCHEMA, folder: Path | None = None) -> int | None:
    assert folder is not None
    file = folder / "a.jsonl"
    file.write_bytes(content)
    shape = Shape.of(schema)
    assert shape is not None
    return PlainLines(shape).count(Part(file))


def line(**values: str) -> bytes:
    return ("{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + "}").encode()


def sound_lines() -> list[bytes]:
    most = max(map(len, SOUND.values()))
    return [line(**{k: v[n % len(v)] for k, v in SOUND.items()}) for n in range(most)]


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in ODD.items() for v in values])
def test_should_not_take_a_value_that_may_be_refused(tmp_path: Path, name: str, value: str) -> None:
    sound = {k: v[0] for k, v in SOUND.items()}
    good = line(**sound)
    assert taken(good + b"\n", folder=tmp_path) == 1
    assert taken(good + b"\n" + line(**{**sound, name: value}) + b"\n", folder=tmp_path) is None


@pytest.mark.parametrize(
    "odd",
    [
        b'{"i":1}{"i":2}', b'[{"i":1}]', b"[]", b"", b"  ", b"null", b'{"i":1,"i":2}', b'{"i":1,"n":2,"i":3}',
        b'{"n":1,"\\u0069":2}', b'\xef\xbb\xbf{"i":1}', b'{"text":"\xff"}', b'{"text":"\xed\xa0\x80"}', b'{"i":1,}',
        b'{,"i":1}', b'{"i":1', b'{"i":1}\r{"i":2}', b'{"text":"a\0"}', b'{"n":2,"i":1}', b'{"i" 1}', b"{i:1}",
        b'{"i":1} x', b'{"text":"' + b"x" * (1 << 21) + b'"}', b'{"more":' + b"[" * 9 + b"]" * 9 + b"}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_should_not_take_a_line_that_is_not_one_record(tmp_path: Path, odd: bytes, newline: bytes) -> None:
    good = b'{"i":1,"n":2}' + newline
    assert taken(good * 3, folder=tmp_path) == 3
    assert taken(good * 2 + odd + newline + good, folder=tmp_path) is None


def test_should_take_every_record_that_fits_one_order_of_the_keys(tmp_path: Path) -> None:
    content = b'{"text":"a"}\n{"i":1,"text":"b"}\n{ "i" : 2 , "n" : null }\r\n{}\n{"i":3,"n":1,"text":"c"}'
    assert taken(content, folder=tmp_path) == 5
    assert taken(content + b"\n", folder=tmp_path) == 5
    assert taken(b"", folder=tmp_path) == 0


@settings(max_examples=60, deadline=None)
@given(records=st.lists(st.permutations("abcd").flatmap(lambda p: st.integers(0, 4).map(lambda n: p[:n])), max_size=6))
def test_should_learn_an_order_just_where_there_is_one(tmp_path_factory, records: list[list[str]]) -> None:
    content = b"".join(line(**dict.fromkeys(keys, "1")) + b"\n" for keys in records)
    after = {(a, b) for keys in records for i, a in enumerate(keys) for b in keys[i + 1 :]}
    counted = taken(content, "a int", folder=tmp_path_factory.mktemp("in"))
    reach = {a: {a} for a in "abcd"}
    for _ in reach:
        reach = {a: reach[a].union(*(reach[b] for x, b in after if x in reach[a])) for a in reach}
    ordered = not any(a in reach[b] for a, b in after)
    assert counted == (len(records) if ordered else None)


@pytest.mark.parametrize("part", [1, 7, 40, 1000])
def test_parts_and_blocks_of_any_size_give_the_same_count(tmp_path: Path, monkeypatch, part: int) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"".join(b'{"i":%d}\r\n' % n for n in range(50)) + b'{"i":7}')
    monkeypatch.setattr(plain, "PART_BYTES", part)
    monkeypatch.setattr(plain, "BLOCK_BYTES", 16)
    lines = PlainLines(Shape.of("i int"))
    assert sum(lines.count(p) for p in parts_of(file)) == 51
    file.with_suffix(".gz").write_bytes(gzip.compress(file.read_bytes()))
    assert [lines.count(p) for p in parts_of(file.with_suffix(".gz"))] == [51]
    file.with_suffix(".gz").write_bytes(gzip.compress(file.read_bytes())[:-20])
    assert [lines.count(p) for p in parts_of(file.with_suffix(".gz"))] == [None]


@pytest.mark.parametrize("schema", ["d decimal(9,2)", "a array<int>", "s struct<x: int>", "i int not null", "x binary"])
def test_should_not_try_a_type_that_text_says_too_little_of(schema: str) -> None:
    assert Shape.of(f"i int, {schema}") is None


def test_an_order_does_not_grow_without_end() -> None:
    assert Order.of([tuple(map(str, range(40))), tuple(map(str, range(30, 60)))]) is None


def test_spark_takes_all_that_is_plain_whatever_it_parses_of_it(spark, tmp_path: Path) -> None:
    lines = sound_lines()
    assert taken(b"\n".join(lines) + b"\n", folder=tmp_path) == len(lines)
    path = str(tmp_path / "a.jsonl")
    whole = spark.read.schema(f"{SCHEMA}, _bad string").option("columnNameOfCorruptRecord", "_bad").json(path).cache()
    assert (whole.count(), whole.filter("_bad is not null").count()) == (len(lines), 0)
    assert spark.read.schema(SCHEMA).json(path).count() == len(lines)
    for name in whole.columns[:-1]:
        rows = spark.read.schema(SCHEMA).json(path).select(f"`{name}`")
        assert repr(rows.collect()) == repr(whole.select(f"`{name}`").collect())
        asked = [v for v in SOUND[name] if v != "null"]
        assert rows.filter(f"`{name}` is not null").count() == sum(
            SOUND[name][n % len(SOUND[name])] in asked for n in range(len(lines))
        )


class TestRun:
    """Whole files under FAIL, of which a pipeline uses less than there is."""

    SCHEMA = "page string, id long, at timestamp"

    @staticmethod
    def content(rows: int = 3000) -> bytes:
        # More than the sample that a start looks at.
        row = '{{"page":"/{}","id":{},"at":"2024-01-01T00:00:00Z"}}\n'
        return "".join(row.format(n % 100, n) for n in range(rows)).encode()

    def stream(self, file: Path):
        return StreamBuilder.data_stream("plain", "files").from_file(str(file), schema=self.SCHEMA)

    def test_only_what_is_used_is_parsed(self, tmp_path: Path, options) -> None:
        (tmp_path / "a.jsonl").write_bytes(self.content())
        out = MemoryChannel()
        made = self.stream(tmp_path / "a.jsonl").filter("page = '/7'").select_fields("id").to_memory(out).build()
        with opened(made.topology, options) as session:
            options.driver.call(lambda spark: wire_all(session, spark))
            (query,) = session.queries.values()
            frame = query.flows[query.plan.streaming_output].df
            wired = options.driver.call(lambda _: frame._jdf.queryExecution().analyzed().toString())
        # Neither a counter nor a column for refused text stands between the filter and the file.
        assert "CollectMetrics" not in wired
        assert "_rs_corrupt" not in wired
        report = made.run(options)
        assert sorted(row["id"] for row in out.rows()) == list(range(7, 3000, 100))
        assert (report.rows_in, report.rows_out) == (3000, 30)

    @pytest.mark.parametrize(
        ("odd", "reason", "state"),
        [(b'{"page":"/1","id":"two"}', "malformed", False), (b'{"page":"/1","id":"two"}', "malformed", True),
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

    def test_a_batch_with_a_line_that_is_odd_and_good_is_read_again(self, tmp_path: Path, options) -> None:
        file = tmp_path / "a.jsonl"
        odd = b'{"page":"/7","id":1,"page":"/8"}\n\n{"id":2,"page":"/7"}\n{"page":"/7","id":5,"x":[[[[1]]]]}\n'
        file.write_bytes(self.content() + odd)
        out = MemoryChannel()
        report = self.stream(file).filter("page = '/7'").to_memory(out).build().run(options)
        # Of a key that comes twice the last value counts, in a whole record.
        assert sorted(row["id"] for row in out.rows()) == sorted([*range(7, 3000, 100), 2, 5])
        assert (report.rows_in, report.rows_out, report.batches) == (3003, 32, 1)

    def test_nobody_sees_rows_of_a_batch_that_is_read_again(self, tmp_path: Path, options) -> None:
        file, seen = tmp_path / "a.jsonl", tmp_path / "seen"
        file.write_bytes(self.content() + b'{"page":"/7","id":"two"}\n')

        def note(row: dict) -> None:
            with seen.open("a") as out:
                out.write(json.dumps(row["id"]) + "\n")

        with pytest.raises(BadRecordError):
            self.stream(file).filter("page = '/7'").for_each(note).to_memory(MemoryChannel()).build().run(options)
        assert "null" not in (seen.read_text() if seen.exists() else "")

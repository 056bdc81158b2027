"""CSV columns are matched by the names of the header, in each file by its own."""

from __future__ import annotations

import csv
import gzip
import io
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StructType

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.checkpoint.log import PlannedFile
from rs_assets.common.files import modified_ms
from rs_assets.connectors.files.header import Columns, check_header, columns_in_order, header_names
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.records import (
    FAULT,
    REACH_BYTES,
    RECORD,
    WITHIN,
    OpenQuotes,
    picker,
    read_records,
)
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole.counting import FileWatch
from rs_assets.connectors.files.whole.spark_files import read_stream
from rs_assets.errors import BadRecordError, SourceReadError
from rs_assets.runtime.options import RunOptions

SCHEMA = "id bigint, name string"
# What readers of CSV disagree on is left out: a quote within an unquoted value.
VALUE = st.one_of(st.text(alphabet='ab ,"üé;\t', max_size=6), st.sampled_from(["", "a", '"', '""', " x", ","]))


@pytest.mark.parametrize(
    ("header", "schema", "places"),
    [
        ("a,b", "a bigint, b string", (0, 1)),
        ("b,a", "a bigint, b string", (1, 0)),
        ("A, B ", "a bigint, b string", (0, 1)),
        ("a,b,c", "c string, a bigint", (2, 0)),
        ("id,,name,name", "name3 string, _c1 string", (3, 1)),
        ("a,a,a", "a2 string, a0 string", (2, 0)),
        ("a,a,a1", "a1 string, a0 string", (2, 0)),
    ],
)
def test_should_find_the_columns_by_name(header: str, schema: str, places: tuple[int, ...]) -> None:
    found = Columns.matched(header_names(header.encode()), [field.split()[0] for field in schema.split(", ")])
    assert found.places == places


@pytest.mark.parametrize("first", ["x,1", "a,a", "x,1,2"])
def test_matched_a_first_line_without_a_known_name_is_refused(first: str) -> None:
    with pytest.raises(SourceReadError, match="the first line is not a header") as refused:
        Columns.matched(header_names(first.encode()), ["id", "name"])
    assert "header=False ('csv.header' = 'false' in SQL)" in refused.value.remedy


def test_check_header_names_of_all_fields_without_a_header_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("ID,name\n1,x\n")
    with pytest.raises(SourceReadError, match="would be read as a record"):
        check_header(file, SCHEMA, header=False)
    file.write_text("1,x\n")
    check_header(file, SCHEMA, header=False)


def test_should_tell_what_columns_of_one_name_are_called() -> None:
    with pytest.raises(SourceReadError, match="no column 'name'") as refused:
        Columns.matched(["id", "Name", "Name", "Name"], ["id", "name"])
    assert refused.value.remedy == "name the fields of the schema like the columns: id, Name1, Name2, Name3"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("header", ["a,c\n1,2\n", "\n \nid,a,c\n", '"a","c"\n1,2\n', "x,y,z\n"])
def test_should_refuse_a_header_that_lacks_a_field(tmp_path: Path, header: str, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(header.encode()) if name.endswith("gz") else header.encode())
    with pytest.raises(SourceReadError, match="the header has no column '[ab]'|is not a header") as refused:
        check_header(file, "a bigint, b string")
    assert refused.value.facts["file"] == str(file)
    assert "fields of the schema like the columns" in refused.value.remedy


def test_should_refuse_a_name_of_several_lines_and_pass_over_a_header_that_is_still_written(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('a,"b\nc"\n1,2\n')
    with pytest.raises(SourceReadError, match="contains a line break"):
        check_header(file, "a bigint, b string")
    file.write_text("a,na")
    check_header(file, "a bigint, name string")
    check_header(tmp_path / "gone.csv", "a bigint")


@pytest.mark.parametrize(
    ("header", "stands"), [("\ufeffID,name\r\n", True), ("name,id\n", False), ("id\n", False), ("", True)]
)
def test_should_leave_to_spark_what_stands_in_place(tmp_path: Path, header: str, stands: bool) -> None:
    (tmp_path / "a.csv").write_text(header, encoding="utf-8", newline="")
    assert columns_in_order(tmp_path / "a.csv", SCHEMA) is stands
    assert not columns_in_order(tmp_path / "a.csv", None)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(VALUE, min_size=4, max_size=4), min_size=1, max_size=5),
    places=st.permutations(range(4)).flatmap(lambda p: st.integers(1, 4).map(lambda n: tuple(p[:n]))),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    between=st.sampled_from(",;\t|^-] "),
)
def test_should_cut_lines_as_pythons_csv_does(rows, places, quoting, between) -> None:
    pick = picker(Columns(places, 4), between.encode())
    for row in rows:
        text = io.StringIO()
        csv.writer(text, quoting=quoting, lineterminator="", delimiter=between).writerow(row)
        picked = pick(text.getvalue().encode())
        assert picked is not None
        assert (next(csv.reader([picked.decode()], delimiter=between)) or [""]) == [row[place] for place in places]


@pytest.mark.parametrize("line", [b"1,2", b"1,2,3,4", b'1,"2"x,3', b'1,"2,3', b'"1,2,3', b""])
def test_should_not_pick_from_a_line_that_does_not_fit(line: bytes) -> None:
    assert picker(Columns((2, 0), 3))(line) is None


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(st.text(alphabet='ab,;\t"\n', max_size=5), min_size=2, max_size=2), max_size=6),
    between=st.sampled_from(",;\t"),
)
def test_should_never_take_a_line_within_a_value_for_a_record(rows, between) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", delimiter=between).writerows(rows)
    lines = text.getvalue().encode().split(b"\n")[:-1]
    inner, number = set(), 0
    for row in rows:
        size = sum(value.count("\n") for value in row)
        inner |= set(range(number + 1, number + size + 1))
        number += size + 1
    assert inner <= set(OpenQuotes(between.encode()).within(lines))
    # And where every record is a line, none is lost.
    assert inner or not OpenQuotes(between.encode()).within(lines)


def test_should_know_an_open_value_where_a_range_begins(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    lines = [b"id,name", b'1,"a', b"2,b", b'3,c"', b"4,d", b'5,"e', *[b"6,fff"] * (REACH_BYTES // 4)]
    file.write_bytes(b"\n".join(lines) + b"\n")
    for cut in (1, 2, 3, 4, 6, len(lines) - 5):
        start = sum(len(line) + 1 for line in lines[:cut])
        planned = LineRange(file=str(file), split="a", start_line=cut + 1, start_byte=start)
        read = pa.Table.from_batches(read_records(planned, ["id", "name"]))
        marked = [line for line, fault in zip(*(read[c].to_pylist() for c in ("line", FAULT)), strict=True) if fault]
        assert len(lines) not in marked
        assert [line for line in marked if line < 6] == [line for line in (3, 4) if line > cut]
        assert set(read[FAULT].to_pylist()) <= {None, WITHIN}
        assert read[RECORD].null_count == len(read)


def write(
    file: Path, header: list[str], rows: list[dict], *, bom: str = "", end: str = "\r\n", delimiter: str = ","
) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, header, extrasaction="ignore", lineterminator=end, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    data = (bom + text.getvalue()).encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)


def records(numbers: range) -> list[dict]:
    return [{"id": n, "name": f'n "{n}", x', "note": f"{n + 100}"} for n in numbers]


@pytest.mark.parametrize(
    ("tail", "policy", "between"),
    [(False, "fail", ","), (True, "fail", "\t"), (False, "dead_letter", ","), (False, "skip", ";")],
)
def test_should_read_each_file_by_its_own_header(
    tmp_path: Path, options: RunOptions, tail: bool, policy: str, between: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    put = partial(write, delimiter=between)
    put(folder / "a.csv", ["id", "name"], records(range(3)))
    put(folder / "b.csv", ["name", "note", "id"], records(range(3, 6)), bom="\ufeff")
    put(folder / "c.csv.gz", ["note", "ID ", " Name"], [{"note": 1, "ID ": 6, " Name": "six"}], end="\n")
    put(folder / "d.csv", ["note", "name", "id"], [])
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("csv", "names").from_file(
        folder, "csv", schema="name string, id bigint", tail=tail, bad_records=policy, delimiter=between
    )
    pipeline = stream.to_memory(out).build()
    assert pipeline.run(options).rows_in == 7
    put(folder / "e.csv", ["name", "id"], records(range(7, 9)))
    assert pipeline.run(options).rows_in == 2
    wanted = [{"name": row["name"], "id": row["id"]} for row in records(range(9))]
    wanted[6]["name"] = "six"
    assert sorted(out.rows(), key=lambda row: row["id"]) == wanted


def test_should_name_the_line_that_does_not_fit_its_header(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "a.csv").write_text("name,id\nx,1\ny\n")
    stream = StreamBuilder.data_stream("csv", "fit").from_file(tmp_path / "a.csv", "csv", schema=SCHEMA)
    with pytest.raises(BadRecordError, match="its columns are not those of the header") as refused:
        stream.to_memory(MemoryChannel()).build().run(options)
    assert refused.value.facts["line"] == 3


@pytest.mark.parametrize("tail", [False, True])
def test_should_refuse_a_missing_column_before_a_row_is_read(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    (tmp_path / "a.csv").write_text("name,country\nx,de\n")
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("csv", "header").from_file(
        tmp_path / "a.csv", "csv", schema="name string, city string", tail=tail, bad_records="dead_letter"
    )
    with pytest.raises(SourceReadError, match="the header has no column 'city'"):
        stream.to_memory(out).build().run(options)
    assert out.rows() == []


def test_should_never_pass_lines_of_a_value_as_records(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "a.csv").write_text('id,name\n1,"a\n2,b\n3,c"\n4,d\n')
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("csv", "within").from_file(
        tmp_path / "a.csv", "csv", schema=SCHEMA, tail=True, bad_records="skip", max_rows_per_batch=1
    )
    report = stream.to_memory(out).build().run(options)
    assert out.rows() == [{"id": 4, "name": "d"}]
    assert report.rows_dead == 3


def test_should_refuse_a_file_of_another_order_that_comes_while_spark_reads_by_place(tmp_path: Path, spark) -> None:
    file = tmp_path / "b.csv"
    file.write_text("name,id\nx,1\n")
    planned = PlannedFile(path=file.as_uri(), modified_ms=modified_ms(file.stat()), batch=0)
    with pytest.raises(SourceReadError, match="in another order than those of earlier files"):
        FileWatch([planned], batch_id=0, counted=True, form=LineFormat("csv"), cap=1 << 20, schema=SCHEMA)
    form = LineFormat("csv", StructType.fromDDL(SCHEMA))
    rows = read_stream(spark, name="place", path=str(tmp_path), form=form)
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "_c")).start()
    with pytest.raises(StreamingQueryException, match="FAILED_READ_FILE.*b.csv"):
        query.processAllAvailable()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    columns=st.permutations(["id", "name", "note"]),
    rows=st.lists(st.lists(VALUE, min_size=3, max_size=3), max_size=5),
    wanted=st.permutations(["id", "name", "note"]).flatmap(lambda names: st.integers(1, 3).map(lambda n: names[:n])),
    bom=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    blank=st.integers(0, 2),
    cut=st.integers(0, 7),
    packed=st.booleans(),
)
def test_should_read_files_as_pythons_dict_reader(
    tmp_path, columns, rows, wanted, bom, end, blank, cut, packed
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows([columns, *rows])
    lines = [*[end] * blank, *text.getvalue().splitlines(keepends=True)]
    content = (b"\xef\xbb\xbf" if bom else b"") + "".join(lines).encode()
    file = tmp_path / ("a.csv.gz" if packed else "a.csv")
    file.write_bytes(gzip.compress(content) if packed else content)
    # A range that ends and another that begins between two lines.
    ends = [0, *(place + 1 for place, byte in enumerate(content) if byte == 10)]
    cut = min(cut, len(ends) - 1)
    first = LineRange(file=str(file), split="a", end_byte=ends[cut], end_line=cut)
    second = LineRange(file=str(file), split="a", start_line=cut + 1, start_byte=ends[cut])
    found = [
        (row["record"] if row["record"] is not None else row["value"]).decode()
        for planned in (first, second)
        for batch in read_records(planned, wanted)
        for row in batch.to_pylist()
        if row["value"].strip() and row[FAULT] is None
    ]
    read = [next(csv.reader([line]), [""]) or [""] for line in found]
    assert read == [
        [row[name] for name in wanted] for row in csv.DictReader(io.StringIO("".join(lines).lstrip("\r\n"))) if row
    ]

"""CSV columns are matched by place: a header that says otherwise is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.engine.source.header import check_header, header_of
from rs_assets.errors import SourceReadError
from rs_assets.pipeline.runtime.options import RunOptions


@pytest.mark.parametrize(
    ("header", "schema"),
    [
        ("a,b\n", "a bigint, b string"),
        ("\ufeffA, B \r\n1,2\r\n", "a bigint, b string"),
        ("a,b\n", "x bigint, y string"),
        ("a,b,c\n", "a bigint, b string"),
        ("a,a\n", "a bigint, b string"),
        ("", "a bigint"),
        ("b,a\n", "a varchar(3), b string"),
        ("b,a\n", None),
    ],
)
def test_names_at_their_places_and_other_names_are_taken(tmp_path: Path, header: str, schema: str | None) -> None:
    (tmp_path / "a.csv").write_text(header, encoding="utf-8")
    check_header(tmp_path / "a.csv", schema)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("header", ["b,a\n1,2\n", "\n \nid,a,b\n", '"b","a"\n', "b,a"])
def test_a_field_at_another_place_is_refused(tmp_path: Path, header: str, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(header.encode()) if name.endswith("gz") else header.encode())
    with pytest.raises(SourceReadError, match="which is column") as refused:
        check_header(file, "a bigint, b string")
    assert refused.value.facts["file"] == file
    assert ", ".join(header_of(file)) in refused.value.remedy


@pytest.mark.parametrize("tail", [False, True])
def test_a_swapped_header_is_refused_before_a_row_is_read(tmp_path: Path, options: RunOptions, tail: bool) -> None:
    (tmp_path / "a.csv").write_text("name,country\nx,de\n")
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("csv", "header").from_file(
        tmp_path / "a.csv", "csv", schema="country string, name string", tail=tail, bad_records="dead_letter"
    )
    with pytest.raises(SourceReadError, match="field 1 of the schema is 'country', which is column 2"):
        stream.to_memory(out).build().run(options)
    assert out.rows() == []

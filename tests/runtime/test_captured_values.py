"""Values of captured rows: JSON and back gives the same value of the same type. No Spark."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rs_assets.connectors.memory.nodes import ArraySource
from rs_assets.errors import ConfigurationError, SchemaError
from rs_assets.records.ddl import arrow_schema
from rs_assets.records.rows import as_dicts, to_table
from rs_assets.records.values import same
from rs_assets.runtime.capture.folder import Captured, read_rows, write_rows
from rs_assets.runtime.capture.masks import Masks
from rs_assets.runtime.capture.values import comparable, plain, typed_rows

MOMENTS = st.datetimes()
# Arrow takes text without lone surrogates only.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "tinyint": st.integers(-128, 127),
    "boolean": st.booleans(),
    "double": st.floats(),
    "float": st.floats(width=32),
    "string": TEXTS,
    "binary": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": MOMENTS.map(lambda at: at.replace(tzinfo=UTC)),
    "timestamp_ntz": MOMENTS,
    "decimal(20,4)": st.decimals(-(10**15), 10**15, places=4),
}
Typed = tuple[str, st.SearchStrategy[Any]]


def nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def array(kind: Typed) -> Typed:
        return f"array<{kind[0]}>", st.lists(st.none() | kind[1], max_size=3)

    def struct(kinds: tuple[Typed, Typed]) -> Typed:
        (one, first), (other, second) = kinds
        return f"struct<a:{one},`b c`:{other}>", st.fixed_dictionaries({"a": st.none() | first, "b c": second})

    def mapped(kinds: tuple[str, Typed]) -> Typed:
        key, (kind, values) = kinds
        return f"map<{key},{kind}>", st.dictionaries(VALUES[key], st.none() | values, max_size=3)

    keys = st.sampled_from(["string", "bigint", "date", "timestamp", "binary", "decimal(20,4)"])
    return st.one_of(inner.map(array), st.tuples(inner, inner).map(struct), st.tuples(keys, inner).map(mapped))


TYPES = st.recursive(st.sampled_from(sorted(VALUES.items(), key=lambda each: each[0])), nested, max_leaves=4)


@given(st.data())
def test_rows_become_json_and_the_same_rows_again(data: st.DataObject) -> None:
    kind, values = data.draw(TYPES)
    schema = arrow_schema(f"v {kind}")
    assert schema is not None
    rows = as_dicts(to_table([{"v": each} for each in data.draw(st.lists(st.none() | values, max_size=4))], schema))
    lines = [json.loads(json.dumps(plain(row), allow_nan=False)) for row in rows]
    again = as_dicts(to_table(typed_rows(lines, schema), schema))
    assert len(again) == len(rows)
    assert all(same(one["v"], other["v"]) for one, other in zip(rows, again, strict=True))
    # Also as text, since equal numbers may have other signs or digits.
    assert repr(again) == repr(rows)
    assert list(map(comparable, lines)) == list(map(comparable, rows))


def test_a_file_has_a_line_for_each_row_whatever_its_texts_hold(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"page": "a\nb\u2028c\x85d\r"}, {"page": None}, {}]
    write_rows(tmp_path / "rows" / "one.jsonl", rows)
    assert (tmp_path / "rows" / "one.jsonl").read_bytes().count(b"\n") == 3
    assert read_rows(tmp_path / "rows" / "one.jsonl") == rows
    assert read_rows(tmp_path / "none.jsonl") == []


def test_rows_are_compared_by_value_and_without_rounding_of_sums() -> None:
    assert comparable({"n": 0.1 + 0.2, "m": -0.0}) == comparable({"m": 0.0, "n": 0.3, "page": None})
    assert comparable({"n": 0.3001}) != comparable({"n": 0.3})
    assert comparable({"n": float("nan")}) == comparable({"n": "nan"})
    assert comparable({"at": datetime(2026, 1, 5, tzinfo=UTC)}) == comparable({"at": "2026-01-05T00:00:00+00:00"})
    assert comparable({"price": Decimal("1E+3"), "on": date(2026, 1, 5)}) == '{"on": "2026-01-05", "price": "1000"}'


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="a value of type timedelta cannot be captured"):
        plain({"took": timedelta(seconds=1)})


def test_a_schema_that_only_spark_can_read_is_refused_and_taken_with_text() -> None:
    from rs_assets.runtime.capture.reading import ddl_of

    source, unread = ArraySource(name="read", schema="id int, more variant"), cast("Any", None)
    with pytest.raises(SchemaError, match="records of 'read' cannot be captured: id int, more variant"):
        ddl_of(source, unread)
    assert ddl_of(ArraySource(name="read", schema="id int, more string"), unread) == "id int, more string"


def test_masks_replace_texts_by_digests_and_keep_what_is_equal() -> None:
    schema = arrow_schema("email string, tags array<string>, user struct<name:string,age:int>, ms int")
    masks = Masks.of(["email", "tags", "user"])
    masks.check({"read": schema})
    row = {"email": "a@b.c", "tags": ["a@b.c", None], "user": {"name": "grace", "age": 7}, "ms": 1}
    made = masks.row(row)
    assert made["tags"] == [made["email"], None]
    assert (made["ms"], made["user"]["age"], len(made["user"]["name"])) == (1, 7, 16)
    assert "grace" not in repr(made)  # digests are hexadecimal: they may hold "ada"
    assert "a@b.c" not in repr(made)
    assert masks.row({"email": None}) == {"email": None}
    assert Masks.of(["email"]).row(row)["email"] != made["email"]


def test_masks_replace_texts_of_maps_whose_rows_are_pairs() -> None:
    schema = arrow_schema("tags map<string,string>, places map<string,array<string>>, ms int")
    assert schema is not None
    tags, places = [("mail", "a@b.c"), ("mail", "d@e.f")], [("home", ["Rome"])]
    pairs = pa.table({"tags": [tags], "places": [places], "ms": [1]}, schema)
    # A key that is there twice does not fit into a dict: the maps of all rows are then lists of pairs.
    (row,) = as_dicts(pairs)
    masks = Masks.of(["tags", "places"])
    made = masks.row(row)
    assert [key for key, _ in made["tags"]] == ["mail", "mail"]
    assert not [text for text in ("a@b.c", "d@e.f", "Rome") if text in repr(made)]
    assert made["ms"] == 1
    assert [*masks.left({"read": schema})] == [
        "keys of maps in the masked field 'tags' stay as they are",
        "keys of maps in the masked field 'places' stay as they are",
    ]
    assert [*Masks.of(["ms"]).left({"read": schema})] == []


def test_a_field_with_text_in_one_of_several_sources_is_masked() -> None:
    text, number = pa.schema([("user", pa.string())]), pa.schema([("user", pa.int64())])
    Masks.of(["user"]).check({"orders": text, "visits": number})
    Masks.of(["user"]).check({"visits": number, "orders": text})


@pytest.mark.parametrize("field", ["ms", "unknown"])
def test_a_field_without_text_is_not_masked_and_another_one_is(field: str) -> None:
    schemas = {"read": pa.schema([("email", pa.string()), ("ms", pa.int64())])}
    with pytest.raises(ConfigurationError, match=f"{field!r} cannot be masked") as refused:
        Masks.of([field]).check(schemas)
    assert refused.value.remedy == "mask some of: email"
    Masks.of("email").check(schemas)


@pytest.mark.parametrize("line", ['{"id": 2,}', "[2]"])
def test_a_line_that_was_changed_and_does_not_parse_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"id": 1}}\n{line}\n')
    with pytest.raises(ConfigurationError, match="a captured batch cannot be read") as refused:
        read_rows(file)
    assert (refused.value.facts["file"], refused.value.facts["line"]) == (file, 2)
    file.write_text('{"id": 1}\n{"id": 2}\n')
    assert read_rows(file) == [{"id": 1}, {"id": 2}]
    (tmp_path / "capture.json").write_text("{")
    with pytest.raises(ConfigurationError, match="a captured batch cannot be read"):
        Captured.read(tmp_path)


def test_a_folder_without_a_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no captured batches"):
        Captured.read(tmp_path)

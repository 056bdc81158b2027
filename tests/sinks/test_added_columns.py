"""A Delta table whose rows get further fields: it is refused, or it gets them as columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Schema as DeltaSchema

from rs_assets import EventTimePartitions, MemoryChannel, StreamBuilder, Time, pipeline_from_sql
from rs_assets.connectors.delta.table_rules import NAMED
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import SinkError, TopologyError

THEIRS = """[{"name": "theirs", "type": "string", "nullable": true, "metadata": {}}, {"name": "kinds", "type":
    {"type": "array", "elementType": "long", "containsNull": true}, "nullable": true, "metadata": {}}]"""
SCHEMA = "id bigint, page string, n bigint, ts timestamp"


@pytest.fixture
def source():
    return MemoryChannel(schema=SCHEMA)


def row(number, page="a", n=1):
    return {"id": number, "page": page, "n": n, "ts": f"2026-01-05 10:0{number}:00"}


def rows_of(options, name="kept"):
    found = DeltaTable(options.home.table("shop", name)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda each: each["id"])


def writing(source, *fields, **how):
    rows = StreamBuilder.data_stream("shop", "fields").from_memory(source).map(*fields)
    return rows.to_delta("kept", added_columns="add", **how).build()


KINDS = {
    "append": {},
    "jvm": {"connector": "jvm"},
    "upsert": {"mode": "upsert", "keys": ["id"]},
    "upsert by the JVM": {"mode": "upsert", "keys": ["id"], "connector": "jvm"},
    "history": {"mode": "history", "keys": ["id"], "time_field": "ts"},
    "partitions": {"partition_by": ["page"]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_gets_the_fields_that_it_lacks_and_rows_the_columns(source, options, kind):
    first = ("id", "page", "ts")
    wide = (*first, "n", "named_struct('low', n, 'tags', array(page)) AS deep")
    source.put(row(1))
    writing(source, *first, **KINDS[kind]).run(options)
    source.put(row(2, n=7))
    assert writing(source, *wide, **KINDS[kind]).run(options).rows_out == 1
    source.put(row(3))
    assert writing(source, *first, **KINDS[kind]).run(options).rows_out == 1
    assert [(each["id"], each["n"], each["deep"]) for each in rows_of(options)] == [
        (1, None, None),
        (2, 7, {"low": 7, "tags": ["a"]}),
        (3, None, None),
    ]


def test_a_row_that_is_replaced_by_one_without_a_field_has_a_null(source, options):
    how = KINDS["upsert"]
    source.put(row(1, n=5), row(2, n=6))
    writing(source, "id", "n", **how).run(options)
    source.put(row(1, page="b"))
    writing(source, "id", "page", **how).run(options)
    assert rows_of(options) == [{"id": 1, "n": None, "page": "b"}, {"id": 2, "n": 6, "page": None}]


def test_a_rewind_removes_rows_with_the_new_field_and_the_next_batch_has_it_again(source, options):
    source.put(row(1))
    writing(source, "id").run(options)
    wide = writing(source, "id", "n")
    for number in (2, 3):
        source.put(row(number, n=number))
        wide.run(options)
    wide.rewind(0, options)
    assert [each["id"] for each in rows_of(options)] == [1]
    assert wide.run(options).rows_out == 2
    assert [(each["id"], each["n"]) for each in rows_of(options)] == [(1, None), (2, 2), (3, 3)]


def test_a_new_generation_has_all_fields(source, options):
    source.put(row(1, n=4))
    writing(source, "id", "page").run(options)
    writing(source, "id", "n").run(replace(options, new_generation=True))
    assert rows_of(options) == [{"id": 1, "page": None, "n": 4}]


def test_a_killed_batch_has_its_columns_and_its_rows_once(source, options, monkeypatch):
    source.put(row(1))
    writing(source, "id").run(options)
    source.put(row(2, n=8))
    with monkeypatch.context() as patch:
        patch.setattr("rs_assets.connectors.delta.writer.DeltaWriter._add", lambda *_: 1 / 0)
        with pytest.raises(Exception, match="division"):
            writing(source, "id", "n").run(options)
    assert writing(source, "id", "n").run(options).rows_out == 1
    assert rows_of(options) == [{"id": 1, "n": None}, {"id": 2, "n": 8}]


def test_a_backfill_gives_closed_partitions_the_field(source, options):
    hours = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(0))
    source.put(row(1, n=3), {**row(2), "ts": "2026-01-05 12:00:00"})
    writing(source, "id", "ts", partitions=hours).run(options)
    wide = writing(source, "id", "ts", "n", partitions=hours)
    assert [each.rows for each in wide.backfill("2026-01-05-10:00", options)] == [1]
    assert [(each["id"], each["n"]) for each in rows_of(options)] == [(1, 3), (2, None)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_comes_between_staging_and_commit_is_null(source, options, monkeypatch, kind):
    fields, stage = ("id", "page", "ts"), DeltaWriter.stage

    def with_rival(writer, batch, mark):
        staged = stage(writer, batch, mark)
        text = DeltaSchema.from_json('{"type": "struct", "fields": ' + THEIRS + "}").fields
        DeltaTable(writer.path).alter.add_columns(text)
        return staged

    source.put(row(1))
    writing(source, *fields, **KINDS[kind]).run(options)
    monkeypatch.setattr(DeltaWriter, "stage", with_rival)
    source.put(row(1, page="b"), row(2))
    assert writing(source, *fields, **KINDS[kind]).run(options).rows_out == 2
    assert {(each["id"], each["theirs"], each["kinds"]) for each in rows_of(options)} == {
        (1, None, None),
        (2, None, None),
    }


# A history has columns of its own, which the table of another writer lacks.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "history"])
def test_a_table_that_another_writer_makes_between_staging_and_commit_gets_the_columns(
    source, options, monkeypatch, kind
):
    stage = DeltaWriter.stage

    def with_rival(writer, batch, mark):
        staged = stage(writer, batch, mark)
        theirs = pa.table({"id": [9], "page": ["z"], "theirs": ["t"]})
        write_deltalake(writer.path, theirs, partition_by=KINDS[kind].get("partition_by"))
        return staged

    monkeypatch.setattr(DeltaWriter, "stage", with_rival)
    source.put(row(1))
    assert writing(source, "id", "page", "n", **KINDS[kind]).run(options).rows_out == 1
    found = [(each["id"], each["page"], each["n"], each["theirs"]) for each in rows_of(options)]
    assert found == [(1, "a", 1, None), (9, "z", None, "t")]


@pytest.mark.parametrize("of_rows", [("id",), ("id", "page")], ids=["absent", "case"])
def test_a_column_of_the_partitions_is_not_made_up_whatever_its_case(source, options, of_rows):
    source.put(row(1))
    writing(source, "id", "page AS Page", partition_by=["Page"]).run(options)
    source.put(row(2))
    with pytest.raises(SinkError, match="differ: Page") as refused:
        writing(source, *of_rows).run(options)
    # The policy that these rows have is no remedy.
    assert refused.value.remedy == NAMED
    assert writing(source, "id", "page AS Page").run(options).rows_out == 1


def test_a_pipeline_that_reads_the_table_goes_on(source, options):
    seen = MemoryChannel()
    reading = StreamBuilder.data_stream("shop", "reads").from_delta("kept", schema="id bigint").to_memory(seen).build()
    source.put(row(1))
    writing(source, "id").run(options)
    reading.run(options)
    source.put(row(2))
    writing(source, "id", "n").run(options)
    reading.run(options)
    assert [each["id"] for each in seen.rows()] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "match"),
    [(("id", "CAST(n AS string) AS n"), "differ: n"), (("id", "n AS N"), "differ: N, n")],
    ids=["type", "case"],
)
def test_another_type_and_another_case_are_refused(source, options, fields, match):
    source.put(row(1))
    writing(source, "id", "n").run(options)
    source.put(row(2))
    with pytest.raises(SinkError, match=match):
        writing(source, *fields).run(options)
    assert [each["id"] for each in rows_of(options)] == [1]


@pytest.mark.canary
def test_without_the_policy_the_fields_are_refused_and_its_remedy_takes_them(source, options):
    source.put(row(1))
    writing(source, "id").run(options)
    source.put(row(2))
    rows = StreamBuilder.data_stream("shop", "fields").from_memory(source).map("id", "n")
    with pytest.raises(SinkError, match="differ: n") as refused:
        rows.to_delta("kept").build().run(options)
    assert "added_columns='add'" in refused.value.remedy
    assert rows.to_delta("kept", added_columns="add").build().run(options).rows_out == 1


def test_a_table_of_current_rows_and_sql_have_the_policy(source, options):
    rows = StreamBuilder.data_stream("shop", "fields").from_memory(source)
    table = rows.to_table("id").to_delta("kept", added_columns="add").build()
    statements = """CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/in/t', 'format' = 'json');
        CREATE TABLE b (id BIGINT) WITH ('connector' = 'delta', 'table' = 'b', 'added-columns' = 'add');
        INSERT INTO b SELECT id FROM t;"""
    made = pipeline_from_sql(statements, job="sql")
    assert (table.topology["kept_table"].added_columns, made.topology["b"].added_columns) == ("add", "add")


def test_another_word_is_refused(source):
    with pytest.raises(TopologyError, match="must be 'fail' or 'add', not 'merge'") as refused:
        StreamBuilder.data_stream("shop", "fields").from_memory(source).to_delta("kept", added_columns="merge").build()
    assert refused.value.remedy == "added_columns='add'"

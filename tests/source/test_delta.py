"""A Delta table as a source: each row once over restarts, batches read again, changes that are refused or read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import MemoryChannel, StreamBuilder, build_definitions
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.delta.log.versions import files_added
from rs_assets.dagster.sensors.inputs import ends_of, watched
from rs_assets.errors import (
    ConfigurationError,
    DataLossError,
    SchemaError,
    SealedError,
    SourceReadError,
    StepError,
    TopologyError,
)
from tests.unchanged import NoSpark

SCHEMA = "id bigint, page string"
PAGES = ["/", "/a", "/b"]


class Table:
    """A table of the namespace `shop`, and a pipeline that copies what it reads of it; each run into a new channel."""

    def __init__(self, options):
        self.options = options
        self.path = options.home.table("shop", "hits")

    def add(self, *ids, mode="append", **how):
        rows = pa.table({"id": pa.array(ids, pa.int64()), "page": [PAGES[each % 3] for each in ids]})
        write_deltalake(self.path, rows, mode=mode, **how)

    @property
    def table(self):
        return DeltaTable(self.path)

    def stream(self, **source):
        return StreamBuilder.data_stream("shop", "copy").from_delta("hits", **source)

    def run(self, change=lambda stream: stream, **source):
        out = MemoryChannel()
        change(self.stream(**source)).to_memory(out).build().run(self.options)
        return out.rows()

    def ids(self, **source):
        return sorted(row["id"] for row in self.run(**source))

    def lose(self, *versions):
        """Remove entries of the log, as tools and people do; what puts them back."""
        entries = [Path(self.path) / "_delta_log" / f"{version:020d}.json" for version in versions]
        lost = {entry: entry.read_bytes() for entry in entries}
        for entry in entries:
            entry.unlink()
        return lambda: [entry.write_bytes(content) for entry, content in lost.items()]

    def forget_last_commit(self):
        """As after a kill: the last batch was planned, and Spark has not committed it."""
        log = CheckpointLog(self.options.home.job("shop", "copy") / "g0001" / "delta" / "checkpoint")
        last = log.last_committed()
        for name in (str(last), f".{last}.crc"):
            (log.folder / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def table(options):
    return Table(options)


def test_should_read_the_rows_that_are_there_and_then_those_that_are_added(table):
    table.add(1, 2)
    table.add(3)
    assert table.run(schema=SCHEMA)[0].keys() == {"id", "page"}
    assert table.ids(schema=SCHEMA) == []
    table.add(4)
    table.add(5, 6)
    assert table.ids(schema=SCHEMA) == [4, 5, 6]


def test_a_run_without_a_new_version_should_start_no_spark(table):
    table.add(1, 2)
    assert table.ids(schema=SCHEMA) == [1, 2]
    driver, table.options = table.options.driver, replace(table.options, driver=NoSpark())
    assert table.ids(schema=SCHEMA) == []
    table.add(3)
    with pytest.raises(AssertionError, match="Spark was called"):
        table.ids(schema=SCHEMA)
    table.options = replace(table.options, driver=driver)
    assert table.ids(schema=SCHEMA) == [3]


def test_should_know_the_fields_of_the_table_where_none_are_declared(table):
    table.add(1)
    assert table.run() == [{"id": 1, "page": "/a"}]


def test_should_take_a_compaction_for_no_news(table):
    table.add(1)
    table.add(2)
    assert table.ids() == [1, 2]
    table.table.optimize.compact()
    table.add(3)
    assert table.ids() == [3]


def test_rows_that_come_after_the_end_are_refused_and_a_compaction_is_not(table):
    table.add(1)
    table.add(2)
    pipeline = table.stream().to_memory(MemoryChannel()).build()
    assert pipeline.run(table.options, finish=True).sealed
    table.table.optimize.compact()
    assert pipeline.run(table.options, finish=True).rows_in == 0
    table.table.delete("id = 1")
    table.add(3)
    with pytest.raises(SealedError, match="more of it"):
        pipeline.run(table.options, finish=True)
    assert pipeline.run(replace(table.options, new_generation=True)).rows_in == 2


@pytest.mark.parametrize(("starting", "first"), [(0, [1, 2, 3]), (2, [3])])
def test_should_begin_with_the_version_that_is_asked_for(table, starting, first):
    for number in (1, 2, 3):
        table.add(number)
    assert table.ids(starting_version=starting) == first


def test_should_read_a_batch_that_was_cut_off_again_and_no_other_rows(table):
    table.add(1)
    table.ids()
    table.add(2)
    assert table.ids() == [2]
    table.forget_last_commit()
    table.add(3)
    assert table.ids() == [2, 3]


@pytest.mark.parametrize("started", [False, True], ids=["in the first batch", "in a later one"])
def test_should_find_the_row_that_a_step_fails_on_when_it_reads_the_batch_again(table, started):
    table.add(1, 2)
    table.add(3)
    if started:
        table.ids()
        table.add(4, 5)
        table.table.optimize.compact()
        table.add(6)

    def wrong(row):
        return {"id": 1 // (row["id"] % 3)}

    def kept_apart(stream):
        return stream.map(wrong, schema="id bigint", trace=False)

    with pytest.raises(StepError, match="ZeroDivisionError"):
        table.run(kept_apart)
    table.options = replace(table.options, new_generation=not started)
    table.run(kept_apart, bad_records="quarantine")
    letters = dead_letters_of(table.options.home.dead_letters, "shop", "copy").to_pylist()
    found = [(row["split"], row["record"]) for row in letters]
    assert found == [("hits", f'{{"id":{number},"page":"/"}}') for number in ([6] if started else [3])]


def test_should_refuse_a_table_of_which_rows_were_changed(table):
    table.add(1, 2)
    table.ids()
    table.table.delete("id = 1")
    with pytest.raises(SourceReadError, match="rows of a table that is read were") as raised:
        table.ids()
    assert "changes=True" in raised.value.remedy


def test_run_table_that_was_made_anew_or_put_back_is_refused_until_a_new_generation(table):
    for each in (1, 2):
        table.add(each)
    backup = Path(shutil.copytree(table.path, f"{table.path}_backup"))
    table.add(3)
    assert table.ids() == [1, 2, 3]
    newest = Path(table.path).rename(f"{table.path}_newest")
    backup.rename(table.path)
    with pytest.raises(DataLossError, match="an older copy: it ends with version 1, and 2 was read"):
        table.ids()
    shutil.rmtree(table.path)
    for each in (5, 6, 7, 8):
        table.add(each)
    with pytest.raises(DataLossError, match="the table was replaced by a new one") as refused:
        table.ids()
    assert "--new-generation" in refused.value.remedy
    shutil.rmtree(table.path)
    newest.rename(table.path)
    table.add(4)
    assert table.ids() == [4]
    shutil.rmtree(table.path)
    table.add(9)
    table.options = replace(table.options, new_generation=True)
    assert table.ids() == [9]


def test_should_read_all_changes_by_the_change_feed(table):
    table.add(1, 2, configuration={"delta.enableChangeDataFeed": "true"})
    found = table.run(changes=True)
    assert [(row["id"], row["_change_type"], row["_commit_version"]) for row in found] == [
        (1, "insert", 0), (2, "insert", 0)
    ]  # fmt: skip
    table.table.delete("id = 1")
    table.add(3)
    told = sorted((row["_commit_version"], row["id"], row["_change_type"]) for row in table.run(changes=True))
    assert told == [(1, 1, "delete"), (2, 3, "insert")]
    table.forget_last_commit()
    table.add(4)
    assert [row["id"] for row in table.run(changes=True)] == [1, 3, 4]


def test_should_say_how_to_get_a_change_feed(table):
    table.add(1)
    with pytest.raises(SourceReadError, match="no change feed") as raised:
        table.run(changes=True)
    assert (
        "SET TBLPROPERTIES (delta.enableChangeDataFeed = true); then read from the next version" in raised.value.remedy
    )
    table.table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    table.add(2)
    found = table.run(changes=True, starting_version=table.table.version())
    assert [(row["id"], row["_change_type"]) for row in found] == [(2, "insert")]


def test_should_refuse_what_is_not_there(table):
    with pytest.raises(ConfigurationError, match="there is no Delta table at") as missed:
        table.run()
    assert "run the pipeline that writes it first" in missed.value.remedy
    table.add(1)
    with pytest.raises(SchemaError, match="has no column 'ms'") as raised:
        table.run(schema="id bigint, ms bigint")
    assert raised.value.remedy.startswith("declare the schema as the table has it: id bigint, page string; or")
    with pytest.raises(SchemaError, match="has 'id' as bigint"):
        table.run(schema="id int")
    assert table.ids(schema="id bigint, page string") == [1]
    table.add(2)
    assert table.ids() == [2]


@pytest.mark.parametrize("bad", [{"table": "hdfs://host/t"}, {"table": ""}, {"table": "t", "starting_version": -1}])
def test_should_refuse_what_is_no_table_and_no_version(bad):
    with pytest.raises(TopologyError):
        StreamBuilder.data_stream("shop", "copy").from_delta(**bad)


def test_should_not_read_what_it_writes():
    with pytest.raises(TopologyError, match="would read its own rows"):
        StreamBuilder.data_stream("shop", "copy").from_delta("hits", schema=SCHEMA).to_delta("hits").build()


def test_should_know_the_fields_of_the_feed_when_it_is_built():
    stream = StreamBuilder.data_stream("shop", "copy").from_delta("hits", schema=SCHEMA, changes=True)
    assert stream.filter("_change_type = 'insert' AND id > 1").to_print().build()
    with pytest.raises(TopologyError, match="'_commit'"):
        stream.filter("_commit > 1").to_print().build()


def test_should_show_its_first_rows(table, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(table.options.home.root))
    table.add(*range(9))
    assert len(table.stream().filter("page = '/'").preview(records=6)) == 2


def test_sensors_should_see_it_grow(table, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(table.options.home.root))
    table.add(1)
    topology = table.stream(schema=SCHEMA).to_print().build().topology
    assert ends_of(watched(topology)) == {"delta": {"hits": 1}}
    assert reader_of(topology["delta"]).ends(timedelta(0)) == {"hits": 1}


def test_its_asset_should_stand_on_that_of_the_table():
    written = StreamBuilder.data_stream("shop", "read").from_array([{"id": 1}]).to_delta("hits").build()
    copy = StreamBuilder.data_stream("shop", "copy").from_delta("hits", schema=SCHEMA).to_delta("large").build()
    specs = {spec.key.to_user_string(): spec for spec in build_definitions([written, copy]).resolve_all_asset_specs()}
    assert [dep.asset_key.to_user_string() for dep in specs["shop/copy/delta"].deps] == ["shop/read/hits"]


def test_should_read_a_table_with_a_renamed_column_in_a_new_generation(table, spark):
    table.add(1)
    assert table.ids() == [1]
    properties = "'delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
    spark.sql(f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES ({properties})")
    spark.sql(f"ALTER TABLE delta.`{table.path}` RENAME COLUMN page TO site")
    with pytest.raises(SchemaError, match="has no column 'page'") as raised:
        table.run()
    assert "--new-generation" in raised.value.remedy
    table.options = replace(table.options, new_generation=True)
    assert table.run() == [{"id": 1, "site": "/a"}]
    table.options = replace(table.options, new_generation=False)
    spark.sql(f"ALTER TABLE delta.`{table.path}` DROP COLUMN site")
    spark.sql(f"ALTER TABLE delta.`{table.path}` ADD COLUMN site STRING")
    spark.sql(f"INSERT INTO delta.`{table.path}` VALUES (2, '/b')")
    with pytest.raises(SourceReadError, match="renamed, dropped or replaced"):
        table.run()


def test_should_find_the_files_of_a_version_while_the_log_is_kept(tmp_path):
    for days in (30, 0):
        path = str(tmp_path / f"{days}")
        for each in range(3):
            settings = {"delta.logRetentionDuration": f"interval {days} days"}
            write_deltalake(path, pa.table({"id": [each]}), mode="append", configuration=None if each else settings)
        DeltaTable(path).create_checkpoint()
        DeltaTable(path).cleanup_metadata()
    assert len(files_added(str(tmp_path / "30"), 1)) == 1
    with pytest.raises(DataLossError, match="version 1 of the table is gone from its log") as refused:
        files_added(str(tmp_path / "0"), 1)
    assert refused.value.remedy == "keep the log for longer: delta.logRetentionDuration"


def test_a_log_without_its_first_entries_is_refused_until_they_are_back_or_the_table_is_written_again(table):
    for each in (1, 2, 3):
        table.add(each)
    for lost, words in (((0, 1), "No table metadata"), ((1,), "found gap")):
        put_back = table.lose(*lost)
        with pytest.raises(SourceReadError, match=f"the table cannot be read: .*{words}") as refused:
            table.ids()
        assert "put them back, or write the table again and begin a new generation" in refused.value.remedy
        put_back()
    assert table.ids() == [1, 2, 3]
    table.lose(0)
    shutil.rmtree(table.path)
    table.add(1, 2, 3)
    table.options = replace(table.options, new_generation=True)
    assert table.ids() == [1, 2, 3]


@pytest.mark.parametrize("source", [{}, {"changes": True}, {"starting_version": 1}], ids=["rows", "changes", "version"])
def test_entries_of_the_log_may_go_when_they_are_read_and_are_named_before(table, source):
    first = source.get("starting_version", 0)
    for each in range(3):
        table.add(each, configuration=None if each else {"delta.enableChangeDataFeed": "true"})
    assert table.ids(**source) == [*range(first, 3)]
    table.add(3)
    assert table.ids(**source) == [3]
    table.table.create_checkpoint()
    table.add(4)
    table.lose(0, 1, 2)
    assert table.ids(**source) == [4]
    table.add(5)
    table.add(6)
    table.table.create_checkpoint()
    table.add(7)
    put_back = table.lose(3, 4, 5)
    with pytest.raises(DataLossError, match="the log of the table has lost versions 4 to 5") as refused:
        table.ids(**source)
    put_back()
    assert table.ids(**source) == [5, 6, 7]
    table.lose(3, 4, 5)
    table.add(8)
    with pytest.raises(DataLossError, match="has lost version 5,"):
        table.ids(**source)
    table.options = replace(table.options, new_generation=True)
    if not source:
        assert "which reads all rows of the existing table" in refused.value.remedy
        assert table.ids() == [*range(9)]
        return
    assert "starting_version=6, which leaves out what came before" in refused.value.remedy
    with pytest.raises(SourceReadError, match="has no version 9: it ends with version 8") as early:
        table.ids(**{**source, "starting_version": 9})
    assert early.value.remedy.endswith("starting_version=8")
    assert table.ids(**{**source, "starting_version": 8}) == [8]

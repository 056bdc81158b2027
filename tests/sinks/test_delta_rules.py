"""A table is written by its own rules: each is kept, or the batch is refused before a file is written."""

import json
import resource
import threading
import uuid
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from rs_assets.catalog.compaction import compact_table
from rs_assets.connectors.delta.table import sink_errors
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import LeaseLostError, SinkError
from tests.sinks.frames import ArrowFrame, mark, numbers, write

N = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
MODES = {"append": (), "upsert": ("n",), "complete": ()}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


def read(path):
    return sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist())


def made(path, *features, column=None, partition_by=(), **configuration):
    """An empty table with features of the newer kind, as another engine makes it."""
    log = Path(path, "_delta_log")
    log.mkdir(parents=True)
    schema = json.dumps({"type": "struct", "fields": [N | (column or {})]})
    about = {"id": str(uuid.uuid4()), "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    about |= {"partitionColumns": list(partition_by), "configuration": configuration, "createdTime": 0}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}
    if set(features) & {"columnMapping", "deletionVectors"}:
        protocol |= {"minReaderVersion": 3, "readerFeatures": list(features)}
    lines = [
        {"protocol": protocol},
        {"metaData": about},
        {"commitInfo": {"timestamp": 0, "operation": "CREATE TABLE", "operationParameters": {}}},
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
    return path


FORBIDDEN = {
    "rowTracking": {},
    "clustering": {},
    "icebergCompatV2": {},
    "allowColumnDefaults": {},
    "columnMapping": {"delta.columnMapping.mode": "name"},
    "generatedColumns": {"column": {"metadata": {"delta.generationExpression": "1 + 1"}}},
    "identityColumns": {"column": {"metadata": {"delta.identity.start": 1}}},
    "invariants": {"column": {"metadata": {"delta.invariants": '{"expression": {"expression": "n > 0"}}'}}},
    "appendOnly": {"column": {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}}},
}


@pytest.mark.parametrize("feature", FORBIDDEN)
@pytest.mark.parametrize("mode", MODES)
def test_a_table_with_rules_that_nobody_would_keep_is_refused_by_name(path, mode, feature):
    given = dict(FORBIDDEN[feature])
    if feature == "columnMapping":
        given["column"] = {"metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}}
    made(path, feature, column=given.pop("column", None), **given)
    writer = DeltaWriter("rows", path, mode, MODES[mode])
    assert not writer.committed(mark(0))
    with pytest.raises(SinkError) as caught:
        writer.stage(numbers(1), mark(0))
    names = {"columnMapping": "columnMapping", "generatedColumns": "generated column", "appendOnly": "length limit"}
    names |= {"identityColumns": "identity", "invariants": "invariant"}
    assert names.get(feature, feature) in str(caught.value)
    assert "jvm" in caught.value.remedy
    assert [f.name for f in Path(path).iterdir()] == ["_delta_log"]


@pytest.mark.parametrize("feature", ["changeDataFeed", "checkConstraints", "deletionVectors"])
@pytest.mark.parametrize("mode", MODES)
def test_features_that_ask_for_nothing_are_served(path, mode, feature):
    made(path, feature, **({"delta.enableChangeDataFeed": "true"} if feature == "changeDataFeed" else {}))
    writer = DeltaWriter("rows", path, mode, MODES[mode])
    assert [write(writer, numbers(n, n + 1), mark(n)) for n in range(2)] == [2, 2]
    assert DeltaTable(path).count() == {"append": 4, "upsert": 3, "complete": 2}[mode]


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_constraints_are_refused_by_name(path, mode):
    writer = DeltaWriter("rows", path, mode)
    write(writer, numbers(9), mark(0))
    DeltaTable(path).alter.add_constraint({"small": "n < 10"})
    writer.committed(mark(1))
    with pytest.raises(SinkError, match="small"):
        writer.stage(numbers(10), mark(1))


def test_an_upsert_is_checked_by_delta_itself(path):
    write_deltalake(path, pa.table({"n": pa.array([1], pa.int64())}))
    DeltaTable(path).alter.add_constraint({"small": "n < 10"})
    writer = DeltaWriter("rows", path, "upsert", ("n",))
    assert write(writer, numbers(9), mark(0)) == 1
    with pytest.raises(SinkError, match="Delta refused"):
        write(writer, numbers(10), mark(1))
    assert read(path) == [1, 9]


@pytest.mark.parametrize("mode", ["upsert", "complete"])
def test_a_table_that_takes_rows_only_is_not_replaced(path, mode):
    DeltaTable.create(path, pa.schema([("n", pa.int64())]), configuration={"delta.appendOnly": "true"})
    assert write(DeltaWriter("rows", path), numbers(1), mark(0)) == 1
    writer = DeltaWriter("other", path, mode, MODES[mode])
    writer.committed(mark(0, sink="other"))
    with pytest.raises(SinkError, match=r"delta.appendOnly|another writer has written"):
        writer.stage(numbers(2), mark(0, sink="other"))


@pytest.mark.parametrize("mode", MODES)
def test_nulls_are_refused_where_the_table_allows_none(path, mode):
    DeltaTable.create(path, Schema([Field("n", PrimitiveType("long"), nullable=False)]))
    writer = DeltaWriter("rows", path, mode, MODES[mode])
    assert write(writer, numbers(1, 2), mark(0)) == 2
    with pytest.raises(SinkError):
        write(writer, numbers(3, None), mark(1))
    assert read(path) == [1, 2]


def test_what_a_batch_happens_not_to_have_is_no_rule_of_its_table(path):
    member = pa.struct([pa.field("m", pa.int64(), nullable=False)])
    strict = pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False),
            pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
            pa.field("more", pa.map_(pa.string(), pa.field("value", member, nullable=False))),
            pa.field("at", pa.timestamp("us")),
        ]
    )
    for mode, keys in MODES.items():
        where = f"{path}-{mode}"
        writer = DeltaWriter("rows", where, mode, keys)
        row = {"n": 1, "tags": ["a"], "more": {"k": {"m": 1}}, "at": None}
        write(writer, ArrowFrame(pa.Table.from_pylist([row], schema=strict), 1), mark(0))
        text = DeltaTable(where).schema().to_json()
        assert '"nullable":false' not in text
        assert '"containsNull":false' not in text
        assert '"valueContainsNull":false' not in text
        loose = pa.schema(
            [("n", pa.int64()), ("tags", pa.list_(pa.string())), (strict.field("more")), strict.field("at")]
        )
        row = {"n": 2, "tags": [None], "more": None, "at": None}
        assert write(writer, ArrowFrame(pa.Table.from_pylist([row], schema=loose), 1), mark(1)) == 1


def test_nested_nulls_are_refused_where_an_older_table_allows_none(path):
    tags = pa.list_(pa.field("element", pa.string(), nullable=False))
    DeltaTable.create(path, pa.schema([("tags", tags)]))
    writer = DeltaWriter("rows", path)
    assert write(writer, ArrowFrame(pa.table({"tags": pa.array([["a"]], tags)}), 1), mark(0)) == 1
    writer.committed(mark(1))
    with pytest.raises(SinkError, match="and of the rows differ: tags"):
        writer.stage(ArrowFrame(pa.table({"tags": [["a", None]]}), 1), mark(1))


@pytest.mark.parametrize("given", [(), ("n",)])
def test_partitions_that_differ_are_refused(path, given):
    DeltaTable.create(path, pa.schema([("n", pa.int64()), ("page", pa.string())]), partition_by=["page"])
    writer = DeltaWriter("rows", path, partition_by=given)
    writer.committed(mark(0))
    if given:
        with pytest.raises(SinkError, match="partitioned by page, not by n"):
            writer.stage(numbers(1, page=["a"]), mark(0))


ANY = pa.schema([("n", pa.int64()), ("page", pa.string())])
NOT_NULL = Schema([Field("n", PrimitiveType("long"), nullable=False), Field("page", PrimitiveType("string"))])
MADE_MEANWHILE = {
    "partitioned": ({"schema": ANY, "partition_by": ["page"]}, 1),
    "nulls": ({"schema": NOT_NULL}, None),
}


@pytest.mark.parametrize("meanwhile", MADE_MEANWHILE)
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_files_that_were_staged_for_another_table_are_refused(path, mode, meanwhile):
    made_as, n = MADE_MEANWHILE[meanwhile]
    writer = DeltaWriter("rows", path, mode)
    assert not writer.committed(mark(0))
    staged = writer.stage(numbers(n, page=["a"]), mark(0))
    DeltaTable.create(path, **made_as)
    with pytest.raises(SinkError, match="since the batch was staged|allows no nulls"):
        staged.commit()
    assert DeltaTable(path).count() == 0


@pytest.mark.parametrize("way", ["filtered out", "NOT NULL dropped"])
def test_what_the_refusal_of_nulls_advises_is_taken(path, way):
    writer = DeltaWriter("rows", path)
    assert not writer.committed(mark(0))
    staged = writer.stage(numbers(None, page=["a"]), mark(0))
    DeltaTable.create(path, NOT_NULL)
    with pytest.raises(SinkError, match="allows no nulls") as refused:
        staged.commit()
    assert refused.value.remedy == "filter them out before the sink, or drop NOT NULL from the table"
    if way == "NOT NULL dropped":
        DeltaTable.create(path, ANY, mode="overwrite")
    again = DeltaWriter("rows", path)
    assert not again.committed(mark(0))
    assert again.stage(numbers(None if way == "NOT NULL dropped" else 1, page=["a"]), mark(0)).commit() == 1


def test_a_table_that_is_split_anew_between_staging_and_commit_keeps_its_values(path):
    writer = DeltaWriter("rows", path)
    assert [write(writer, numbers(n, page=["a"]), mark(n)) for n in range(3)] == [1, 1, 1]
    writer.committed(mark(3))
    staged = writer.stage(numbers(3, page=["b"]), mark(3))
    rows = DeltaTable(path).to_pyarrow_table()
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["page"])
    with pytest.raises(SinkError, match="WRITE by another writer in version 3"):
        staged.commit()
    assert DeltaTable(path).to_pyarrow_table(filters=[("page", "=", "a")]).num_rows == DeltaTable(path).count() == 3


class TestOthers:
    """Whose rows a table holds."""

    def refused(self, writer, at, match):
        writer.committed(at)
        with pytest.raises(SinkError, match=match) as caught:
            writer.stage(numbers(9), at)
        assert "move this one away" in caught.value.remedy

    @pytest.mark.parametrize("first", ["append", "foreign"])
    def test_complete_does_not_replace_rows_of_others(self, path, first):
        if first == "append":
            write(DeltaWriter("rows", path), numbers(1), mark(0, pipeline="p2"))
        else:
            write_deltalake(path, pa.table({"n": [1]}))
        self.refused(DeltaWriter("rows", path, "complete"), mark(0), "complete would replace.*version 0")
        assert read(path) == [1]

    def test_complete_notices_others_that_come_later(self, path):
        writer = DeltaWriter("rows", path, "complete")
        assert [write(writer, numbers(n), mark(n)) for n in range(2)] == [1, 1]
        write_deltalake(path, pa.table({"n": [7]}), mode="append")
        self.refused(writer, mark(2), "version 2: WRITE")
        self.refused(DeltaWriter("rows", path, "complete"), mark(2), "version 2: WRITE")
        assert read(path) == [1, 7]

    def test_what_is_nobodys_rows_is_no_reason(self, path):
        DeltaTable.create(path, pa.schema([("n", pa.int64())]))
        writer = DeltaWriter("rows", path, "complete")
        write(writer, numbers(1), mark(0))
        compact_table(DeltaTable(path), retention=timedelta(days=7))
        DeltaTable(path).delete("n = 1")
        assert write(writer, numbers(2), mark(1)) == 1
        assert write(DeltaWriter("rows", path, "complete"), numbers(3), mark(2)) == 1
        assert read(path) == [3]

    @pytest.mark.parametrize("other", ["p2/rows", "p1/more"])
    def test_a_new_generation_does_not_replace_rows_of_others(self, path, other):
        pipeline, sink = other.split("/")
        write(DeltaWriter("rows", path), numbers(1), mark(0))
        write(DeltaWriter(sink, path), numbers(2), mark(0, pipeline=pipeline, sink=sink))
        self.refused(
            DeltaWriter("rows", path), mark(0, generation=2), f"a new generation.*{sink} of pipeline {pipeline}"
        )
        assert read(path) == [1, 2]

    def cleaned(self, path, versions):
        DeltaTable(path).create_checkpoint()
        for version in range(versions):
            Path(path, "_delta_log", f"{version:020}.json").unlink()

    def test_a_history_that_was_cleaned_is_not_believed(self, path):
        """As an earlier release wrote it, without a word on who is alone."""
        write_deltalake(path, pa.table({"n": [0]}))
        writer = DeltaWriter("rows", path)
        for n in range(1, 5):
            write(writer, numbers(n), mark(n))
        self.cleaned(path, 3)
        self.refused(
            DeltaWriter("rows", path), mark(0, generation=2), "history does not say who wrote before version 3"
        )
        assert read(path) == [0, 1, 2, 3, 4]

    def test_a_table_that_is_all_ours_is_known_as_such_without_its_history(self, path):
        for n in range(5):
            write(DeltaWriter("rows", path), numbers(n), mark(n))
        self.cleaned(path, 4)
        assert write(DeltaWriter("rows", path), numbers(9), mark(0, generation=2)) == 1
        assert read(path) == [9]

    def test_a_writer_that_came_in_between_is_not_covered(self, path):
        writer = DeltaWriter("rows", path)
        write(writer, numbers(1), mark(0))
        writer.committed(mark(1))
        staged = writer.stage(numbers(2), mark(1))
        write_deltalake(path, pa.table({"n": [7]}), mode="append")
        staged.commit()
        write(DeltaWriter("rows", path), numbers(3), mark(2))
        self.refused(DeltaWriter("rows", path), mark(0, generation=2), "version 1: WRITE")


@pytest.mark.parametrize("second", MODES)
@pytest.mark.parametrize("first", MODES)
def test_two_first_commits_into_one_new_table(path, first, second):
    """Two sinks, or two pipelines at their first start: both looked before either wrote."""
    one, two = (DeltaWriter(name, path, mode, MODES[mode]) for name, mode in (("one", first), ("two", second)))
    marks = [mark(0, sink="one"), mark(0, sink="two")]
    staged = []
    for writer, frame, at in ((one, numbers(1, 2), marks[0]), (two, numbers(2, 3), marks[1])):
        assert not writer.committed(at)
        staged.append(writer.stage(frame, at))
    assert staged[0].commit() == 2
    if second == "complete":
        with pytest.raises(SinkError, match="another writer has written"):
            staged[1].commit()
        assert read(path) == [1, 2]
    else:
        assert staged[1].commit() == 2
        assert read(path) == ([1, 2, 3] if second == "upsert" else [1, 2, 2, 3])
        assert one.committed(marks[0])
        assert two.committed(marks[1])


@pytest.mark.parametrize("mode", MODES)
def test_two_drivers_of_one_token_cannot_both_make_the_table(path, mode):
    one, two = (DeltaWriter("rows", path, mode, MODES[mode]) for _ in range(2))
    staged = []
    for writer in (one, two):
        assert not writer.committed(mark(0))
        staged.append(writer.stage(numbers(1), mark(0)))
    # The second has cleared what the first one staged, as after its lease was lost.
    if mode == "upsert":
        assert staged[0].commit() == 1
        with pytest.raises(SinkError, match="another writer"):
            staged[1].commit()
    else:
        with pytest.raises(SinkError, match="removed or changed"):
            staged[0].commit()
        assert staged[1].commit() == 1
    assert read(path) == [1]


def test_an_upsert_that_meets_a_compaction_merges_again(path):
    writer = DeltaWriter("rows", path, "upsert", ("n",))
    for n in range(3):
        write(writer, numbers(n), mark(n))
    assert not writer.committed(mark(3))
    staged = writer.stage(numbers(2, 3), mark(3))
    compact_table(DeltaTable(path), retention=timedelta(days=7))
    assert staged.commit() == 2
    assert read(path) == [0, 1, 2, 3]


def test_an_upsert_that_lost_to_a_newer_driver_does_not_merge_again(path):
    writer = DeltaWriter("rows", path, "upsert", ("n",))
    write(writer, numbers(0), mark(0))
    writer.committed(mark(1))
    staged = writer.stage(numbers(1), mark(1))
    write(DeltaWriter("rows", path, "upsert", ("n",)), numbers(5), mark(1, token=2))
    with pytest.raises(LeaseLostError):
        staged.commit()
    assert read(path) == [0, 5]


def test_merges_and_compactions_side_by_side(path):
    writer = DeltaWriter("rows", path, "upsert", ("n",))
    write(writer, numbers(0), mark(0))
    over, faults = threading.Event(), []

    def compact():
        while not over.is_set():
            try:
                compact_table(DeltaTable(path), retention=timedelta(days=7))
            except CommitFailedError:
                # Under merges without a pause it may find no moment; it tries again at night.
                pass
            except Exception as error:  # noqa: BLE001  the test looks at all of them
                faults.append(error)

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for n in range(1, 40):
            assert write(writer, numbers(n, n // 2), mark(n)) == (2 if n // 2 != n else 1)
    finally:
        over.set()
        thread.join()
    assert not faults
    assert read(path) == list(range(40))


def test_a_log_that_cannot_be_written_is_named_with_its_table(tmp_path):
    path = str(tmp_path / "t")
    with pytest.raises(SinkError, match="the table cannot be written") as refused, sink_errors("out", path, mark(0)):
        raise OSError("Generic LocalFileSystem error: Permission denied")
    assert refused.value.facts["table"] == path
    assert "_delta_log" in refused.value.remedy


def test_a_compaction_on_a_full_disk_is_refused_with_what_to_do(path):
    for n in range(2):
        write_deltalake(path, pa.table({"n": list(range(1000 * n, 1000 * n + 1000))}), mode="append")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(SinkError, match="cannot be joined: .*File too large") as raised:
            compact_table(DeltaTable(path), retention=timedelta(days=7))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "compact again" in str(raised.value.remedy)
    assert compact_table(DeltaTable(path), retention=timedelta(days=7))["files_joined"] == 2
    assert read(path) == list(range(2000))

"""The checkpoint storages: one contract for all three, and what each does in its own way."""

from __future__ import annotations

import json
import sqlite3
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from rs_assets import CheckpointStorage
from rs_assets.catalog.offsets import CheckPointMessage, CheckpointRow, storage_named
from rs_assets.catalog.offsets import db as db_module
from rs_assets.catalog.offsets.db import SNAPSHOT, DbStorage
from rs_assets.catalog.offsets.delta import DeltaStorage
from rs_assets.catalog.offsets.messages import CheckPoint, CheckPointState
from rs_assets.common import database as connect
from rs_assets.errors import CheckpointError, ConfigurationError

AT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
SOURCE = "shop;g;clicks;read"
SECRET = "s3cr3t@:/"


DEFAULTS = {
    "namespace": "shop",
    "group": "g",
    "topic": "clicks",
    "name": "read",
    "queue": "a.log",
    "query": "totals",
    "generation": 1,
    "run_id": "run",
    "watermark": AT - timedelta(seconds=5),
    "at": AT,
}


def row(batch_id: int = 0, offset: str = "7", **other: object) -> CheckpointRow:
    return CheckpointRow(**{**DEFAULTS, "batch_id": batch_id, "offset": offset, **other})


def message(batch_id: int = 0, *replies: CheckPointState, generation: int = 1, **offsets: str) -> CheckPointMessage:
    checkpoint = CheckPoint(source="read", query="totals", batch_id=batch_id, offsets=offsets)
    return CheckPointMessage(
        source_key=SOURCE, checkpoint=checkpoint, replies=replies, generation=generation, run_id="run", at=AT
    )


@pytest.fixture(params=["memory", "delta", "db"])
def opened(request, tmp_path):
    """Opens the storage, as often as wanted; each of them is another view of one store (memory has no other)."""
    made = []

    def again():
        if request.param == "memory" and made:
            return made[0]
        url = f"sqlite:///{tmp_path}/checkpoints.db"
        made.append(storage_named(request.param, catalog=tmp_path / "catalog", url=url))
        return made[-1]

    yield again
    for storage in made:
        storage.finish()


@pytest.fixture
def storage(opened):
    return opened()


def offset(storage, queue: str = "a.log") -> str | None:
    """The newest offset of a queue of the source."""
    return {each.queue: each.offset for each in storage.rows(SOURCE)}.get(queue)


def offsets(storage) -> dict[str, str]:
    """Of every queue the newest offset."""
    return {each.queue: each.offset for each in storage.rows()}


def test_a_new_storage_holds_nothing(storage):
    assert offset(storage) is None
    assert storage.rows() == ()


def test_what_was_saved_is_there_for_the_next_process(opened, storage):
    saved = row(3, '{"byte": 12, "line": 2}')
    storage.save([saved])
    storage.finish()
    assert opened().rows() == (saved,)
    assert offset(opened()) == '{"byte": 12, "line": 2}'


def test_every_fact_of_a_row_comes_back(storage):
    full = row(9, pipeline="totals", reconciled=True, queue="dir;a^/ü 雪'\"%_.log", offset='"ö"')
    bare = row(9, watermark=None, run_id="", queue="b")
    storage.save([full, bare])
    assert storage.rows() == (full, bare)
    assert storage.rows("shop;g;clicks;read;totals") == (full,)
    assert storage.rows(SOURCE) == (bare,)
    assert storage.rows("shop;g;clicks;other") == ()


def test_times_keep_their_instant_whatever_their_zone(storage):
    storage.save([row(at=AT.astimezone(timezone(timedelta(hours=5, minutes=30))))])
    assert storage.rows()[0].at == AT


def test_queues_and_sources_that_look_alike_are_kept_apart(storage):
    names = ["a", "A", "a ", "á", "a%", "a_", "aa", "a\n"]
    storage.save([row(queue=name, offset=str(number)) for number, name in enumerate(names)])
    assert [offset(storage, name) for name in names] == [str(number) for number in range(len(names))]
    assert storage.rows("shop;g;clicks;read;p") == ()


def test_the_newest_batch_of_the_newest_generation_is_recovered(storage):
    storage.save([row(5, "50"), row(6, "60")])
    storage.save([row(4, "40")])
    assert offset(storage) == "60"
    storage.save([row(0, "1", generation=2)])
    storage.save([row(7, "70", generation=1)])
    assert offset(storage) == "1"


def test_a_batch_that_is_saved_again_is_there_once(opened, storage):
    storage.save([row(1, "1"), row(2, "2")])
    storage.save([row(2, "2", run_id="second"), row(1, "1")])
    assert {each.run_id for each in storage.rows()} == {"run"}
    opened().save([row(2, "2", run_id="third"), row(2, "2", queue="b"), row(3, "3"), row(3, "3")])
    found = [(each.queue, each.batch_id) for each in storage.rows()]
    assert len(found) == len(set(found))
    assert found[-2:] == [("a.log", 3), ("b", 2)]
    assert offsets(storage) == {"a.log": "3", "b": "2"}


def test_only_main_offsets_are_stored(storage):
    storage.save([row(offset="7.10000002")])
    storage.save([row(1, "8.10000002.10000000", queue="b")])
    assert offsets(storage) == {"a.log": "7", "b": "8"}


def test_saving_nothing_is_nothing(storage):
    storage.save([])
    storage.save(message().rows())
    storage.finish()
    assert storage.rows() == ()


def test_replies_decide_what_is_stored(storage):
    normal, refuse = CheckPointState.normal, CheckPointState.refuse
    storage.save(message(0, CheckPointState.any(), a="5", b="6").rows())
    storage.save(message(1, normal({"a": "8"}), normal({"a": "7"}), CheckPointState.any(), a="9").rows())
    storage.save(message(2, normal({"a": "20"}), refuse("no room"), a="20").rows())
    assert offsets(storage) == {"a": "7", "b": "6"}


def test_finishing_may_be_repeated(opened, storage):
    storage.save([row()])
    storage.finish()
    storage.finish()
    assert offsets(opened()) == {"a.log": "7"}


def test_more_queues_than_a_statement_takes(storage):
    for batch in (0, 1):
        storage.save([row(batch, str(batch), queue=f"q{n}") for n in range(1203)])
    assert len(offsets(storage)) == 1203
    assert set(offsets(storage).values()) == {"1"}


def test_threads_may_share_a_storage(opened, storage):
    def report(number):
        for batch in range(60):
            storage.save(message(batch, **{f"q{number}": str(batch)}).rows())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(report, range(4)))
    storage.finish()
    assert offsets(opened()) == {f"q{n}": "59" for n in range(4)}


def test_pipelines_may_write_at_the_same_time(opened, storage):
    def write(number):
        each = opened()
        for batch in range(4):
            each.save([row(batch, str(batch), name=f"read{number}")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    newest = {each.name: each.offset for each in storage.rows()}
    assert newest == {f"read{n}": "3" for n in range(4)}


def test_one_batch_that_two_write_at_the_same_time_is_there_once(opened, storage):
    def write(number):
        each = opened()
        for batch in range(4):
            each.save([row(batch, str(batch), run_id=str(number))])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    found = [each.identity for each in storage.rows()]
    assert len(found) == len(set(found))
    assert offset(storage) == "3"


@pytest.mark.parametrize("hostile", ["a'; drop table checkpoint_snapshot; --", "..", "/etc/passwd", "x" * 600, "%s{0}"])
def test_hostile_names_are_only_names(storage, hostile):
    storage.save([row(queue=hostile, run_id=hostile, query=hostile), row()])
    assert offset(storage, hostile) == offset(storage) == "7"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("namespace", "a;b"), ("group", "a^^^b"), ("topic", "a^"), ("name", "\ud800"), ("pipeline", ";")],
        *[("queue", ""), ("queue", "a^^^b"), ("at", datetime(2026, 3, 1)), ("watermark", datetime(2026, 3, 1))],  # noqa: DTZ001
        *[("offset", None), ("offset", "\udcff"), ("run_id", 7), ("batch_id", -1), ("generation", 1 << 63)],
    ],
)
def test_a_row_that_could_not_be_stored_is_refused(field, value):
    with pytest.raises(ConfigurationError):
        row(**{field: value})


def test_empty_parts_of_a_row_get_the_defaults_of_its_key():
    plain = row(namespace="", group="", topic="", name="", pipeline="")
    assert plain.key == "default_namespace;default_groupName;default_topic;default_name^^^a.log"
    assert (plain.namespace, plain.pipeline) == ("default_namespace", None)


@pytest.mark.parametrize("name", ["Memory", "MEMORY", " memory ", "Delta", "DB"])
def test_names_are_taken_in_any_case(name, tmp_path):
    assert storage_named(name, catalog=tmp_path, url="sqlite://").name == name.strip().lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "mysql", "delta;", None, 7])
def test_an_unknown_name_is_refused_with_those_there_are(name, tmp_path):
    with pytest.raises(ConfigurationError, match="db, delta, memory"):
        storage_named(name, catalog=tmp_path)


TIMES = ("at", "watermark")


class OwnStorage(CheckpointStorage):
    """A storage as users write it: one JSON file."""

    name = "own"

    def __init__(self, url):
        super().__init__()
        self.path = Path(url)

    def _write(self, rows):
        kept = {row.key: row for row in sorted((*self._read(None), *rows), key=lambda row: row.place)}
        self.path.write_text(json.dumps([asdict(row) for row in kept.values()], default=datetime.isoformat))

    def _read(self, key):
        stored = json.loads(self.path.read_text()) if self.path.exists() else []
        times = [{name: each[name] and datetime.fromisoformat(each[name]) for name in TIMES} for each in stored]
        found = [CheckpointRow(**{**each, **at}) for each, at in zip(stored, times, strict=True)]
        return [each for each in found if key in (None, each.key)]


def test_a_storage_of_ones_own_is_named_by_its_class(tmp_path):
    reference = f"{__name__}:OwnStorage"
    storage = storage_named(reference, catalog=tmp_path, url=str(tmp_path / "own.json"))
    storage.save([row(batch_id=1, offset="7"), row(batch_id=2, offset="9")])
    storage.save([row(batch_id=1, offset="7")])
    again = storage_named(reference, catalog=tmp_path, url=str(tmp_path / "own.json"))
    assert offset(again) == "9"


@pytest.mark.parametrize("reference", ["no_such_module:Own", f"{__name__}:Missing", "rs_assets:Missing"])
def test_a_class_that_cannot_be_imported_is_refused(reference, tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be imported") as refused:
        storage_named(reference, catalog=tmp_path)
    assert refused.value.remedy == "name an importable class: package.module:Class"
    assert storage_named(f"{__name__}:OwnStorage", catalog=tmp_path, url="x").name == "own"


def test_a_class_that_is_no_storage_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="not a class of checkpoint storages") as refused:
        storage_named("pathlib:Path", catalog=tmp_path)
    assert refused.value.remedy == "derive it from rs_assets.CheckpointStorage"
    assert issubclass(OwnStorage, CheckpointStorage)


# delta


def test_the_delta_table_has_a_schema_version_and_plain_columns(tmp_path):
    storage = storage_named("delta", catalog=tmp_path)
    storage.save([row()])
    table = DeltaTable(str(tmp_path / "checkpoints"))
    assert {each["rs.schema_version"] for each in table.history()} == {"1"}
    (stored,) = table.to_pyarrow_table().to_pylist()
    assert (stored["key"], stored["offset"], stored["at"]) == (f"{SOURCE}^^^a.log", "7", AT)


def test_the_delta_table_keeps_every_batch_that_was_saved(tmp_path):
    storage = DeltaStorage(tmp_path / "checkpoints")
    for batch in range(3):
        storage.save([row(batch, str(batch))])
    assert [each.offset for each in storage.rows()] == ["0", "1", "2"]


def test_a_running_pipeline_does_not_read_the_delta_table(tmp_path, monkeypatch):
    DeltaStorage(tmp_path / "checkpoints").save([row(1)])
    storage = DeltaStorage(tmp_path / "checkpoints")
    monkeypatch.setattr(DeltaTable, "to_pyarrow_dataset", lambda *_: pytest.fail("the table was read"))
    storage.save([row(2)])
    storage.save([row(3)])


def test_a_late_batch_does_not_make_the_delta_table_forget_the_last_one(tmp_path):
    storage = DeltaStorage(tmp_path / "checkpoints")
    for batch in (5, 3, 5, 3):
        storage.save([row(batch)])
    assert [each.batch_id for each in storage.rows()] == [3, 5]


def test_two_queries_of_one_source_do_not_hide_one_another(tmp_path):
    storage = DeltaStorage(tmp_path / "checkpoints")
    storage.save([row(5)])
    storage.save([row(5, query="other")])
    assert {each.query for each in storage.rows()} == {"other", "totals"}


def test_a_delta_table_that_was_removed_is_made_again(tmp_path):
    storage = DeltaStorage(tmp_path / "checkpoints")
    storage.save([row(1)])
    (tmp_path / "checkpoints").rename(tmp_path / "moved")
    assert storage.rows() == ()
    storage.save([row(1)])
    assert len(storage.rows()) == 1


def test_a_damaged_delta_table_is_named(tmp_path):
    storage = DeltaStorage(tmp_path / "checkpoints")
    storage.save([row(1)])
    for file in (tmp_path / "checkpoints").rglob("part-*.parquet"):
        file.write_bytes(b"junk")
    with pytest.raises(CheckpointError, match="cannot be read"):
        storage.rows()
    with pytest.raises(CheckpointError, match="cannot be written"):
        storage.save([row(1)])


def test_a_delta_row_that_makes_no_sense_is_named(tmp_path):
    storage = DeltaStorage(tmp_path / "checkpoints")
    storage.save([row(1)])
    path = str(tmp_path / "checkpoints")
    rows = DeltaTable(path).to_pyarrow_table()
    write_deltalake(path, rows.set_column(0, rows.schema.field(0), [["of another"]]), mode="append")
    with pytest.raises(CheckpointError, match="stored checkpoint is damaged"):
        storage.rows()


def test_a_catalog_that_is_a_file_is_named(tmp_path):
    (tmp_path / "catalog").write_text("")
    storage = storage_named("delta", catalog=tmp_path / "catalog")
    with pytest.raises(CheckpointError, match="cannot be written"):
        storage.save([row()])


# db


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "c.db") as connection:
        yield connection
    connection.close()


@pytest.fixture
def db(tmp_path):
    storage = DbStorage(f"sqlite:///{tmp_path}/c.db")
    yield storage
    storage.finish()


def test_the_database_has_one_row_a_key_with_json_facts(db, database):
    db.save([row(1, "1")])
    db.save([row(2, '{"byte":2}', reconciled=True)])
    ((key, value, created, modified),) = database.execute(
        "select key, value, gmt_create, gmt_modified from checkpoint_snapshot"
    ).fetchall()
    assert key == f"{SOURCE}^^^a.log"
    facts = json.loads(value)
    assert (facts["offset"], facts["batch_id"], facts["reconciled"]) == ('{"byte":2}', 2, True)
    assert created < modified
    columns = [each[1] for each in database.execute("pragma table_info(checkpoint_snapshot)")]
    assert columns == ["id", "gmt_create", "gmt_modified", "key", "value"]


@pytest.mark.parametrize("value", ["", "junk", "[]", "7", "null", "{}", '{"offset": 7}', '{"offset": "7"}', '{"x": 1}'])
def test_a_damaged_value_in_the_database_is_named(db, database, value):
    db.save([row()])
    database.execute("update checkpoint_snapshot set value = ?", (value,))
    database.commit()
    for use in (db.rows, lambda: offset(db), lambda: db.save([row(1)])):
        with pytest.raises(CheckpointError, match=r"is damaged .key=shop;g;clicks;read\^\^\^a.log"):
            use()


def test_a_damaged_time_or_key_in_the_database_is_named(db, database):
    db.save([row()])
    database.execute("update checkpoint_snapshot set value = replace(value, '2026-', 'x')")
    database.commit()
    with pytest.raises(CheckpointError, match="is damaged"):
        db.rows()
    database.execute("update checkpoint_snapshot set key = 'junk'")
    database.commit()
    with pytest.raises(CheckpointError, match="'junk' is not the key"):
        db.rows()


def test_a_key_that_comes_in_between_is_not_inserted_twice(db, tmp_path, monkeypatch):
    other, places, calls = DbStorage(f"sqlite:///{tmp_path}/c.db"), db_module._places, []

    def late(connection, keys):
        calls.append(keys)
        return {} if len(calls) == 1 else places(connection, keys)

    other.save([row(1, "1")])
    other.finish()
    monkeypatch.setattr(db_module, "_places", late)
    db.save([row(2, "2")])
    assert [each.offset for each in db.rows()] == ["2"]
    assert len(calls) == 2


def test_the_key_of_mysql_keeps_upper_and_lower_case_apart():
    text = str(CreateTable(SNAPSHOT).compile(dialect=mysql.dialect()))
    assert "`key` VARCHAR(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL" in text


@pytest.mark.parametrize(
    "url",
    [
        *[None, "", SECRET, f"pg://u:{SECRET}@h", "nosuch://u:s3cr3t@h/x", "postgresql://u:p@h:s3cr3t/x"],
        *["postgresql://u:p@s3cr3t@h/x", "postgresql://u:p@s/3@s3cr3t@h/x", "sqlite:///x?timeout=s3cr3t"],
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_secrets(url, tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        storage_named("db", catalog=tmp_path, url=url)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_database_that_fails_is_named_without_its_secrets(monkeypatch):
    def refuse():
        raise sqlite3.OperationalError(f"no login u:{SECRET} (s3cr3t%40%3A%2F) with hidden key, hidden%20key")

    real = connect.create_engine
    monkeypatch.setattr(connect, "create_engine", lambda url, **kept: real("sqlite://", creator=refuse, **kept))
    storage = DbStorage("postgresql+psycopg://u:s3cr3t%40%3A%2F@host/name?sslpassword=hidden%20key")
    assert repr(storage) == "DbStorage(name, host, postgresql)"
    for use in (storage.rows, lambda: storage.save([row()])):
        with pytest.raises(CheckpointError, match=r"cause=no login u:\*\*\* \(\*\*\*\) with \*\*\*, \*\*\*") as caught:
            use()
        assert "host=host" in str(caught.value)
        shown = "".join(traceback.format_exception(caught.value))
        assert not any(secret in shown for secret in ("s3cr3t", "hidden"))


def test_a_database_that_cannot_be_opened_is_named(tmp_path):
    storage = DbStorage(f"sqlite:///{tmp_path}/none/c.db")
    with pytest.raises(CheckpointError, match="unable to open database file"):
        storage.save([row()])

"""Changes land before they are confirmed: random transactions beside kills give each change once, in order."""

from __future__ import annotations

import json
import random
import re
import tracemalloc
from base64 import b64encode
from datetime import timedelta
from unittest.mock import patch

import pyarrow as pa
import pytest

from rs_assets.connectors.changes.landed import Landed, LandingPart
from rs_assets.connectors.postgres.blocks import Page, encoded
from rs_assets.connectors.postgres.changes import Changes
from rs_assets.connectors.postgres.landing import Landing
from rs_assets.connectors.postgres.pgoutput import UNCHANGED
from rs_assets.connectors.postgres.slot import Slot
from rs_assets.connectors.postgres.table import Column, Table
from rs_assets.connectors.postgres.values import encoder
from rs_assets.errors import ConfigurationError, DataLossError, SchemaError, SourceReadError
from tests.postgres.plain import Killed, Source, folded

TABLE = "CREATE TABLE t (id int PRIMARY KEY, state varchar(30))"


@pytest.fixture
def shop(postgres, database, tmp_path):
    """Executes statements, each a transaction."""

    def execute(*statements):
        with postgres.connected(database) as connection:
            for statement in statements:
                found = connection.execute(statement)
        return found.fetchall() if found.description is not None else []

    execute(TABLE)
    yield execute
    execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'plain'")


@pytest.fixture
def source(shop, database, tmp_path):
    return Source(database, tmp_path / "landed")


def short(rows):
    return [(row["op"], row["id"], row["state"]) for row in rows]


def test_rows_in_rows_out(shop, source):
    shop("INSERT INTO t VALUES (1, 'new'), (2, 'new')")
    assert short(source.read()) == [("snapshot", 1, "new"), ("snapshot", 2, "new")]
    shop("BEGIN; UPDATE t SET state = 'paid' WHERE id = 1; UPDATE t SET id = 3 WHERE id = 2; COMMIT", "DELETE FROM t")
    found = source.read()
    assert short(found) == [
        ("update", 1, "paid"),
        ("delete", 2, None),
        ("insert", 3, "new"),
        ("delete", 1, None),
        ("delete", 3, None),
    ]
    assert [row["seq"] for row in found] == [0, 1, 2, 0, 1]
    assert source.read() == []


BEGIN = b"B" + (5).to_bytes(8, "big") + bytes(12)
KINDS = {
    "id": "bigint", "small": "smallint", "x": "double", "ok": "boolean", "raw": "binary", "day": "date",
    "at": "timestamp", "name": "string", 'a "b"': "string", "n": "decimal(9,2)",
}  # fmt: skip
VALUES = (
    [b"7", b"-3", b"1.5", b"t", b"\\x00ff", b"2024-03-01", b"2024-03-01 12:00:00.5+00", b'a "q" \\ \n', b"", b"-1.50"],
    [b"0", b"-0", b"NaN", b"f", b"plain", b"0044-03-15 BC", b"infinity", "ü\x00€".encode(), b"\x7f", b"NaN"],
    [b"-9223372036854775808", b"007", b"-Infinity", b"maybe", b"\\x", b"x", b'"', b"null", b"\\u0041", b"1"],
    [b"9223372036854775807", b"--1", b"1e400", b"", b"", b"", b"2024-03-01 12:00:00", b"[1]", b"{}", b"99999999"],
    [b"9223372036854775808", "²".encode(), b"", b"t", b"", b"", b"", b"", b"", b""],
    [None] * 10,
)


def packed(values):
    """A row of the log."""
    parts = (b"u" if v is UNCHANGED else b"n" if v is None else b"t" + len(v).to_bytes(4, "big") + v for v in values)
    return len(values).to_bytes(2, "big") + b"".join(parts)


def plain(kind, value):
    """A value for JSON."""
    text = value.decode()
    match kind:
        case "bigint" | "smallint" if re.fullmatch(r"-?[0-9]+", text) and -(1 << 63) <= int(text) < 1 << 63:
            return int(text)
        case "double" if re.fullmatch(r"-?[0-9.]+", text):
            return float(text)
        case "boolean":
            return {"t": True, "f": False}.get(text, text)
        case "binary":
            return b64encode(bytes.fromhex(text[2:]) if text.startswith("\\x") else value).decode()
        case "date":
            return text.replace(" ", "")
        case "timestamp":
            return text.replace(" ", "T", 1).removesuffix("+00") + ("Z" if text.endswith("+00") else "")
    return text


def rows_of(changes, messages):
    """The rows of messages that come together; their positions are those of their lines."""
    block = changes.block(messages)
    found = [json.loads(line) for line in block.lines.to_pylist()]
    assert block.positions.to_pylist() == [row["lsn"] for row in found]
    return found


@pytest.mark.parametrize("row", range(len(VALUES)))
def test_each_way_to_land_a_row_gives_the_same_json(row):
    """A row that is read in one go, one with its old values, and one of a snapshot."""
    columns = tuple(Column(name, 25, -1, large=True) for name in ("skipped", *KINDS))
    table = Table(9, "public", "t", columns, ("id",), whole=True, toasted=True)
    changes = Changes(table=table, fields=KINDS, step="source", declared=True)
    names = b"".join(b"\0" + column.name.encode() + b"\0" + bytes(8) for column in columns)
    described = b"R" + (9).to_bytes(4, "big") + b"public\0t\0f" + len(columns).to_bytes(2, "big") + names
    new, of = packed([b"s", *VALUES[row]]), (9).to_bytes(4, "big")
    same = packed([UNCHANGED, *VALUES[row]])
    messages = (BEGIN, described, b"I" + of + b"N" + new, b"U" + of + b"N" + new, b"U" + of + b"O" + new + b"N" + same)
    found = rows_of(changes, messages)
    found.append(json.loads(changes.snapshot(VALUES[row], 5, 3, found[0]["commit_time"])[1]))
    pairs = zip(KINDS.items(), VALUES[row], strict=True)
    wanted = {name: None if value is None else plain(kind, value) for (name, kind), value in pairs}
    assert [line.pop("op") for line in found] == ["insert", "update", "update", "snapshot"]
    assert [line.pop("seq") for line in found] == [0, 1, 2, 3]
    assert found == [{**wanted, "lsn": 5, "commit_time": "2000-01-01T00:00:00Z"}] * 4


def begun(lsn):
    return b"B" + lsn.to_bytes(8, "big") + bytes(12)


def test_rows_that_come_together_are_those_that_come_one_by_one():
    """Rows of many transactions, of which some have landed, among rows with old values and those of other tables."""
    columns = tuple(Column(name, 25, -1, large=True) for name in KINDS)
    table = Table(9, "public", "t", columns, ("id",), whole=True, toasted=True)
    names = b"".join(b"\0" + column.name.encode() + b"\0" + bytes(8) for column in columns)
    described = b"R" + (9).to_bytes(4, "big") + b"public\0t\0f" + len(columns).to_bytes(2, "big") + names
    other = b"I" + (8).to_bytes(4, "big") + b"N" + packed([b"7"])
    of, random_ = (9).to_bytes(4, "big"), random.Random(5)
    for since in (0, 40):
        messages, wanted = [described], []
        for lsn in range(10, 100, 10):
            messages.append(begun(lsn))
            for seq in range(random_.choice((0, 1, 30))):
                values = random_.choice(VALUES)
                new = packed(values)
                told = random_.choice((b"I" + of, b"U" + of, b"U" + of + b"O" + new))
                messages += [told + b"N" + new, *([other] if random_.random() < 0.3 else [])]
                pairs = zip(KINDS.items(), values, strict=True)
                fields = {name: None if value is None else plain(kind, value) for (name, kind), value in pairs}
                op = "insert" if told.startswith(b"I") else "update"
                wanted.append({**fields, "op": op, "lsn": lsn, "seq": seq, "commit_time": "2000-01-01T00:00:00Z"})
            messages += [b"C" + bytes(25), *([described] if random_.random() < 0.3 else [])]
        wanted = [row for row in wanted if row["lsn"] >= since]

        def changes():
            return Changes(table=table, fields=KINDS, step="source", declared=True, since=since)  # noqa: B023  called here

        assert rows_of(changes(), messages) == wanted
        apart = changes()
        assert [row for message in messages for row in rows_of(apart, [message])] == wanted


def test_a_table_with_a_number_above_2_31_has_its_changes():
    """A server counts the numbers of its tables together with those of large values, up to 2^32."""
    number = 3_000_000_000
    table = Table(number, "public", "t", (Column("id", 23, -1, large=False),), ("id",), whole=False, toasted=False)
    changes = Changes(table=table, fields={"id": "int"}, step="source", on_truncate="row")
    head, one = number.to_bytes(4, "big"), (1).to_bytes(2, "big")
    described = b"R" + head + b"public\0t\0d" + one + b"\1id\0" + bytes(8)
    row = one + b"t" + (1).to_bytes(4, "big") + b"7"
    emptied = b"T" + (1).to_bytes(4, "big") + b"\0" + head
    messages = (described, b"I" + head + b"N" + row, b"U" + head + b"N" + row, b"D" + head + b"K" + row, emptied)
    found = rows_of(changes, [BEGIN, *messages])
    assert [(row["op"], row.get("id")) for row in found] == [
        ("insert", 7), ("update", 7), ("delete", 7), ("truncate", None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["0044-03-15 BC", "infinity"])
def test_a_date_that_spark_would_take_for_another_one_is_not_given_to_it(text):
    """Spark passes over what follows a blank after a date."""
    made = encoder("date")
    assert b" " not in made(text.encode())
    assert made(b"2024-03-15") == b'"2024-03-15"'


def test_large_values_need_little_more_memory_than_they_have():
    """The place of each byte is a number of eight bytes."""
    text = b"x" * (1 << 20)
    page = Page.of([b"I" + (9).to_bytes(4, "big") + b"N" + packed([b"7", text])] * 8)
    tracemalloc.start()
    try:
        found = page.rows(9, [True, True])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.columns[1].to_pylist() == [text] * 8
    assert peak < 4 * 8 * len(text)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_minus_zero_keeps_its_sign_in_each_way_to_land_a_row(kind):
    """Spark reads a number without a point as a whole one, which has no minus zero."""
    texts = [b"-0", b"0", b"-0.5", b"-1", None]
    made = encoded(kind, pa.array(texts, pa.binary())).to_pylist()
    assert [json.loads(value) for value in made] == [-0.0, 0, -0.5, -1, None]
    assert made[0] == encoder(kind)(b"-0") == b"-0.0"


def test_other_bytes_than_utf_8_are_left_to_the_parser():
    """A database with the encoding SQL_ASCII has any: a bad record, and not the end of all changes."""
    made = encoded("string", pa.array([b'\xe9"', b"x"], pa.binary())).to_pylist()
    assert made == [encoder("string")(b'\xe9"'), b'"x"'] == [b'"\xe9\\""', b'"x"']


def test_texts_are_those_of_a_database_that_has_no_utf_8(postgres, tmp_path):
    """The log has the texts of the database; the two characters of the second row are one in UTF-8."""
    postgres.execute(
        postgres.url(), "CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    url = postgres.url("latin")
    postgres.execute(url, "CREATE TABLE t (id int PRIMARY KEY, name varchar(9))")
    postgres.execute(url, "INSERT INTO t VALUES (1, chr(233)), (2, chr(195) || chr(169))")
    source = Source(url, tmp_path / "landed")
    try:
        source.read()
        postgres.execute(url, "INSERT INTO t SELECT id + 2, name FROM t")
        source.read()
    finally:
        postgres.execute(url, "SELECT pg_drop_replication_slot('plain')")
    assert [(row["op"], row["id"], row["name"]) for row in source.rows] == [
        ("snapshot", 1, "é"), ("snapshot", 2, "Ã©"), ("insert", 3, "é"), ("insert", 4, "Ã©"),
    ]  # fmt: skip


def test_texts_of_a_database_without_an_encoding_are_read(postgres, tmp_path):
    postgres.execute(
        postgres.url(), "CREATE DATABASE bare ENCODING SQL_ASCII TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    url = postgres.url("bare")
    postgres.execute(url, "CREATE TABLE t (id int PRIMARY KEY, name varchar(9))")
    postgres.execute(url, "INSERT INTO t VALUES (1, E'\\xc3\\xa9')")
    source = Source(url, tmp_path / "landed")
    try:
        source.read()
        postgres.execute(url, "INSERT INTO t SELECT id + 1, name FROM t")
        source.read()
    finally:
        postgres.execute(url, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    assert [(row["op"], row["name"]) for row in source.rows] == [("snapshot", "é"), ("insert", "é")]


def killed_at(random_, target, method, behind):
    """A patch by which the process ends before, or behind, one of the next calls of a method."""
    original, after = getattr(target, method), random_.choice([0, 0, 0, 1])
    calls = 0

    def call(self, *args, **more):
        nonlocal calls
        calls += 1
        if calls <= after:
            return original(self, *args, **more)
        if behind:
            original(self, *args, **more)
        raise Killed

    return patch.object(target, method, call)


def written(random_, shop):
    """Some random transactions."""
    for _ in range(random_.randint(1, 6)):
        parts = []
        for _ in range(random_.choice([1, 2, 5, 60])):
            key, other = random_.randrange(20), random_.randrange(20)
            text = random_.choice(["a", "b", "long " * 800])
            parts.append(
                random_.choice(
                    [
                        f"INSERT INTO t VALUES ({key}, 'n', '{text}') ON CONFLICT (id) DO UPDATE SET state = 'u'",
                        f"INSERT INTO t VALUES ({key}, 'n', '{text}') ON CONFLICT DO NOTHING",
                        f"UPDATE t SET state = 's{other}' WHERE id = {key}",
                        f"UPDATE t SET id = {other} WHERE id = {key} AND NOT EXISTS (SELECT FROM t WHERE id = {other})",
                        f"DELETE FROM t WHERE id = {key}",
                        f"SAVEPOINT a; DELETE FROM t WHERE id < {key}; ROLLBACK TO a",
                    ]
                )
            )
        shop(f"BEGIN; {'; '.join(parts)}; {random_.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])}")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 12))])
def test_a_mirror_should_equal_the_table_beside_kills(shop, source, seed):
    random_ = random.Random(seed)
    shop("ALTER TABLE t ADD COLUMN note text", "ALTER TABLE t ALTER COLUMN note SET STORAGE EXTERNAL")
    shop("ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t SELECT n, 'old', NULL FROM generate_series(1, 7) n")
    places = [(LandingPart, "publish"), (Landed, "own"), (Slot, "drop"), (Slot, "advance"), (Slot, "publish")]
    kills = 0
    for _ in range(8):
        written(random_, shop)
        kill = killed_at(random_, *random_.choice(places), behind=random_.random() < 0.5)
        with kill:
            try:
                source.read()
            except Killed:
                kills += 1
        if random_.random() < 0.3:
            check_replay(source)
    source.read()
    now = {(row[0],): dict(zip(("id", "state", "note"), row, strict=True)) for row in shop("SELECT * FROM t")}
    assert folded(source.rows) == now
    places = [(row["lsn"], row["seq"]) for row in source.rows]
    assert places == sorted(set(places))
    assert kills >= 2


def check_replay(source):
    """All that was read comes again."""
    if source.offsets:
        assert source.batch(source.plan(), {}, source.offsets) == source.rows


def test_a_change_that_follows_the_snapshot_is_not_earlier_than_its_rows(shop, source):
    """Else the row of the snapshot would be the current version of a history."""
    shop("INSERT INTO t VALUES (1, 'new')")
    original = Landing._check_same

    def changed(*args):
        shop("UPDATE t SET state = 'paid'")
        original(*args)

    with patch.object(Landing, "_check_same", changed):
        source.read()
    source.read()
    rows = source.rows
    assert short(rows) == [("snapshot", 1, "new"), ("update", 1, "paid")]
    assert rows[0]["commit_time"] < rows[1]["commit_time"]


def test_batches_have_whole_transactions_and_a_snapshot_is_divided(shop, source):
    shop("INSERT INTO t SELECT n FROM generate_series(1, 120) n")
    plan, ends = source.plan(), []
    while (end := plan.next(source.offsets, 50)) != source.offsets:
        source.offsets = end
        ends.append(end["g0001"].next)
    assert ends == [50, 100, 120]
    shop("INSERT INTO t SELECT n FROM generate_series(200, 300) n", "DELETE FROM t WHERE id < 10", "DELETE FROM t")
    sizes = []
    plan = source.plan()
    while (end := plan.next(source.offsets, 50)) != source.offsets:
        rows = source.batch(plan, source.offsets, end)
        sizes.append([*dict.fromkeys(row["lsn"] for row in rows)])
        source.offsets = end
    assert len({lsn for size in sizes for lsn in size}) == sum(map(len, sizes)) == 3


@pytest.mark.long
def test_a_quiet_table_does_not_keep_the_log(shop, source):
    source.read()
    shop("CREATE TABLE busy (x text)", "INSERT INTO busy SELECT repeat(n::text, 90) FROM generate_series(1, 90000) n")
    asked = "SELECT confirmed_flush_lsn > pg_current_wal_lsn() - 16777216 FROM pg_replication_slots"
    assert shop(f"{asked} WHERE slot_name = 'plain'") == [(False,)]
    source.read()
    assert shop(f"{asked} WHERE slot_name = 'plain'") == [(True,)]
    shop("INSERT INTO t VALUES (1, 'new')")
    assert short(source.read()) == [("insert", 1, "new")]


@pytest.mark.long
def test_landed_rows_are_kept_for_a_time(shop, source):
    source.options["keep"] = timedelta(0)
    shop("INSERT INTO t VALUES (1, 'new')")
    source.read()
    for n in range(2, 6):
        shop(f"INSERT INTO t VALUES ({n}, 'new')")
        source.read()
    assert [file.name for file in source.folder.glob("*/rows-*")] == ["rows-000000000000004.parquet"]
    with pytest.raises(DataLossError, match="row 0"):
        source.batch(source.plan(), {}, source.offsets)
    assert len(source.anew()) == 5
    source.read()
    assert {file.parent.name for file in source.folder.glob("*/rows-*")} == {"g0002"}


def test_an_overtaken_process_lands_nothing_twice(shop, source):
    shop("INSERT INTO t VALUES (1, 'new')")
    source.read()
    shop("INSERT INTO t VALUES (2, 'new')")
    landed, original = Landed(source.folder / "g0001"), LandingPart.publish

    def paused(part, *args, **more):
        # Meanwhile another process lands the same changes, and more.
        with patch.object(LandingPart, "publish", original), patch.object(Slot, "alone", lambda *_: _nothing()):
            shop("INSERT INTO t VALUES (3, 'new')")
            source.plan().landing.land(landed, "g0001", None)
        original(part, *args, **more)

    with patch.object(LandingPart, "publish", paused):
        source.plan().landing.land(landed, "g0001", None)
    assert short(source.read()) == [("insert", 2, "new"), ("insert", 3, "new")]


def _nothing():
    import contextlib

    return contextlib.nullcontext()


def test_a_lost_slot_is_refused_and_a_new_generation_begins_again(shop, source):
    lost = (
        ("SELECT pg_replication_slot_advance('plain', pg_current_wal_lsn())", "it was advanced to"),
        ("SELECT pg_drop_replication_slot('plain')", "does not exist any more"),
        ("DROP PUBLICATION plain", "publication 'plain' does not exist"),
        (f"DROP TABLE t; {TABLE}; ALTER PUBLICATION plain ADD TABLE t", "another table"),
    )
    source.read()
    for number, (statement, what) in enumerate(lost):
        shop(f"INSERT INTO t VALUES ({number}, 'new')", statement)
        with pytest.raises(DataLossError, match=what) as refused:
            source.read()
        assert "--new-generation" in refused.value.remedy
        assert [row["id"] for row in source.anew()] == sorted(row[0] for row in shop("SELECT id FROM t"))


def test_a_slot_of_others_is_not_taken(shop, source, database, tmp_path):
    shop("CREATE PUBLICATION plain FOR TABLE t", "INSERT INTO t VALUES (1, 'new')")
    shop("SELECT pg_create_logical_replication_slot('plain', 'pgoutput')", "INSERT INTO t VALUES (2, 'new')")
    with pytest.raises(ConfigurationError, match="has not made") as refused:
        source.read()
    assert "snapshot=False" in refused.value.remedy
    source.options["snapshot"] = False
    assert short(source.read()) == [("insert", 2, "new")]
    # A pipeline of another home finds the slot of this one.
    with pytest.raises(ConfigurationError, match="has not made"):
        Source(database, tmp_path / "other").read()
    shop(
        "SELECT pg_drop_replication_slot('plain')",
        "SELECT pg_create_logical_replication_slot('plain', 'test_decoding')",
    )
    with pytest.raises(ConfigurationError, match="of the plugin test_decoding"):
        source.read()


def test_a_publication_without_the_table_is_refused(shop, source):
    shop("CREATE PUBLICATION plain", "INSERT INTO t VALUES (1, 'new')")
    with pytest.raises(SourceReadError, match="does not have the table") as refused:
        source.read()
    shop(refused.value.remedy)
    shop("ALTER PUBLICATION plain SET (publish = 'insert')")
    with pytest.raises(SourceReadError, match="leaves out some kinds") as refused:
        source.read()
    shop(refused.value.remedy)
    assert short(source.read()) == [("snapshot", 1, "new")]


def test_an_update_that_does_not_log_a_large_value_is_refused_before(shop, source):
    shop("ALTER TABLE t ADD COLUMN note text", "ALTER TABLE t ALTER COLUMN note SET STORAGE EXTERNAL")
    with pytest.raises(SourceReadError, match="can be large") as refused:
        source.read()
    full = refused.value.remedy.split(";")[0]
    assert full == 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL'
    shop(full, "INSERT INTO t VALUES (1, 'new', repeat('long', 5000))")
    source.read()
    shop("UPDATE t SET state = 'paid'")
    (row,) = source.read()
    assert (row["op"], row["state"], row["note"]) == ("update", "paid", "long" * 5000)
    shop("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET state = 'sent'")
    with pytest.raises(SourceReadError, match="has not logged the column 'note'"):
        source.read()


@pytest.mark.long
def test_what_the_log_does_not_have_is_refused(shop, source):
    source.read()
    shop("INSERT INTO t VALUES (1, 'new')", "TRUNCATE t", "INSERT INTO t VALUES (2, 'new')")
    with pytest.raises(SourceReadError, match="emptied by TRUNCATE") as refused:
        source.read()
    assert "truncate='row'" in refused.value.remedy
    source.options["on_truncate"] = "row"
    assert [(row["op"], row.get("id")) for row in source.read()] == [("insert", 1), ("truncate", None), ("insert", 2)]
    shop("ALTER TABLE t ADD COLUMN more int DEFAULT 7", "INSERT INTO t VALUES (3, 'new', 1)")
    with pytest.raises(SourceReadError, match="a new column 'more'") as refused:
        source.read()
    assert "added_columns='ignore'" in refused.value.remedy
    source.options["on_added"] = "ignore"
    assert short(source.read()) == [("insert", 3, "new")]
    assert [row["more"] for row in source.anew()] == [7, 1]
    shop("ALTER TABLE t DROP COLUMN state", "INSERT INTO t VALUES (4, 1)")
    with pytest.raises(SourceReadError, match="lost its column 'state'") as refused:
        source.read()
    assert "--new-generation" in refused.value.remedy
    assert [row["id"] for row in source.anew()] == [2, 3, 4]


def test_what_cannot_be_read_is_refused(shop, database, tmp_path):
    shop("CREATE TABLE bare (id int)", "CREATE VIEW seen AS SELECT * FROM t")
    for table, what, remedy in (
        ("bare", "no key", "REPLICA IDENTITY FULL"),
        ("seen", "not a plain table", "one partition"),
        ("none", "no table", "shop.orders"),
    ):
        with pytest.raises(SourceReadError, match=what) as refused:
            Source(database, tmp_path, table=table).read()
        assert remedy in refused.value.remedy
    with pytest.raises(SchemaError, match="no column 'nope'") as refused:
        Source(database, tmp_path, fields={"nope": "int"}).read()
    assert "id, state" in refused.value.remedy
    shop("ALTER TABLE bare REPLICA IDENTITY FULL", "INSERT INTO bare VALUES (1)")
    bare = Source(database, tmp_path / "bare", table="bare")
    bare.read()
    shop("UPDATE bare SET id = 2", "DELETE FROM bare")
    assert [(row["op"], row["id"]) for row in bare.read()] == [("delete", 1), ("insert", 2), ("delete", 2)]


@pytest.mark.long
def test_a_server_that_is_killed_goes_on(shop, source, postgres):
    shop("INSERT INTO t VALUES (1, 'new')")
    source.read()
    shop("INSERT INTO t VALUES (2, 'new')")
    postgres.kill()
    try:
        with pytest.raises(SourceReadError, match="has refused") as refused:
            source.read()
        assert "secret" not in str(refused.value)
    finally:
        postgres.start()
    assert short(source.read()) == [("insert", 2, "new")]

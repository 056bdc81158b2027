"""Changes of a MariaDB table without Spark: the log as it is, what it lacks, and tables that change meanwhile."""

from __future__ import annotations

import random
import threading

import pytest

from rs_assets.connectors.mariadb import landing
from rs_assets.connectors.mariadb.statements import effect_of
from rs_assets.errors import ConfigurationError, DataLossError, SchemaError, SourceReadError
from rs_assets.testing import MariaDbServer
from tests.mariadb.plain import Source, folded, purge, short


@pytest.fixture
def make(mariadb, shop, tmp_path):
    def made(columns="id bigint PRIMARY KEY, v varchar(40)", **options):
        mariadb.execute(shop, f"CREATE TABLE t ({columns}) CHARACTER SET utf8mb4")
        return Source(shop, tmp_path, **options)

    return made


@pytest.mark.canary
def test_a_table_and_its_changes_become_rows(mariadb, shop, make):
    source = make()
    mariadb.execute(shop, "INSERT INTO t VALUES (1, 'new'), (2, 'ü😀')")
    assert short(source.read()) == [("snapshot", 1, "new"), ("snapshot", 2, "ü😀")]
    mariadb.execute(shop, "CREATE TABLE other (id int)", "INSERT INTO other VALUES (7)")
    assert source.read() == []
    mariadb.execute(
        shop, "INSERT INTO t VALUES (3, 'new')", "UPDATE t SET v = 'paid' WHERE id = 1",
        "UPDATE t SET id = 20 WHERE id = 2", "BEGIN", "INSERT INTO t VALUES (9, 'no')", "ROLLBACK",
        "BEGIN", "INSERT INTO t VALUES (5, NULL)", "SAVEPOINT s", "DELETE FROM t", "ROLLBACK TO s",
        "DELETE FROM t WHERE id = 3", "COMMIT", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (6, '')",
    )  # fmt: skip
    found = source.read()
    assert short(found) == [
        ("insert", 3, "new"), ("update", 1, "paid"), ("delete", 2, "ü😀"), ("insert", 20, "ü😀"), ("insert", 5, None),
        ("delete", 3, "new"), ("insert", 6, ""),
    ]  # fmt: skip
    places = [(row["lsn"], row["seq"]) for row in found]
    assert places == sorted(set(places))
    assert [row["commit_time"] for row in found] == sorted(row["commit_time"] for row in found)
    assert source.read() == []


TYPES = """id int PRIMARY KEY, ok boolean, bit1 bit(1), small smallint, tiny tinyint, tu tinyint unsigned, m mediumint,
 mu mediumint unsigned, iu int unsigned, big bigint, bu bigint unsigned, f float, d double, cents decimal(9,2),
 wide decimal(38,10), long_ decimal(65,30), n decimal(5), day date, y year, at timestamp(6) NULL, at0 timestamp NULL,
 local datetime(3), local0 datetime, tm time(2), tm0 time, c char(5), v varchar(20), big_v varchar(3000),
 latin varchar(9) CHARACTER SET latin1, wide_c char(200), t text, e enum('a','b''c','ü'), s set('x','y','z'),
 j json, raw blob, b16 binary(8), vb varbinary(9), bits bit(12), u16 varchar(5) CHARACTER SET utf16"""
FULL = (
    "1, true, b'1', -32768, -128, 255, -8388608, 16777215, 4294967295, -9223372036854775808, 18446744073709551615,"
    " 16777217.5, 0.1, -1234567.89, 1234567890123456789012345678.0123456789,"
    " -12345678901234567890123456789012345.000000000000000000000000000001, -7, '2024-02-29', 1999,"
    " '2024-03-01 12:00:00.000005', '1970-01-01 00:00:01', '0001-01-02 03:04:05.678', '9999-12-31 23:59:59',"
    " '-838:59:58.25', '12:34:56', 'ab', 'q''\\\"\\\\ ', repeat('ü', 300), 'Ü€', repeat('x', 200), repeat('y', 70000),"
    " 'b''c', 'x,z', '{\"a\": 1}', x'00ff', x'0102000000000000', x'', b'101010101010', '😀'"
)
LOW = (
    "2, false, b'0', 0, 0, 0, -1, 0, 0, 0, 0, -0.1, -1e300, 0, -0.0000000001, 0.5, 0, '1000-01-01', 0,"
    " '1970-01-01 00:00:01.5', NULL, NULL, '1970-01-01 00:00:00', '00:00:00.01', '-00:00:01', '', '', '', '', '', '',"
    " 'ü', '', 'null', '', x'', x'00', b'0', ''"
)


@pytest.mark.parametrize("compress", [0, 1])
def test_values_of_the_log_are_those_of_the_table(mariadb, shop, make, compress):
    """A snapshot, which the server writes, is the oracle for what is read from the log."""
    source = make(TYPES)
    mariadb.execute(shop, f"SET GLOBAL log_bin_compress = {compress}", "SET GLOBAL log_bin_compress_min_len = 10")
    try:
        source.read()
        mariadb.execute(
            shop,
            "SET NAMES utf8mb4",
            "SET sql_mode = ''",
            *(f"INSERT INTO t VALUES ({v})" for v in (FULL, LOW, "3" + ", NULL" * 38)),
        )
        changes = source.read()
    finally:
        mariadb.execute(shop, "SET GLOBAL log_bin_compress = 0")
    assert [row["op"] for row in changes] == ["insert"] * 3
    rows = {row["id"]: row for row in source.anew()}
    for row in changes:
        expected = {**rows[row["id"]], **{name: row[name] for name in ("op", "lsn", "seq", "commit_time")}}
        assert row == expected
    first = changes[0]
    assert (first["ok"], first["bit1"], first["bu"], first["big"]) == (True, True, 18446744073709551615, -(1 << 63))
    assert (first["f"], first["cents"], first["n"], first["tm"]) == (16777218.0, "-1234567.89", "-7", "-838:59:58.25")
    assert (first["at"], first["local"], first["y"]) == ("2024-03-01T12:00:00.000005Z", "0001-01-02T03:04:05.678", 1999)
    assert (first["e"], first["s"], first["latin"], first["u16"], first["b16"]) == (
        "b'c",
        "x,z",
        "Ü€",
        "😀",
        "AQIAAAAAAAA=",
    )
    assert {name for name, value in changes[2].items() if value is not None} == {
        "id",
        "op",
        "lsn",
        "seq",
        "commit_time",
    }


def test_rows_of_an_xa_transaction_that_may_be_rolled_back_are_refused(mariadb, shop, make):
    source = make()
    assert source.read() == []
    mariadb.execute(
        shop, "CREATE TABLE other (id int)", "XA START 'a'", "INSERT INTO other VALUES (1)", "XA END 'a'",
        "XA PREPARE 'a'", "XA COMMIT 'a'", "XA START 'b'", "INSERT INTO t VALUES (1, 'one phase')", "XA END 'b'",
        "XA COMMIT 'b' ONE PHASE", "INSERT INTO t VALUES (2, 'plain')",
    )  # fmt: skip
    assert short(source.read()) == [("insert", 1, "one phase"), ("insert", 2, "plain")]
    mariadb.execute(
        shop, "XA START 'c'", "INSERT INTO t VALUES (3, 'never there')", "XA END 'c'", "XA PREPARE 'c'",
        "XA ROLLBACK 'c'",
    )  # fmt: skip
    with pytest.raises(SourceReadError, match="an XA transaction has changed the table"):
        source.read()
    assert short(source.anew()) == [("snapshot", 1, "one phase"), ("snapshot", 2, "plain")]


def test_a_snapshot_is_not_begun_while_an_xa_transaction_is_prepared(mariadb, shop, make, monkeypatch):
    """Its rows are logged before the snapshot, and are in the table after it."""
    source = make()
    mariadb.execute(shop, "XA START 'p'", "INSERT INTO t VALUES (1, 'late')", "XA END 'p'", "XA PREPARE 'p'")
    try:
        monkeypatch.setattr(landing, "LOOKS", 2)
        with pytest.raises(SourceReadError, match="XA transaction 'p' is prepared"):
            source.read()
    finally:
        mariadb.execute(shop, "XA COMMIT 'p'")
    assert short(source.read()) == [("snapshot", 1, "late")]


def test_a_savepoint_is_found_by_its_name_as_the_server_finds_it(mariadb, shop, make):
    """The way back is logged only if the transaction has changed a table that cannot go back."""
    source = make()
    assert source.read() == []
    mariadb.execute(
        shop, "CREATE TABLE plain (id int) ENGINE = MyISAM", "BEGIN", "INSERT INTO t VALUES (1, 'stays')",
        "SAVEPOINT `the Point`", "INSERT INTO plain VALUES (1)", "INSERT INTO t VALUES (2, 'goes')",
        "SAVEPOINT `another Point`", "ROLLBACK TO `The point`", "INSERT INTO t VALUES (3, 'stays')", "COMMIT",
    )  # fmt: skip
    assert short(source.read()) == [("insert", 1, "stays"), ("insert", 3, "stays")]
    assert mariadb.execute(shop, "SELECT id FROM t ORDER BY id") == [(1,), (3,)]


def test_odd_bytes_of_latin1_and_names_of_an_enum_are_as_in_a_snapshot(mariadb, shop, make):
    """A text of UTF-8 in a column of latin1, as older programs leave it, has bytes that cp1252 has no character for."""
    names = r"'x', 'a\\b', 'c\nd', 'it''s', 'e\rf'"
    source = make(f"id int PRIMARY KEY, v varchar(40) CHARACTER SET latin1, e enum({names}), s set({names})")
    source.read()
    mariadb.execute(shop, *(f"INSERT INTO t VALUES ({n}, x'C381C28D8F909D80', {n}, {1 << n - 1})" for n in range(1, 6)))
    changes, rows = (sorted(found, key=lambda row: row["id"]) for found in (source.read(), source.anew()))
    assert [(row["v"], row["e"], row["s"]) for row in changes] == [(row["v"], row["e"], row["s"]) for row in rows]
    assert changes[0]["v"] == "Ã\x81Â\x8d\x8f\x90\x9d€"
    assert [row["e"] for row in changes] == ["x", "a\\b", "c\nd", "it's", "e\rf"]


@pytest.mark.long
def test_no_change_lies_between_the_snapshot_and_the_log(mariadb, shop, make):
    source, done = make(), threading.Event()
    mariadb.execute(shop, "INSERT INTO t SELECT seq, 'a' FROM seq_1_to_500")

    def write():
        with mariadb.connected(shop) as connection, connection.cursor() as cursor:
            for n in range(1000, 1300):
                cursor.execute(f"INSERT INTO t VALUES ({n}, 'b')")
                cursor.execute(f"DELETE FROM t WHERE id = {n - 999}")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        source.read()
    writer.join()
    source.read()
    assert sorted(key for (key,) in folded(source.rows)) == [
        row[0] for row in mariadb.execute(shop, "SELECT id FROM t ORDER BY id")
    ]


@pytest.mark.long
def test_a_batch_that_is_planned_again_has_the_same_rows(mariadb, shop, make):
    source = make(rows=3)
    mariadb.execute(shop, "INSERT INTO t SELECT seq, 'a' FROM seq_1_to_7")
    plan = source.plan()
    end = plan.next({}, 3)
    first = source.batch(plan, {}, end)
    mariadb.execute(shop, "DELETE FROM t", "PURGE BINARY LOGS BEFORE now()")
    assert source.batch(source.plan(), {}, end) == first
    assert len(first) == 3


@pytest.mark.long
def test_a_transaction_is_one_batch(mariadb, shop, make):
    source = make(rows=3)
    source.read()
    mariadb.execute(shop, "INSERT INTO t SELECT seq, 'a' FROM seq_1_to_7", "INSERT INTO t VALUES (100, 'b')")
    plan = source.plan()
    end = plan.next(source.offsets, 3)
    assert len(source.batch(plan, source.offsets, end)) == 7


@pytest.mark.long
def test_a_log_that_was_purged_or_reset_is_a_loss(mariadb, shop, make):
    source = make()
    source.read()
    mariadb.execute(shop, "INSERT INTO t VALUES (1, 'a')")
    purge(mariadb, shop)
    for read in (source.check, source.read):
        with pytest.raises(DataLossError, match="the server has removed that file") as lost:
            read()
        assert "--new-generation" in lost.value.remedy
    assert short(source.anew()) == [("snapshot", 1, "a")]
    with MariaDbServer() as server:
        url = server.create_database()
        server.execute(url, "CREATE TABLE t (id bigint PRIMARY KEY)")
        other = Source(url, source.folder / "other")
        other.read()
        server.restart()
        server.execute(url, "INSERT INTO t VALUES (1)")
        assert [row["id"] for row in other.read()] == [1]
        server.execute(url, "RESET MASTER", "FLUSH BINARY LOGS", "INSERT INTO t SELECT seq FROM seq_2_to_300")
        for read in (other.check, other.read):
            with pytest.raises(DataLossError, match="reset"):
                read()
        server.kill()
        with pytest.raises(SourceReadError, match="has refused"):
            other.read()


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("TRUNCATE TABLE t", "was emptied by TRUNCATE"),
        ("ALTER TABLE t DROP COLUMN v", "a statement that logs no rows: ALTER TABLE t DROP"),
        ("ALTER TABLE t MODIFY v varchar(3)", "logs no rows"),
        ("RENAME TABLE t TO u, u TO t", "logs no rows: RENAME"),
        ("ALTER TABLE t ADD COLUMN w int DEFAULT 1", "new column 'w'"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "the key of the table"),
    ],
)
def test_what_rows_do_not_show_is_refused(mariadb, shop, make, statement, what):
    source = make()
    mariadb.execute(shop, "INSERT INTO t VALUES (1, 'a')")
    source.read()
    mariadb.execute(
        shop,
        statement,
        "INSERT INTO t (id) VALUES (2)" if "PRIMARY" not in statement else "INSERT INTO t VALUES (2, '')",
    )
    with pytest.raises(SourceReadError, match=what) as refused:
        source.read()
    assert "--new-generation" in refused.value.remedy
    assert len(source.anew()) == mariadb.execute(shop, "SELECT count(*) FROM t")[0][0]


def test_policies_and_what_does_no_harm(mariadb, shop, make):
    source = make(on_truncate="row", on_added="ignore")
    mariadb.execute(shop, "INSERT INTO t VALUES (1, 'a')")
    source.read()
    mariadb.execute(
        shop, "ALTER TABLE t ADD COLUMN w enum('x') DEFAULT 'x' FIRST, ADD INDEX (v)",
        "INSERT INTO t (id, v) VALUES (2, 'b')", "TRUNCATE t",
        "ALTER TABLE t COMMENT 'DROP COLUMN v', FORCE", "INSERT INTO t (id, v) VALUES (3, 'c')",
        "CREATE TABLE other LIKE t", "DROP TABLE other", "CREATE TEMPORARY TABLE t (id int)",
        "INSERT INTO t VALUES (9)",
        "DROP TEMPORARY TABLE t", "OPTIMIZE TABLE t", "ALTER TABLE t DROP COLUMN w", "UPDATE t SET v = 'd'",
    )  # fmt: skip
    assert short(source.read()) == [
        ("insert", 2, "b"),
        ("truncate", None, None),
        ("insert", 3, "c"),
        ("update", 3, "d"),
    ]


@pytest.mark.long
def test_a_statement_in_place_of_rows_is_refused(mariadb, shop, make):
    source = make()
    source.read()
    mariadb.execute(shop, "SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(SourceReadError, match="logs no rows: INSERT"):
        source.read()
    source.anew()
    mariadb.execute(shop, "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET v = 'b'")
    with pytest.raises(SourceReadError, match="has not logged the column"):
        source.read()


def test_a_foreign_key_that_changes_rows_unlogged_is_refused(mariadb, shop, make):
    mariadb.execute(shop, "CREATE TABLE parent (id bigint PRIMARY KEY)", "INSERT INTO parent VALUES (1)")
    source = make("id bigint PRIMARY KEY, p bigint, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE")
    with pytest.raises(SourceReadError, match="such changes are not logged") as refused:
        source.read()
    mariadb.execute(shop, refused.value.remedy.partition(", and")[0])
    mariadb.execute(shop, "INSERT INTO t VALUES (1, 1)")
    assert len(source.read()) == 1
    mariadb.execute(
        shop, "ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE", "DELETE FROM parent"
    )
    assert mariadb.execute(shop, "SELECT * FROM t") == []
    with pytest.raises(SourceReadError, match="logs no rows"):
        source.read()


@pytest.mark.long
def test_what_cannot_be_read_is_refused(mariadb, shop, make):
    source = make("id bigint PRIMARY KEY, u uuid, at datetime")
    with pytest.raises(SourceReadError, match="'u' of the table .* is uuid"):
        source.read()
    with pytest.raises(SchemaError, match="no column 'x'"):
        Source(shop, source.folder, fields={"x": "int"}).read()
    assert Source(shop, source.folder, fields={"id": "bigint"}, declared=True).read() == []
    mariadb.execute(shop, "CREATE TABLE m (id int) ENGINE = MyISAM")
    with pytest.raises(SourceReadError, match="plain tables of InnoDB"):
        Source(shop, source.folder / "m", table="m").read()
    with pytest.raises(SourceReadError, match="no table"):
        Source(shop, source.folder / "n", table="none").read()


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "value"),
    [("binlog_format", "MIXED"), ("binlog_row_image", "MINIMAL"), ("binlog_row_metadata", "MINIMAL")],
)
def test_a_server_that_logs_too_little_is_refused(mariadb, shop, make, setting, value):
    source = make()
    mariadb.execute(shop, f"SET GLOBAL {setting} = '{value}'")
    try:
        with pytest.raises(ConfigurationError, match=setting) as refused:
            source.read()
    finally:
        mariadb.execute(shop, refused.value.remedy.partition(";")[0])
    assert source.read() == []


TABLE = {"of": ("shop", "orders"), "fields": ["id", "state"]}


@pytest.mark.parametrize(
    ("sql", "effect"),
    [
        ("/* ALTER TABLE orders DROP id */ SELECT", "unlogged"),
        ("/*!50000 ALTER */ TABLE `orders` DROP `State`", "unlogged"),
        ("alter table shop.orders change column note memo text", "none"),
        ("alter table shop.orders change column note state text", "unlogged"),
        ("ALTER TABLE other.orders DROP state", "none"),
        ("ALTER TABLE orders ADD (a int, b int), ADD CONSTRAINT c CHECK (state <> 'drop id')", "none"),
        ("ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES x (b) ON DELETE SET NULL", "unlogged"),
        ("ALTER TABLE orders CONVERT TO CHARACTER SET utf8mb4", "unlogged"),
        ("ALTER TABLE orders TRUNCATE PARTITION p", "unlogged"),
        ("ALTER TABLE orders DROP PARTITION p", "unlogged"),
        ("ALTER TABLE p EXCHANGE PARTITION a WITH TABLE orders", "unlogged"),
        ("ALTER TABLE orders RENAME COLUMN id TO key_", "unlogged"),
        ("ALTER TABLE orders RENAME INDEX id TO key_", "none"),
        ("ALTER TABLE orders ENGINE=InnoDB, LOCK=NONE", "none"),
        ("ALTER TABLE orders ENGINE=MyISAM", "unlogged"),
        ("ALTER TABLE orders DROP IF EXISTS note, DROP KEY state", "none"),
        ("CREATE OR REPLACE TABLE shop.orders (id int)", "unlogged"),
        ("CREATE TABLE x LIKE orders", "none"),
        ("DROP TABLE IF EXISTS `shop`.`orders` /* generated by server */", "unlogged"),
        ("DROP DATABASE shop", "unlogged"),
        ("DROP DATABASE other", "none"),
        ("CREATE TRIGGER x AFTER INSERT ON orders FOR EACH ROW DELETE FROM orders", "none"),
        ("INSERT INTO log VALUES ('it''s', \"a\\\"b\")", "unlogged"),
        ("GRANT SELECT ON orders TO me", "none"),
        ("TRUNCATE /* all */ shop . orders", "truncate"),
        ("ANALYZE TABLE orders", "none"),
        ("", "none"),
    ],
)
def test_statements_are_understood_or_refused(sql, effect):
    assert effect_of(sql, "shop", **TABLE) == effect


CAMPAIGN = [pytest.param(0, marks=pytest.mark.canary), *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 12))]


@pytest.mark.parametrize("seed", CAMPAIGN)
def test_random_transactions_lead_to_the_table(mariadb, shop, make, seed):
    """Rollbacks, savepoints, changed keys, truncation and DDL; readers end at any point, and the server is killed."""
    rand = random.Random(seed)
    source = make(
        "id bigint PRIMARY KEY, v varchar(40), n decimal(9,2), at datetime(6)",
        on_truncate="row",
        on_added="ignore",
        rows=rand.choice([1, 7, 1000]),
    )
    for turn in range(6 if seed == 0 else 25):
        mariadb.execute(shop, *_transactions(rand, turn))
        if rand.random() < 0.3:
            _cut_off(source, rand)
        if seed and rand.random() < 0.1:
            mariadb.kill()
            mariadb.start()
        source.read()
        table = {
            (i,): {"id": i, "v": v, "n": n and str(n), "at": at and at.isoformat(timespec="microseconds")}
            for i, v, n, at in mariadb.execute(shop, "SELECT id, v, n, at FROM t")
        }
        assert folded(source.rows) == table


def _cut_off(source, rand):
    """A process that ends after rows have landed, or after a batch was planned, and before it was committed."""
    plan = source.plan()
    for _ in range(rand.randrange(3)):
        end = plan.next(source.offsets, source.max_rows)
        if end != source.offsets:
            source.batch(plan, source.offsets, end)


def _transactions(rand, turn):
    for _ in range(rand.randrange(1, 8)):
        inner = [_statement(rand, turn) for _ in range(rand.randrange(1, 6))]
        if rand.random() < 0.3:
            inner += ["SAVEPOINT s", _statement(rand, turn), "ROLLBACK TO SAVEPOINT s"]
        yield from ("BEGIN", *inner, rand.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        yield from rand.choice(
            [[], [], [], ["TRUNCATE t"], ["FLUSH BINARY LOGS"], ["ALTER TABLE t COMMENT 'x', FORCE"]]
        )


def _statement(rand, turn):
    one, other = rand.randrange(30), rand.randrange(30)
    return rand.choice(
        [
            f"REPLACE INTO t (id, v, n, at) VALUES ({one}, 'v{turn}ü', {rand.randrange(-999, 999) / 100}, now(6))",
            f"INSERT INTO t (id, v) VALUES ({one}, NULL), ({other}, '') ON DUPLICATE KEY UPDATE v = 'again{turn}'",
            f"UPDATE t SET id = id + 1000 + {turn * 10} WHERE id = {one}",
            f"UPDATE IGNORE t SET id = {other} WHERE id = {one}",
            f"DELETE FROM t WHERE id IN ({one}, {other})",
            "UPDATE t SET v = concat(left(v, 20), '!')",
        ]
    )

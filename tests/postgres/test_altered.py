"""What becomes of a table, its publication and its slot that the log does not show is refused, and not passed over."""

from __future__ import annotations

import pytest

from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.postgres.landing import Landing
from rs_assets.connectors.postgres.server import Server
from rs_assets.errors import DataLossError, SourceReadError
from tests.postgres.plain import Source

TABLE = "CREATE TABLE t (id int PRIMARY KEY, code int NOT NULL UNIQUE, v numeric(9, 2), note varchar(9))"
ROW = "INSERT INTO t VALUES (1, 10, 1.5, 'a')"


@pytest.fixture
def shop(postgres, database):
    """Executes statements, each a transaction."""

    def execute(*statements):
        with postgres.connected(database) as connection:
            for statement in statements:
                found = connection.execute(statement)
        return found.fetchall() if found.description is not None else []

    execute(TABLE, ROW, "ALTER TABLE t REPLICA IDENTITY FULL")
    yield execute
    execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'plain'")


@pytest.fixture
def source(shop, database, tmp_path):
    return Source(database, tmp_path / "landed")


def test_a_column_that_becomes_another_is_refused(shop, source):
    source.read()
    for altered, what in (
        ("ALTER TABLE t DROP v; ALTER TABLE t ADD v numeric(9, 2)", "the column 'v' .* is another one"),
        ("ALTER TABLE t RENAME v TO w; ALTER TABLE t ADD v numeric(9, 2); ALTER TABLE t DROP w", "another one"),
        ("ALTER TABLE t ALTER v TYPE numeric(12, 4)", "'v' .* has another type"),
        ("ALTER TABLE t ALTER note TYPE char(20)", "'note' .* has another type"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (code)", r"was \(id\) and is \(code\)"),
    ):
        shop(altered, "UPDATE t SET code = code + 1")
        with pytest.raises(SourceReadError, match=what) as refused:
            source.read()
        assert "--new-generation" in refused.value.remedy
        (row,) = source.anew()
        assert row["op"] == "snapshot"
        assert row["code"] == shop("SELECT code FROM t")[0][0]


def test_a_wider_column_goes_on(shop, source):
    source.read()
    shop(
        "ALTER TABLE t ALTER code TYPE bigint",
        "ALTER TABLE t ALTER note TYPE text",
        "UPDATE t SET note = 'longer text'",
    )
    assert [(row["op"], row["note"]) for row in source.read()] == [("update", "longer text")]


def test_a_large_value_that_a_change_of_the_key_does_not_log_is_refused(shop, source):
    shop(
        "ALTER TABLE t ADD big text",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "UPDATE t SET big = repeat('x', 9000)",
    )
    source.read()
    shop("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET id = 2")
    with pytest.raises(SourceReadError, match="has not logged the column 'big'"):
        source.read()


def test_a_publication_that_leaves_out_rows_or_columns_is_refused(shop, source):
    shop("CREATE PUBLICATION plain FOR TABLE t WHERE (id > 10)")
    for what in ("leaves out rows", "leaves out columns"):
        with pytest.raises(SourceReadError, match=what) as refused:
            source.read()
        shop(*refused.value.remedy.split("; "))
        if what == "leaves out rows":
            shop("ALTER PUBLICATION plain SET TABLE t (id)")
    assert len(source.read()) == 1


def test_changes_of_a_time_without_the_publication_are_missed(shop, source):
    source.read()
    for without, again in (
        ("ALTER PUBLICATION plain DROP TABLE t", "ALTER PUBLICATION plain ADD TABLE t"),
        ("DROP PUBLICATION plain", "CREATE PUBLICATION plain FOR TABLE t"),
    ):
        shop(without, "UPDATE t SET code = code + 1", again, "UPDATE t SET v = 3")
        with pytest.raises(DataLossError, match="was taken out of its publication") as refused:
            source.read()
        assert "--new-generation" in refused.value.remedy
        assert [row["code"] for row in source.anew()] == [row[0] for row in shop("SELECT code FROM t")]


def test_rows_that_a_policy_hides_are_not_left_out(shop, source, database):
    shop("CREATE ROLE app LOGIN REPLICATION", "CREATE PUBLICATION plain FOR TABLE t", "GRANT SELECT ON t TO app")
    shop("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY few ON t USING (id > 1)")
    source.server = Server(Place(hidden(database.replace("postgres@", "app@")), "source"))
    with pytest.raises(SourceReadError, match="row-level security") as refused:
        source.read()
    assert "BYPASSRLS" in refused.value.remedy
    shop("ALTER ROLE app BYPASSRLS")
    assert len(source.read()) == 1
    shop("DROP OWNED BY app", "DROP ROLE app")


def test_tables_whose_changes_are_not_all_there_are_refused(shop, database, tmp_path):
    shop("CREATE TABLE child () INHERITS (t)", "CREATE UNLOGGED TABLE quick (id int PRIMARY KEY)")
    for table, what, remedy in (("t", "inherit from this one", "by its name"), ("quick", "not logged", "SET LOGGED")):
        with pytest.raises(SourceReadError, match=what) as refused:
            Source(database, tmp_path, table=table).read()
        assert remedy in refused.value.remedy


def test_a_table_that_is_altered_while_the_slot_is_made_is_read_at_the_next_start(shop, source, monkeypatch):
    original = Landing._check_same

    def altered(landing, connection, table):
        shop("ALTER TABLE t ADD more int DEFAULT 7")
        original(landing, connection, table)

    monkeypatch.setattr(Landing, "_check_same", altered)
    with pytest.raises(SourceReadError, match="altered while") as refused:
        source.read()
    assert refused.value.remedy == "start again"
    monkeypatch.undo()
    source.options["fields"] = None
    assert [row["more"] for row in source.read()] == [7]


def test_a_number_that_no_field_holds_is_a_bad_record(shop, source):
    shop("ALTER TABLE t ALTER v TYPE numeric", "UPDATE t SET v = 12345678901234567890123")
    source.options["fields"] = {"id": "int", "v": "bigint"}
    assert [row["v"] for row in source.read()] == ["12345678901234567890123"]


def test_a_table_whose_updates_would_fail_once_it_is_published_is_refused(shop, source):
    shop("ALTER TABLE t ADD twice int GENERATED ALWAYS AS (code * 2) STORED")
    with pytest.raises(SourceReadError, match="would refuse each UPDATE") as refused:
        source.read()
    shop("UPDATE t SET code = 7", refused.value.remedy, "ALTER TABLE t DROP note, DROP v")
    source.options["fields"] = None
    source.read()
    shop("UPDATE t SET code = 8", "DELETE FROM t")
    assert [row["op"] for row in source.read()] == ["update", "delete"]

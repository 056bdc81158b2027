"""A transaction of more than 4 GiB: places in a file of the log have 32 bits. Events are made without a server."""

from __future__ import annotations

import pytest

from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.mariadb import binlog, landing
from rs_assets.connectors.mariadb.binlog import Event
from rs_assets.connectors.mariadb.changes import Changes
from rs_assets.connectors.mariadb.server import Server, lsn_of
from rs_assets.connectors.mariadb.table import Column, Table
from rs_assets.errors import SourceReadError

BEGUN, GREAT = (3 << 32) + 4_000_000_000, 4_100_000_000
TABLE = Table("shop", "t", (Column("id", "int", "int(11)"),), ("id",))


def event(kind, end, body=bytes(13)):
    return Event(kind, 0, end, 0, body)


ROTATED = event(binlog.ROTATE, 900, (4).to_bytes(8, "little") + b"binlog.000004")
# One transaction whose end has passed 32 bits, and the file that follows.
LARGE = [event(binlog.GTID, GREAT), event(160, 500), event(binlog.XID, 700)]


def changes_of():
    return Changes(table=TABLE, fields={"id": "int"}, step="source", file=3, end=BEGUN)


def told(changes, events):
    lines = []
    for each in events:
        if each.kind == binlog.XID:
            changes._add("insert", None)
        lines += changes.lines(each)
    return [lsn for lsn, _ in lines]


def test_a_place_after_4_gib_is_that_of_the_next_file():
    changes = changes_of()
    assert told(changes, LARGE) == [(3 << 32) + GREAT]
    assert (changes.end, changes.beyond) == (BEGUN, True)
    changes.lines(ROTATED)
    assert (changes.end, changes.beyond) == (lsn_of("binlog.000004", 4), False)


def test_a_change_whose_place_has_no_number_is_refused():
    changes = changes_of()
    told(changes, LARGE)
    with pytest.raises(SourceReadError, match="more than 4 GiB in one file"):
        told(changes, [event(binlog.GTID, 800), event(binlog.XID, 850)])


@pytest.mark.parametrize("events", [[*LARGE, ROTATED], LARGE], ids=["next file", "none yet"])
def test_rows_of_a_large_transaction_land_with_the_file_that_follows(monkeypatch, events):
    """Else the next look would begin within the transaction, or give its rows once more."""

    class Client:
        def events(self, file, position, server_id):
            yield from events

    class Landed:
        def reached(self):
            return BEGUN

    monkeypatch.setattr(landing, "check_place", lambda *_, **__: "binlog.000003")
    made = landing.Landing(
        server=Server(Place(hidden("mysql://localhost/shop")), 7), table="t", step="source", fields={"id": "int"},
        declared=False, snapshot=True, on_truncate="fail", on_added="fail", rows=1,
    )  # fmt: skip
    changes = changes_of()
    changes._rows.append(b'{"op":"insert"')
    found = made._lines(Client(), changes, Landed(), until=BEGUN + 1)
    if ROTATED in events:
        assert [lsn for lsn, _ in found] == [(3 << 32) + GREAT]
        assert changes.end == lsn_of("binlog.000004", 4)
        return
    with pytest.raises(SourceReadError, match="places after that have no number") as refused:
        list(found)
    assert "FLUSH BINARY LOGS" in refused.value.remedy

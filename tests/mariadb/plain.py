"""A pipeline's source without Spark: batches are planned and read in this process, and kills are errors."""

from __future__ import annotations

import json
from datetime import timedelta

from rs_assets.connectors.changes.plan import ChangesPlan
from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.mariadb.landing import Landing, check_place
from rs_assets.connectors.mariadb.server import Server
from rs_assets.connectors.mariadb.table import table_of
from rs_assets.testing.servers.process import settle


class Source:
    """Reads the changes of a table; `offsets` is what Spark has committed, `rows` are those of committed batches."""

    def __init__(self, url, folder, *, table="t", server_id=5401, rows=50, **options):
        self.server, self.table, self.folder = Server(Place(hidden(url), "source"), server_id), table, folder
        self.max_rows, self.options = rows, options
        self.offsets, self.rows, self.split = {}, [], "g0001"

    def landing(self):
        options = {"snapshot": True, "on_truncate": "fail", "on_added": "fail", "declared": False, **self.options}
        if options.get("fields") is None:
            with self.server.connected() as client:
                self.options["fields"] = options["fields"] = table_of(client.ask, self.table, step="source").fields()
        options.pop("keep", None)
        return Landing(server=self.server, table=self.table, step="source", rows=self.max_rows, **options)

    def plan(self):
        return ChangesPlan(self.landing(), self.folder, self.split, self.options.get("keep", timedelta(days=1)))

    def read(self):
        """All there is now, batch by batch, by a process of its own; the rows of these batches."""
        plan, before = self.plan(), len(self.rows)
        plan.freeze()
        while (end := plan.next(self.offsets, self.max_rows)) != self.offsets:
            self.rows += self.batch(plan, self.offsets, end)
            self.offsets = end
            plan.committed(end)
        return self.rows[before:]

    def batch(self, plan, start, end):
        """The rows of a planned batch, each time."""
        ((split, at),) = end.items()
        since = start[split].next if split in start else at.first
        made = [batch.to_pylist() for batch in plan.read(split, since, at.next)]
        return [json.loads(line["value"]) for lines in made for line in lines]

    def check(self):
        """As before the start of a run."""
        from rs_assets.connectors.changes.landed import Landed

        with self.server.connected() as client:
            check_place(client, Landed(self.folder / self.split))

    def anew(self):
        """A new generation."""
        self.split = f"g{int(self.split[1:]) + 1:04}"
        self.offsets, self.rows = {}, []
        self.options.pop("fields", None)
        return self.read()


def folded(rows, keys=("id",)):
    """The table that the changes lead to."""
    table = {}
    for row in rows:
        if row["op"] == "truncate":
            table.clear()
            continue
        key = tuple(row[name] for name in keys)
        if row["op"] == "delete":
            del table[key]
        else:
            assert (key in table) == (row["op"] == "update"), row
            table[key] = {name: value for name, value in row.items() if name not in ("op", "lsn", "seq", "commit_time")}
    return table


def purge(server, url):
    """Remove all files of the log but the last; the server keeps some until it has noted what they contain."""
    server.execute(url, "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")

    def purged():
        last = server.execute(url, "SHOW BINARY LOGS")[-1][0]
        server.execute(url, f"PURGE BINARY LOGS TO '{last}'")
        return len(server.execute(url, "SHOW BINARY LOGS")) == 1

    settle(purged, "the log is not purged")


def short(rows):
    return [(row["op"], row.get("id"), row.get("v")) for row in rows]

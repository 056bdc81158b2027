"""A pipeline's source without Spark: batches are planned and read in this process, and kills are errors."""

from __future__ import annotations

import json
from datetime import timedelta

from rs_assets.connectors.changes.plan import ChangesPlan
from rs_assets.connectors.database.place import Place, hidden
from rs_assets.connectors.postgres.landing import Landing
from rs_assets.connectors.postgres.server import Server
from rs_assets.connectors.postgres.slot import Slot
from rs_assets.connectors.postgres.table import table_of


class Killed(Exception):
    """As if the process had ended here."""


class Source:
    """Reads the changes of a table; `offsets` is what Spark has committed, `rows` are those of committed batches."""

    def __init__(self, url, folder, *, table="t", slot="plain", rows=50, **options):
        self.server, self.table, self.folder = Server(Place(hidden(url), "source")), table, folder
        self.slot, self.max_rows, self.options = Slot(slot, slot, "source"), rows, options
        self.offsets, self.rows, self.split = {}, [], "g0001"

    def plan(self):
        options = {"snapshot": True, "on_truncate": "fail", "on_added": "fail", "fields": None, **self.options}
        fields = options.pop("fields")
        if fields is None:
            with self.server.connected() as connection:
                fields = table_of(connection, self.table, step="source").fields()
                self.options["fields"] = fields
        keep = options.pop("keep", timedelta(days=1))
        landing = Landing(
            server=self.server, table=self.table, slot=self.slot, fields=fields, declared=False, rows=self.max_rows,
            **options,
        )  # fmt: skip
        return ChangesPlan(landing, self.folder, self.split, keep)

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
        key = tuple(row[name] for name in keys)
        if row["op"] == "delete":
            del table[key]
        else:
            assert (key in table) == (row["op"] == "update"), row
            table[key] = {name: value for name, value in row.items() if name not in ("op", "lsn", "seq", "commit_time")}
    return table

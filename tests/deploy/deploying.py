"""A deployed pipeline of a test: its texts, its input, and what its table must hold."""

from __future__ import annotations

import json
import threading
import time

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.deployments import SCHEMA, DeploymentTable
from rs_assets.deploy.history import History, standing

NAME = "shop.totals"
PATIENCE_S = 240
# A group keeps its count for ever: state that a change must keep.
COUNTING = """
CREATE TABLE clicks (page STRING, ms BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE totals (page STRING, n BIGINT, ms BIGINT{more}, PRIMARY KEY (page) NOT ENFORCED)
    WITH ('connector' = 'delta', 'table' = 'totals');
CREATE VIEW by_page AS SELECT page, COUNT(*) AS n, SUM(ms) AS ms FROM clicks WHERE ms >= {least} GROUP BY page;
INSERT INTO totals SELECT {select} FROM by_page
"""


class Deployed:
    """A home with a pipeline over a folder of files, and a thread that runs its supervisor."""

    def __init__(self, home, folder):
        self.home, self.folder = home, folder
        self.table = DeploymentTable(home.deployments)
        self.history = History(Catalog(home.catalog))
        self.written = []
        self.ended = None
        folder.mkdir(exist_ok=True)

    def text(self, *, select="page, n, ms", least=0, more=""):
        return COUNTING.format(folder=self.folder, select=select, least=least, more=more)

    def insert(self, version, **columns):
        """A plain INSERT, as any program that writes Delta does it."""
        row = {"pipeline": NAME, "version": version, "state": "running", **columns}
        rows = pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names}], schema=SCHEMA)
        write_deltalake(str(self.table.path), rows, mode="append")

    def write(self, *rows):
        """A file of input, which comes whole."""
        number = len(list(self.folder.iterdir()))
        part = self.folder / f".{number}.part"
        part.write_text("".join(json.dumps({"page": page, "ms": ms}) + "\n" for page, ms in rows))
        part.rename(self.folder / f"{number:04d}.json")
        self.written += rows

    def rows(self, table="totals"):
        path = self.home.table("shop", table)
        return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []

    def totals(self, least=0):
        """A plain model of the statements."""
        good = [(page, ms) for page, ms in self.written if ms is None or ms >= least]
        return {page: (sum(p == page for p, _ in good), sum(m for p, m in good if p == page)) for page, _ in good}

    def events(self, version):
        return [event.event for event in self.history.of(NAME) if event.version == version]

    def told(self, version):
        return [event.summary for event in self.history.of(NAME) if event.version == version]

    def ask(self):
        requests.ask(self.home.job("shop", "totals"), "change", reason="a test")

    def stop(self):
        requests.ask(self.home.job("shop", "totals"), "stop", reason="a test")

    @property
    def standing(self):
        return standing(self.table.of(NAME), self.history.of(NAME))

    def until(self, holds, what):
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, (
                f"{what}: {[(e.version, e.event, e.summary) for e in self.history.of(NAME)]}"
            )
            if self.ended is not None and self.ended.error is not None:
                raise self.ended.error
            threading.Event().wait(0.1)


class Supervised(threading.Thread):
    """A supervisor in a thread of its own; within `with` it runs, and is asked to stop at the end."""

    def __init__(self, deployed, supervisor):
        super().__init__(daemon=True)
        self.deployed, self.supervisor, self.error, self.report = deployed, supervisor, None, None

    def run(self):
        try:
            self.report = self.supervisor.run()
        except BaseException as error:  # noqa: BLE001  the test raises it
            self.error = error

    def __enter__(self):
        self.deployed.ended = self
        self.start()
        return self

    def __exit__(self, *_):
        self.deployed.stop()
        self.join(60)
        self.deployed.ended = None

"""The promises of sources and sinks, held against our own and those of strangers; and against broken ones."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import pytest

from rs_assets.sinks import RowsRefused
from rs_assets.sources import LogSource
from rs_assets.testing import SinkCase, SourceCase, check_sink, check_source
from rs_assets.testing.servers.process import ServerProcess
from tests.connectors.http_poller import Tickets
from tests.connectors.redis_stream import RedisStream, command
from tests.connectors.test_batch_sink import Client, Ledger


def row(n):
    return {"page": f"/é{n}", "ms": n}


class Table:
    """A table of SQLite, as a source and as a sink."""

    def __init__(self, path):
        self.path = path
        self.execute("CREATE TABLE hits (id INTEGER PRIMARY KEY AUTOINCREMENT, page TEXT, ms INTEGER)")

    def execute(self, sql, *rows):
        with closing(sqlite3.connect(self.path)) as database, database:
            database.executemany(sql, rows) if rows else database.execute(sql)

    def add(self, rows):
        self.execute("INSERT INTO hits (page, ms) VALUES (:page, :ms)", *rows)

    def rows(self):
        with closing(sqlite3.connect(self.path)) as database:
            there = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'out'").fetchone()
            found = database.execute("SELECT n, text FROM out").fetchall() if there else []
        return [{"n": n, "text": text} for n, text in found]


@pytest.mark.canary
def test_a_table_of_sqlite_should_keep_the_promises_of_a_source(tmp_path, driver):
    table = Table(tmp_path / "shop.db")
    check_source(
        SourceCase(
            stream=lambda begin, bad: begin.from_sqlite(
                table.path, "hits", schema="page string, ms bigint", bad_records=bad
            ),
            row=row,
            add=table.add,
            lose=lambda: table.execute("DELETE FROM hits WHERE id > (SELECT max(id) FROM hits) - 2"),
            add_bad=lambda: table.add([{"page": "/", "ms": "soon"}]),
        ),
        spark=driver,
        home=tmp_path / "rs",
    )


def test_a_table_of_sqlite_should_keep_the_promises_of_a_sink(tmp_path, driver):
    table = Table(tmp_path / "shop.db")
    case = SinkCase(write=lambda stream: stream.to_sqlite(table.path, "out", name="sink"), rows=table.rows)
    check_sink(case, spark=driver, home=tmp_path / "rs")


@pytest.fixture
def redis(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    path = tmp_path / "redis.sock"
    settings = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)]
    server = ServerProcess(["redis-server", *settings], log_file=tmp_path / "redis.log")
    server.start()
    while not path.exists():
        assert not server.ended_within(0.05)
    yield path
    server.close()


def test_a_stream_of_redis_should_keep_the_promises_of_a_source(tmp_path, driver, redis):
    ids = itertools.count(1)

    def put(text):
        command(redis, "XADD", "hits", f"{1000 + next(ids) * 7}-{next(ids) % 3}", "row", text)

    check_source(
        SourceCase(
            stream=lambda begin, bad: begin.from_source(RedisStream(redis, "hits"), bad_records=bad),
            row=row,
            add=lambda rows: [put(json.dumps(each)) for each in rows],
            lose=lambda: command(redis, "XTRIM", "hits", "MAXLEN", "0"),
            add_bad=lambda: put("{"),
        ),
        spark=driver,
        home=tmp_path / "rs",
    )


@pytest.fixture
def service():
    """A server of pages of two rows on loopback."""
    rows = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self):
            after = int(parse_qs(urlparse(self.path).query)["after"][0])
            page = rows[after : after + 2]
            body = json.dumps({"rows": page, "next": after + len(page)}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/rows", rows
        server.shutdown()


def test_an_http_poller_should_keep_the_promises_of_a_source(tmp_path, driver, service):
    url, rows = service
    check_source(
        SourceCase(
            stream=lambda begin, bad: begin.from_source(Tickets(url), bad_records=bad),
            row=row,
            add=rows.extend,
            add_bad=lambda: rows.append({"page": "/", "ms": "soon"}),
        ),
        spark=driver,
        home=tmp_path / "rs",
    )


class Notes(Ledger):
    """The sink of docs/connectors.md: exactly once, with refused rows."""

    refused = "dead_letter"

    def write(self, rows, mark):
        if bad := {at: "no text" for at, row in enumerate(rows) if not row["text"]}:
            raise RowsRefused(bad)
        with self._database() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("CREATE TABLE IF NOT EXISTS notes (n INTEGER, text TEXT)")
            database.executemany("INSERT INTO notes VALUES (:n, :text)", rows)
            database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", [mark.writer, mark.number])
            database.execute("COMMIT")

    def rows(self):
        with self._database() as database:
            there = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone()
            found = database.execute("SELECT n, text FROM notes").fetchall() if there else []
        return [{"n": n, "text": text} for n, text in found]


def test_a_sink_by_a_client_should_keep_the_promises_of_a_sink(tmp_path, driver):
    sink = Notes(tmp_path / "notes.db")
    case = SinkCase(
        write=lambda stream: stream.to(sink, name="sink"), rows=sink.rows, refused={"n": 1000, "text": None}
    )
    check_sink(case, spark=driver)


class Moody(LogSource):
    """Returns other values each time."""

    schema = "page string, ms bigint"

    def __init__(self, folder):
        self.folder = folder

    def ends(self):
        return {"all": len([*self.folder.iterdir()])}

    def read(self, split, start, end):
        import random

        return [{"page": "/", "ms": random.random()} for _ in range(start, end)]


def test_a_source_that_returns_other_rows_should_be_found_out(tmp_path, driver):
    folder = tmp_path / "in"
    folder.mkdir()
    case = SourceCase(
        stream=lambda begin, bad: begin.from_source(Moody(folder), schema="page string, ms double"),
        row=row,
        add=lambda rows: [(folder / str(each["ms"])).touch() for each in rows],
    )
    with pytest.raises(AssertionError, match="each row is read once: over restarts, 3 are missing"):
        check_source(case, spark=driver)


def test_a_sink_that_doubles_rows_should_be_found_out(driver):
    sink, written = Client(), []
    sink.write = lambda rows, mark: written.extend(rows)
    case = SinkCase(write=lambda stream: stream.to(sink, name="sink"), rows=lambda: written)
    with pytest.raises(
        AssertionError,
        match="each row is written once: after a crash, batch computed, 0 are missing|committed, 0 are missing",
    ):
        check_sink(case, spark=driver)

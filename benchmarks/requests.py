"""Sinks of requests against their client alone, which sends the same rows; the stub has a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench import Bench
from benchmarks.data import SCHEMA
from benchmarks.measure import Figure, compare
from rs_assets import HttpEndpoint, RunOptions, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.http.client import HttpClient
from rs_assets.connectors.search.bulk import NDJSON, PATH
from rs_assets.errors import SinkError

if TYPE_CHECKING:
    from rs_assets.stream.data_stream import DataStream

ROWS, SOME = 500, 10
SERVER = """
import sys
from rs_assets.testing import {name}
with {name}() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
HEAD = b'{"create":{"_index":"rows","_id":"%d-%d"}}\n'


def request_figures(bench: Bench) -> Iterator[Figure]:
    """See the module."""
    rows = bench.views(max(bench.rows // SOME, 1))
    for what, server, write, send in (
        ("to_http, JSON lines", "HttpServer", lambda stream, url: stream.to_http(url, batch=ROWS), _post),
        ("to_search, append", "SearchServer", lambda stream, url: stream.to_search(url, "rows", batch=ROWS), _bulk),
    ):
        bench.say(what)
        yield _figure(bench, what, server, write, send, rows)


def _figure(
    bench: Bench,
    what: str,
    server: str,
    write: Callable[[DataStream, str], DataStream],
    send: Callable[[str, Path], int],
    rows: Path,
) -> Figure:
    def ours() -> int:
        with _served(server) as url, bench.place() as folder:
            stream = StreamBuilder.data_stream("bench", "sent").from_file(str(rows), schema=SCHEMA)
            report = write(stream, url).build().run(RunOptions(home=Home(folder), driver=bench.driver))
            return report.rows_in

    def alone() -> int:
        with _served(server) as url:
            return send(url, rows)

    comparison = compare(ours, alone, pairs=bench.pairs, warm_up=bench.warm_up)
    seconds = [statistics.median(taken.seconds for taken in runs) for runs in (comparison.ours, comparison.other)]
    count = bench.rows // SOME
    return Figure(
        benchmark="sinks of requests",
        what=f"{what}, {ROWS} a request, against the client alone",
        value=comparison.ratio,
        unit="x",
        note=f"{count / seconds[0]:,.0f} rows/s against {count / seconds[1]:,.0f}, Spark's part and starts included",
    )


@contextmanager
def _served(name: str) -> Iterator[str]:
    """The address of a stub in another process."""
    command = [sys.executable, "-c", SERVER.replace("{name}", name)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def _parts(rows: Path) -> Iterator[Sequence[bytes]]:
    for file in sorted(rows.iterdir()):
        lines = file.read_bytes().splitlines()
        yield from (lines[at : at + ROWS] for at in range(0, len(lines), ROWS))


def _client(url: str) -> closing[HttpClient]:
    return closing(HttpClient(endpoint=HttpEndpoint(url=url), step="alone", failure=SinkError))


def _post(url: str, rows: Path) -> int:
    sent = 0
    with _client(url) as client:
        for part in _parts(rows):
            assert client.ask("POST", b"\n".join(part) + b"\n", {"Content-Type": "application/x-ndjson"}).good
            sent += len(part)
    return sent


def _bulk(url: str, rows: Path) -> int:
    sent = 0
    with _client(url) as client:
        for number, part in enumerate(_parts(rows)):
            body = b"".join(HEAD % (number, at) + line + b"\n" for at, line in enumerate(part))
            assert client.ask("POST", body, NDJSON, url=f"{url}{PATH}").good
            sent += len(part)
    return sent

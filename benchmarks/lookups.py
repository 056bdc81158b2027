"""Lookups in a served store while batches are written into it: from Python, and by HTTP with its client.

Run as a module with the file of a store it is the server, as `rs-assets serve` is a process of its own.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.keys import scaled
from benchmarks.measure import Figure
from rs_assets import MemoryChannel, Pipeline, RunOptions, StreamBuilder
from rs_assets.cli.rows.query_server import server_of
from rs_assets.common.home import Home
from rs_assets.connectors.store.reader import Store

KEYS, CHANGED, LOOKUPS, BY_HTTP = 200_000, 1_000, 20_000, 4_000
MOST_MS, MOST_HTTP_MS = 1.0, 5.0
STORE, TOKEN = "totals", "bench"


def lookup_figures(bench: Bench) -> Iterator[Figure]:
    """The 99th percentile of each, with the median."""
    keys = scaled(KEYS, bench.rows)
    channel = MemoryChannel(schema="id bigint, ms bigint")
    pipeline = StreamBuilder.data_stream("bench", "lookups").from_memory(channel).to_table("id").serve(STORE).build()
    with bench.place() as folder:
        options = RunOptions(home=Home(folder), driver=bench.driver)
        bench.say(f"a store of {keys:,} keys")
        channel.put(*({"id": key, "ms": key} for key in range(keys)))
        pipeline.run(options)
        with _written(pipeline, channel, options, keys), pipeline.query(STORE, options) as store:
            bench.say("lookups from Python")
            yield _figure("get from Python", _timed(lambda key: _get(store, key), keys, LOOKUPS), keys, MOST_MS)
            with _served(store.path) as port:
                bench.say("lookups by HTTP")
                connection = http.client.HTTPConnection("127.0.0.1", port)
                took = _timed(lambda key: _ask(connection, key), keys, BY_HTTP)
                connection.close()
            yield _figure("get by HTTP, one connection, client included", took, keys, MOST_HTTP_MS)


@contextmanager
def _written(pipeline: Pipeline, channel: MemoryChannel, options: RunOptions, keys: int) -> Iterator[None]:
    """A stream that changes some rows, batch after batch."""
    ended = threading.Event()

    def feed() -> None:
        chance = random.Random(1)
        while not ended.wait(0.5):
            channel.put(*({"id": key, "ms": key} for key in chance.sample(range(keys), min(CHANGED, keys))))

    with pipeline.start(options):
        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            yield
        finally:
            ended.set()
            feeder.join()


@contextmanager
def _served(path: Path) -> Iterator[int]:
    """The port of a server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.lookups", str(path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def _get(store: Store, key: int) -> None:
    assert store.get(key).row is not None


def _ask(connection: http.client.HTTPConnection, key: int) -> None:
    connection.request("GET", f"/v1/stores/{STORE}/key?id={key}", headers={"Authorization": f"Bearer {TOKEN}"})
    assert json.loads(connection.getresponse().read())["row"]["id"] == key


def _timed(look: Callable[[int], None], keys: int, count: int) -> list[float]:
    """Milliseconds of each of so many lookups of random keys, sorted."""
    chance, took = random.Random(2), list[float]()
    for number in range(count + count // 10):
        key = chance.randrange(keys)
        began = time.perf_counter()
        look(key)
        if number >= count // 10:
            took.append((time.perf_counter() - began) * 1000)
    return sorted(took)


def _figure(what: str, took: list[float], keys: int, most: float) -> Figure:
    return Figure(
        benchmark="lookups",
        what=f"{what}, p99",
        value=took[len(took) * 99 // 100],
        unit="ms",
        target=most,
        note=f"p50 {statistics.median(took):.2f} ms; {len(took):,} lookups in {keys:,} rows,"
        f" while batches of {CHANGED:,} rows are written",
    )


def main() -> None:
    """Serve the store whose file is named, until the process ends."""
    server = server_of({STORE: Store(name=STORE, path=Path(sys.argv[1]))}, TOKEN, port=0)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

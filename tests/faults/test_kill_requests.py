"""Drivers that are killed and paused while they send requests: each row is there once, as the model says."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rs_assets.testing import HttpServer, SearchServer
from tests.faults.processes import QUICK_START, started

pytestmark = pytest.mark.faults

# Twenty moments in all.
FILES, ROWS, MOMENTS = 12, 40, 5
PROGRAM = """
import sys
from rs_assets import HttpEndpoint, StreamBuilder

url, folder = sys.argv[1:]
begin = StreamBuilder.data_stream("shop", "sent")
begin.{pipeline}.build().run()
"""
FILES_IN = 'from_file(folder, schema="n bigint, k bigint, gone boolean", max_files_per_batch=1)'


class Moments:
    """Kills or pauses the driver at its requests with the numbers that a seed chooses, before or after their effect."""

    def __init__(self, answer: Callable[[object], object], seed: int, count: int) -> None:
        self.chance, self.answer = random.Random(seed), answer
        self.left, self.due, self.pid = count, 0, 0
        self.next()

    def next(self) -> None:
        self.due = self.chance.randint(1, 9)

    def __call__(self, request):
        self.due -= 1
        if self.due or not self.left:
            return self.answer(request)
        self.left -= 1
        self.next()
        if self.chance.random() < 0.3:
            return self.paused(request)
        before = self.chance.random() < 0.5
        found = None if before else self.answer(request)
        os.killpg(self.pid, signal.SIGKILL)
        return found or self.answer_to_nobody()

    def paused(self, request):
        """Stopped for longer than its requests may take, with an answer that comes meanwhile."""
        os.killpg(self.pid, signal.SIGSTOP)
        pid = self.pid
        threading.Timer(1.0, lambda: os.killpg(pid, signal.SIGCONT)).start()
        return self.answer(request)

    @staticmethod
    def answer_to_nobody():
        from rs_assets.testing.servers.http import HttpReply

        return HttpReply(503)


def write_input(folder: Path) -> list[dict]:
    """Files of rows whose keys come again; some are gone later."""
    folder.mkdir()
    rows = [{"n": n, "k": n % 97, "gone": n % 7 == 0} for n in range(FILES * ROWS)]
    for number in range(FILES):
        part = rows[number * ROWS : (number + 1) * ROWS]
        (folder / f"{number:03}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in part))
        stamp = 1_700_000_000 + number
        os.utime(folder / f"{number:03}.jsonl", (stamp, stamp))
    return rows


def run_to_the_end(server, pipeline: str, seed: int, tmp_path: Path, monkeypatch) -> None:
    """Processes one after the other, until one ends by itself; each is killed or paused at its moments."""
    monkeypatch.setenv("RS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", QUICK_START)
    server.disturb(seed, 0.1)
    server.answer = moments = Moments(server.answer, seed, MOMENTS)
    ended = 0
    while True:
        with started(PROGRAM.replace("{pipeline}", pipeline), server.url, tmp_path / "in") as process:
            moments.pid = process.pid
            out = process.communicate(timeout=250)[0]
            if process.returncode == 0:
                assert not moments.left, f"only {MOMENTS - moments.left} moments"
                return
            assert process.returncode == -signal.SIGKILL, out.decode()[-3000:]
            ended += 1
            assert ended <= MOMENTS
            time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_sent_once_to_a_service_that_honours_keys(seed, tmp_path, monkeypatch):
    rows = write_input(tmp_path / "in")
    with HttpServer() as server:
        run_to_the_end(server, f"{FILES_IN}.to_http(url, batch=10)", seed, tmp_path, monkeypatch)
        assert Counter(row["n"] for row in server.rows) == Counter(row["n"] for row in rows)
        assert len(server.requests) > FILES * ROWS / 10


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_documents_hold_the_newest_rows(seed, tmp_path, monkeypatch):
    rows = write_input(tmp_path / "in")
    with SearchServer() as server:
        server.busy(seed, 0.1)
        sink = "to_search(url, 'rows', mode='upsert', keys=['k'], deletes='gone', batch=10)"
        run_to_the_end(server, f"{FILES_IN}.{sink}", seed, tmp_path, monkeypatch)
        newest = {row["k"]: row for row in rows}
        expected = {str(k): {"n": row["n"], "k": k} for k, row in newest.items() if not row["gone"]}
        assert server.documents("rows") == expected


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_rows_of_a_service_are_read_once(seed, tmp_path, monkeypatch):
    with HttpServer() as server, HttpServer() as target:
        server.append(*({"n": n} for n in range(FILES * ROWS)))
        source = "from_http(f'{url}/rows?limit=10', schema='n bigint', next='next', max_rows_per_batch=40)"
        run_to_the_end(server, f"{source}.to_http({target.url!r})", seed, tmp_path, monkeypatch)
        assert Counter(row["n"] for row in target.rows) == Counter(range(FILES * ROWS))

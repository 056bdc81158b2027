"""Webhooks as a source: what was answered by 200 is in the log, and read from it exactly once."""

from __future__ import annotations

import errno
import http.client
import json
import random
import signal
import socket
import threading
import time

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.collector.log import CollectedLog
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.registry import SOURCES
from rs_assets.connectors.webhook.bodies import json_records
from rs_assets.errors import TopologyError
from rs_assets.testing import SourceCase, check_source
from rs_assets.testing.servers.process import free_ports
from tests.collector.collecting import collected, payloads, wait_until
from tests.collector.process import CollectorProcess


@pytest.fixture
def port():
    return free_ports()[0]


def stream_of(port, **settings):
    settings = {"schema": "n bigint", "collect": False, **settings}
    return StreamBuilder.data_stream("shop", "hooks").from_webhook("/in", port, **settings)


def post(port, body, path="/in", token=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def run(stream, options):
    out = MemoryChannel()
    stream.to_memory(out).build().run(options)
    return out.rows()


@pytest.mark.parametrize(
    ("body", "records"),
    [
        (b'{"a": 1}', [b'{"a": 1}']),
        (b'{\n "a": 1.10\n}', [b'{\n "a": 1.10\n}']),
        (b' [ {"a": 12345678901234567890} , 2 ] ', [b'{"a": 12345678901234567890}', b"2"]),
        (b'{"a": 1}\r\n{"a": 2}\n\n', [b'{"a": 1}', b'{"a": 2}']),
        (b'{"a": 1}\n{"a": \n{"a": 3}', [b'{"a": 1}', b'{"a": ', b'{"a": 3}']),
        (b'[{"a": 1} {"a": 2}]', [b'[{"a": 1} {"a": 2}]']),
        (b'\xff\n{"a": 1}', [b"\xff", b'{"a": 1}']),
        (b"[" * 100_000, [b"[" * 100_000]),
        # Python takes no whole number of so many digits from a text; the other records are good.
        (b'[{"a": 1}, ' + b"7" * 5_000 + b"]", [b'{"a": 1}', b"7" * 5_000]),
        (b'\xef\xbb\xbf[{"a": 1}, 2]', [b'{"a": 1}', b"2"]),
        (b'\xef\xbb\xbf{"a": \n2', [b'{"a": ', b"2"]),
        (b"[]", []),
        (b" \n", []),
    ],
)
def test_a_body_should_be_divided_into_its_records(body, records):
    assert json_records(body) == records


@pytest.mark.canary
def test_a_request_should_be_stored_before_it_is_answered(port, home):
    with collected(stream_of(port, token="s"), home) as log:
        assert post(port, b'[{"n": 1}, {"n": 2}]', token="s") == (200, {"stored": 2})
        assert payloads(log) == [b'{"n": 1}', b'{"n": 2}']
        assert post(port, b"", token="s") == (200, {"stored": 0})
        refused = {
            401: [post(port, b"{}"), post(port, b"{}", token="x"), post(port, b"{}", token="é")],
            404: [post(port, b"{}", path="/out", token="s")],
            # The answer comes through however much the client still sends.
            413: [post(port, b"x" * size, token="s") for size in ((1 << 20) + 1, 8 << 20)],
            415: [post(port, b"{}", token="s", **{"Content-Encoding": "gzip"})],
            411: [post(port, iter([b"{}"]), token="s")],
        }
        assert all(code == wanted for wanted, answers in refused.items() for code, _ in answers)
        assert log.end() == 2


def test_connections_should_be_used_again(port, home):
    with collected(stream_of(port), home) as log:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for n in range(5):
            connection.request("POST", "/in", json.dumps({"n": n}))
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"stored":1}')
        connection.close()
        assert log.end() == 5


def test_a_request_that_breaks_off_should_leave_nothing(port, home):
    with collected(stream_of(port), home) as log:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b'POST /in HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"n": 1}\n')
        assert post(port, b'{"n": 2}') == (200, {"stored": 1})
        assert payloads(log) == [b'{"n": 2}']


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        # By one of two lengths a proxy, by the other one this server, finds the end of a body.
        (b"Content-Length: 10\r\nTransfer-Encoding: chunked", 411),
        (b"Content-Length: 2\r\nContent-Length: 10", 411),
        (b"Content-Length: " + b"9" * 5_000, 413),
    ],
    ids=["in chunks", "two lengths", "a long number"],
)
def test_a_request_whose_end_is_not_certain_should_not_be_stored(port, home, headers, code):
    with collected(stream_of(port), home) as log:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
            client.sendall(b"POST /in HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            answer = client.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 %d " % code)
        assert answer.count(b"HTTP/1.1") == 1
        assert log.end() == 0


def test_a_full_disk_should_answer_503(port, home, monkeypatch):
    full = [True]
    real = LogWriter._write

    def write(self, lines, count):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, lines, count)

    monkeypatch.setattr(LogWriter, "_write", write)
    with collected(stream_of(port), home) as log:
        assert post(port, b'{"n": 1}') == (503, {"error": "not stored: No space left on device"})
        full[0] = False
        assert post(port, b'{"n": 1}') == (200, {"stored": 1})
        assert log.end() == 1


def test_a_wide_open_webhook_should_be_refused(port):
    with pytest.raises(TopologyError, match="records of everyone"):
        stream_of(port, host="0.0.0.0")
    stream_of(port, host="0.0.0.0", token="s")
    with pytest.raises(TopologyError, match="not the path"):
        StreamBuilder.data_stream("shop", "hooks").from_webhook("in", port)
    with pytest.raises(TopologyError, match="not a port"):
        stream_of(70_000)


def test_the_token_should_not_be_shown(port):
    assert "secret" not in repr(SOURCES[type(node(port))].collector(node(port)))
    assert "secret" not in repr(node(port))


def node(port):
    return stream_of(port, token="secret").step.node


def test_the_source_should_keep_the_promises_of_sources(port, home, driver):
    folder = home.collected / "x"

    def put(*texts):
        with collected(stream_of(port, log=str(folder)), home):
            assert post(port, "\n".join(texts)) == (200, {"stored": len(texts)})

    def lose():
        CollectedLog(folder).segments()[-1].file.unlink()

    case = SourceCase(
        stream=lambda begun, bad: begun.from_webhook(
            "/in", port, schema="page string, ms bigint", bad_records=bad, collect=False, log=str(folder)
        ),
        row=lambda n: {"page": f"/é{n}", "ms": n},
        add=lambda rows: put(*map(json.dumps, rows)),
        lose=lose,
        add_bad=lambda: put('{"page": "/", "ms": "soon"}'),
    )
    check_source(case, spark=driver, home=home.root)


def test_metadata_and_lines_of_csv_should_be_read(port, options, home):
    stream = stream_of(port, format="csv", schema="a int, b string", metadata="address")
    with collected(stream, home):
        assert post(port, b'1,x\n2,"y,z"\n') == (200, {"stored": 2})
    assert run(stream, options) == [
        {"a": 1, "b": "x", "webhook_address": "127.0.0.1"},
        {"a": 2, "b": "y,z", "webhook_address": "127.0.0.1"},
    ]


@pytest.mark.faults
def test_kills_and_pauses_should_lose_no_answered_record(port, options, home):
    survive(port, options, home, seed=1)


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize("seed", range(2, 12))
def test_kills_and_pauses_at_more_moments_should_lose_no_answered_record(port, options, home, seed):
    survive(port, options, home, seed=seed)


def survive(port, options, home, *, seed):
    """Four clients post while the collector is killed and paused; what was answered by 200 is in the log and read."""
    rng = random.Random(seed)
    stream = stream_of(port)
    folder = stream.step.node.folder(home)
    answered, stop = [], threading.Event()

    def client(first):
        n = first
        while not stop.is_set():
            try:
                if post(port, json.dumps([{"n": n}, {"n": n + 1}]))[0] == 200:
                    answered.extend((n, n + 1))
                    n += 8
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)

    with CollectorProcess(stream.step.node, folder) as process:
        threads = [threading.Thread(target=client, args=(2 * each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(2):
            time.sleep(rng.uniform(0, 0.3))
            if rng.random() < 0.5:
                process.kill()
                process.start()
            else:
                process.send(signal.SIGSTOP)
                time.sleep(rng.uniform(0, 0.3))
                process.send(signal.SIGCONT)
            count = len(answered)
            wait_until(lambda: len(answered) > count + 20)  # noqa: B023
        stop.set()
        for thread in threads:
            thread.join()
    found = [json.loads(payload)["n"] for payload in payloads(CollectedLog(folder))]
    assert {*answered} <= {*found}
    assert [row["n"] for row in run(stream, options)] == found

"""Syslog as a source: the fields of both RFCs, both framings of TCP, and what can be lost."""

from __future__ import annotations

import errno
import random
import socket
import threading
from datetime import UTC, datetime

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.connectors.collector.collecting import collect
from rs_assets.connectors.collector.writing import LogWriter
from rs_assets.connectors.registry import SOURCES
from rs_assets.connectors.syslog.frames import Frames, TooLong
from rs_assets.connectors.syslog.nodes import SyslogSource
from rs_assets.connectors.syslog.parse import syslog_fields
from rs_assets.errors import BadRecordError, TopologyError
from rs_assets.testing.servers.process import free_ports
from tests.collector.collecting import collected, payloads, wait_until

NEW = '<165>1 2026-10-11T22:14:15.003Z web.example su 77 ID47 [a@1 x="1" y="\\"\\]"][b@2] \ufefffailed [x]'
OLD = "<34>Oct 11 22:14:15 web su[77]: 'su root' failed"
PLACE = {"host": "web", "app": "su", "process": "77"}


@pytest.fixture
def port():
    return free_ports()[0]


def stream_of(port, **settings):
    settings = {"collect": False, **settings}
    return StreamBuilder.data_stream("shop", "logs").from_syslog(port, **settings)


def fields(text, at=datetime(2026, 10, 12, tzinfo=UTC)):
    found = syslog_fields(text, at)
    return {name: value for name, value in found.items() if value not in (None, {})}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            NEW,
            {
                "facility": 20, "severity": 5, "sent_at": "2026-10-11T22:14:15.003000+00:00", "host": "web.example",
                "app": "su", "process": "77", "message_id": "ID47",
                "structured_data": {"a@1": {"x": "1", "y": '"]'}, "b@2": {}}, "message": "failed [x]",
            },
        ),
        ("<0>1 - - - - - -", {"facility": 0, "severity": 0, "message": ""}),
        (OLD, {
            "facility": 4, "severity": 2, "sent_at": "2026-10-11T22:14:15+00:00", **PLACE,
            "message": "'su root' failed",
        }),
        ("<13>2026-10-11T22:14:15+02:00 web cron: x", {
            "facility": 1, "severity": 5, "sent_at": "2026-10-11T22:14:15+02:00", "host": "web", "app": "cron",
            "message": "x",
        }),
        ("<13>Oct  1 00:00:00 web no tag here", {
            "facility": 1, "severity": 5, "sent_at": "2026-10-01T00:00:00+00:00", "host": "web",
            "message": "no tag here",
        }),
        ("<191>hello", {"facility": 23, "severity": 7, "message": "hello"}),
        ("<192>hello", {"facility": 1, "severity": 5, "message": "<192>hello"}),
        ("hello", {"facility": 1, "severity": 5, "message": "hello"}),
        ("<34>1 yesterday web su - - - x", {"facility": 4, "severity": 2, "message": "1 yesterday web su - - - x"}),
        ("<34>Feb 30 00:00:00 web su: x", {"facility": 4, "severity": 2, "message": "Feb 30 00:00:00 web su: x"}),
    ],
)  # fmt: skip
def test_a_message_should_become_fields(text, found):
    assert fields(text) == found


def test_a_time_without_a_year_should_be_in_the_nearest_one():
    at = datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert fields("<1>Dec 31 23:59:59 web su: x", at)["sent_at"].startswith("2026-12-31")
    assert fields("<1>Jan  1 00:00:01 web su: x", at)["sent_at"].startswith("2027-01-01")
    assert fields("<1>Feb 29 00:00:01 web su: x", datetime(2028, 3, 1, tzinfo=UTC))["sent_at"].startswith("2028-02-29")


def test_any_text_should_become_a_message():
    rng = random.Random(7)
    for text in (NEW, OLD):
        for _ in range(500):
            broken = list(text)
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(len(broken))] = rng.choice('<>1 -[]"\\=é\n')
            found = syslog_fields("".join(broken), datetime(2026, 1, 1, tzinfo=UTC))
            assert 0 <= found["severity"] <= 7
            assert isinstance(found["message"], str)


@pytest.mark.parametrize("counted", [True, False])
def test_frames_should_not_depend_on_how_they_are_cut(counted):
    rng = random.Random(3)
    sent = [b"<%d>%s" % (n, rng.choice([b"x" * n, b"1 2 3", "é".encode()])) for n in range(1, 60)]
    sent = [*sent, b"<1>a\nb"] if counted else sent
    data = b"".join(b"%d %s" % (len(each), each) if counted else each + b"\n" for each in sent)
    for _ in range(20):
        frames, found, at = Frames(1000), [], 0
        while at < len(data):
            step = rng.randrange(1, 40)
            found += frames.feed(data[at : at + step])
            at += step
        assert found + frames.rest() == sent


def test_what_is_too_long_should_be_refused():
    for data in (b"x" * 101, b"101 ", b"1" * 20, b"9x "):
        with pytest.raises(TooLong):
            Frames(100).feed(data)
    assert Frames(100).feed(b"x" * 100) == []


@pytest.mark.parametrize("too_long", [b"101 ", b"<1>" + b"x" * 101])
def test_what_came_before_a_message_that_is_too_long_should_be_kept(too_long):
    with pytest.raises(TooLong) as caught:
        Frames(100).feed(b"<1>a\n4 <2>b" + too_long)
    assert caught.value.before == [b"<1>a", b"<2>b"]


@pytest.mark.canary
def test_messages_over_tcp_should_be_stored(port, home):
    with collected(stream_of(port), home) as log:
        with socket.create_connection(("127.0.0.1", port)) as one, socket.create_connection(("127.0.0.1", port)) as two:
            one.sendall(b"<1>a\n<1>b\r\n<1>c")
            two.sendall(b"4 <2>a7 <2>b\nc\n")
            wait_until(lambda: log.end() == 4)
        wait_until(lambda: log.end() == 5)
        with socket.create_connection(("127.0.0.1", port)) as long:
            long.sendall(b"<3>x\n" + b"x" * 70_000)
            assert long.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port)) as long:
            long.sendall(b"4 <3>y70000 <3>z")
            assert long.recv(1) == b""
        wait_until(lambda: log.end() == 7)
    assert sorted(payloads(log)) == [b"<1>a", b"<1>b", b"<1>c", b"<2>a", b"<2>b\nc", b"<3>x", b"<3>y"]


def test_messages_over_udp_should_be_stored(port, home):
    with (
        collected(stream_of(port, protocol="udp"), home) as log,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        for n in range(50):
            client.sendto(b"<1>%d\n" % n, ("127.0.0.1", port))
        wait_until(lambda: log.end() == 50)
    assert payloads(log) == [b"<1>%d" % n for n in range(50)]


def test_a_full_disk_should_let_tcp_senders_wait(port, home, monkeypatch):
    full = [True]
    real = LogWriter._write

    def write(self, lines, count):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, lines, count)

    monkeypatch.setattr(LogWriter, "_write", write)
    monkeypatch.setattr("rs_assets.connectors.syslog.collector.PAUSE_S", 0.05)
    with collected(stream_of(port), home) as log, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"<1>a\n<1>b\n")
        full[0] = False
        wait_until(lambda: log.end() == 2)
    assert payloads(log) == [b"<1>a", b"<1>b"]


def test_a_port_that_is_taken_should_be_named(port, tmp_path):
    problems, stop = [], threading.Event()

    def told(state, problem):
        if state == "failing":
            problems.append(problem)
            stop.set()

    with socket.create_server(("127.0.0.1", port)):
        collect(SOURCES[SyslogSource].collector(stream_of(port).step.node), LogWriter(tmp_path), stop, told)
    assert "Address already in use" in problems[0]


def test_the_fields_should_be_read(port, options, home):
    stream = stream_of(port, metadata=["address"], time_zone="Europe/Berlin")
    with collected(stream, home) as log, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"%d %s" % (len(NEW.encode()), NEW.encode()) + OLD.encode() + b"\n<1>\xff\n")
        wait_until(lambda: log.end() == 3)
    out = MemoryChannel()
    with pytest.raises(BadRecordError, match="invalid UTF-8"):
        stream.to_memory(out).build().run(options)
    stream_of(port, metadata=["address"], time_zone="Europe/Berlin", bad_records="skip").to_memory(out).build().run(
        options
    )
    new, old = out.rows()
    assert (new["severity"], new["sent_at"]) == (5, datetime(2026, 10, 11, 22, 14, 15, 3000, tzinfo=UTC))
    assert new["structured_data"] == {"a@1": {"x": "1", "y": '"]'}, "b@2": {}}
    assert (old["app"], old["message"], old["syslog_address"]) == ("su", "'su root' failed", "127.0.0.1")
    assert (old["sent_at"].hour, old["message_id"]) == (20, None)


@pytest.mark.parametrize(
    ("settings", "what", "mended"),
    [
        ({"protocol": "relp"}, "must be one of tcp, udp", {"protocol": "tcp"}),
        ({"time_zone": "Mars"}, "not a time zone", {"time_zone": "Europe/Berlin"}),
        ({"port": 0}, "a port", {"port": 5514}),
        ({"max_bytes": 0}, "a positive number", {"max_bytes": 1}),
    ],
)
def test_wrong_options_should_be_refused(settings, what, mended):
    with pytest.raises(TopologyError, match=what):
        stream_of(**{"port": 5514, **settings})
    stream_of(**{"port": 5514, **settings, **mended})

"""Rows to an HTTP service: at least once, once by the key of a request, refused rows, services that are away."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from rs_assets import HttpEndpoint, MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.http import client
from rs_assets.connectors.http.client import HttpClient
from rs_assets.connectors.http.nodes import HttpSink
from rs_assets.connectors.http.writer import HttpWriter
from rs_assets.connectors.sink import BatchMark, RefusedRow
from rs_assets.errors import ConfigurationError, SinkError, SqlError, TopologyError
from rs_assets.testing import HttpServer, SinkCase, check_sink
from rs_assets.testing.servers.http import HttpReply

MARK = BatchMark("id", 1, "out", 7)
QUICK = {"timeout": timedelta(seconds=5), "patience": timedelta(seconds=10)}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(client, "LONGEST_PAUSE_S", 0.05)


def endpoint(server, **settings):
    return HttpEndpoint(url=f"{server.url}/in", **{**QUICK, **settings})


def writer(server, *, of=None, **settings):
    return HttpWriter(HttpSink(name="out", endpoint=of or endpoint(server), **{"batch": 3, **settings}))


def send(sink, numbers, mark=MARK):
    return sink._commit(pa.chunked_array([[json.dumps({"n": n}) for n in numbers]], pa.string()), mark)


def numbers(server):
    return [row["n"] for row in server.rows]


def bodies(server):
    return [request.body for request in server.requests]


def test_should_send_requests_of_bounded_size_in_a_stable_order():
    with HttpServer(keys=False) as server:
        assert send(writer(server), [4, 1, 3, 2]) == 4
        assert bodies(server) == [b'{"n": 1}\n{"n": 2}\n{"n": 3}\n', b'{"n": 4}\n']
        assert {request.headers["content-type"] for request in server.requests} == {"application/x-ndjson"}
        assert send(writer(server, format="json_array", method="PUT"), [6, 5]) == 2
        assert bodies(server)[2:] == [b'[{"n": 5},{"n": 6}]']
        assert server.requests[-1].method == "PUT"
        assert send(writer(server, format="json_object", batch=1), [8, 7]) == 2
        assert bodies(server)[3:] == [b'{"n": 7}', b'{"n": 8}']
        assert send(writer(server), []) == 0
        assert numbers(server) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_should_give_a_request_the_same_key_whatever_order_its_rows_have():
    with HttpServer() as server:
        send(writer(server), [4, 1, 3, 2, 2])
        send(writer(server), [2, 2, 3, 4, 1])
        assert Counter(numbers(server)) == Counter([1, 2, 2, 3, 4])
        first, second = [request.headers["idempotency-key"] for request in server.requests][:2]
        assert len({request.headers["idempotency-key"] for request in server.requests}) == 2
        # Equal rows in one batch, in another batch and in another generation are rows of their own.
        send(writer(server, batch=1), [9, 9])
        send(writer(server, batch=1), [9], BatchMark("id", 1, "out", 8))
        send(writer(server, batch=1), [9], BatchMark("id", 2, "out", 8))
        assert numbers(server).count(9) == 4
        assert first != second


def test_should_repeat_a_request_whose_answer_was_lost():
    with HttpServer() as server:
        server.fail("lost", "cut", 503, 429, 409, "slow")
        assert send(writer(server, of=endpoint(server, timeout=timedelta(seconds=0.5))), [1, 2]) == 2
        assert numbers(server) == [1, 2]
        assert len(server.requests) >= 7
        assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    # A service without keys has the rows of a lost answer again: at least once.
    with HttpServer(keys=False) as server:
        server.fail("lost")
        send(writer(server), [1, 2])
        assert numbers(server) == [1, 2, 1, 2]


def test_should_come_back_when_the_service_asks_and_give_up_in_time():
    with HttpServer() as server:
        asking = endpoint(server, patience=timedelta(seconds=0.5))
        server.fail(*[500] * 500)
        with pytest.raises(SinkError, match="accepts no request within 0.5 s: HTTP 500 a fault") as away:
            send(writer(server, of=asking), [1])
        assert server._faults, "the service would have gone on"
        assert "patience= of HttpEndpoint" in away.value.remedy
        server._faults.clear()
        assert send(writer(server, of=endpoint(server, patience=timedelta(minutes=1))), [1]) == 1
        # It asks for more time than there is: that is known at once.
        server.answer = lambda request: answered(429, headers={"Retry-After": "3600"})
        with pytest.raises(SinkError, match="it asks to come back after 3600 s"):
            send(writer(server), [1])
    with pytest.raises(SinkError, match="ConnectionRefusedError"):
        send(writer(server, of=endpoint(server, patience=timedelta(seconds=0.3))), [1])


def answered(status, body=b"", headers=None):
    return HttpReply(status, body, headers or {})


def odd(row):
    return "odd" if row["n"] % 2 else None


def test_should_find_the_rows_that_the_service_refuses():
    kept = []
    with HttpServer(refuse=odd) as server:
        sink = writer(server, batch=8, refused="dead_letter")
        sink.keep_refused(lambda rows, mark, number: kept.append((rows, mark.batch_id, number)))
        assert send(sink, range(8)) == 4
        assert sorted(numbers(server)) == [0, 2, 4, 6]
        ((rows, batch, number),) = kept
        assert rows == [RefusedRow({"n": n}, "HTTP 422 odd") for n in (1, 3, 5, 7)]
        assert (batch, number) == (7, 7 << 20)
        # The same batch again: the same requests, rows and numbers.
        again = writer(server, batch=8, refused="dead_letter")
        again.keep_refused(lambda rows, mark, number: kept.append((rows, mark.batch_id, number)))
        assert send(again, [*range(8)][::-1]) == 4
        assert kept[0] == kept[1]
        assert sorted(numbers(server)) == [0, 2, 4, 6]


def test_should_end_a_run_at_a_refused_row_and_go_on_without_it():
    with HttpServer(refuse=odd) as server:
        with pytest.raises(SinkError, match="refuses a row: HTTP 422 odd") as refused:
            send(writer(server, batch=8), [2, 3, 4])
        assert refused.value.facts["row"] == '{"n": 3}'
        assert "refused='dead_letter'" in refused.value.remedy
        sink = writer(server, batch=8, refused="dead_letter")
        sink.keep_refused(lambda *_: None)
        assert send(sink, [2, 3, 4]) == 2
        assert sorted(numbers(server)) == [2, 4]


def test_should_not_take_a_wrong_service_for_refused_rows():
    kept = []
    with HttpServer(refuse=lambda row: "no such field") as server:
        sink = writer(server, batch=500, refused="dead_letter")
        sink.keep_refused(lambda *each: kept.append(each))
        with pytest.raises(SinkError, match="has refused all of 20 rows, the last: HTTP 422 no such field") as refused:
            send(sink, range(500))
        assert "check what the service expects" in refused.value.remedy
        assert not kept
        server._refuse = lambda row: None
        assert send(sink, range(500)) == 500
    with HttpServer(headers={"Authorization": "Bearer right"}) as server:
        sink = writer(server, of=endpoint(server, token="wrong-token"), refused="dead_letter")
        sink.keep_refused(lambda *each: kept.append(each))
        with pytest.raises(SinkError, match="does not take rows: HTTP 401 who are you") as refused:
            send(sink, [1])
        assert "check the address, the login" in refused.value.remedy
        assert not kept
        assert send(writer(server, of=endpoint(server, token="right")), [1]) == 1
        server.answer = lambda request: answered(308, headers={"Location": "https://elsewhere/"})
        with pytest.raises(SinkError, match="HTTP 308, and points to https://elsewhere/"):
            send(writer(server, of=endpoint(server, token="right")), [2])


def test_should_halve_a_request_that_is_too_large():
    with HttpServer() as server:
        plain = server.answer
        server.answer = lambda request: plain(request) if len(request.body) < 20 else answered(413)
        assert send(writer(server, batch=8), range(8)) == 8
        assert Counter(numbers(server)) == Counter(range(8))


def test_should_hear_an_answer_that_comes_before_the_request_is_read():
    lines, received = [json.dumps({"n": n, "text": "x" * 100_000}) for n in range(40)], []

    def serve(listening):
        while len(received) < 40:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as file:
                head = b"".join(iter(file.readline, b"\r\n")).decode()
                length = int(re.search(r"Content-Length: (\d+)", head)[1])
                if length > 1_000_000:
                    connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    continue
                received.extend(json.loads(line)["n"] for line in file.read(length).splitlines())
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        made = HttpEndpoint(url=f"http://127.0.0.1:{listening.getsockname()[1]}/", **QUICK)
        assert writer(None, of=made, batch=40)._commit(pa.chunked_array([lines], pa.string()), MARK) == 40
    assert sorted(received) == [*range(40)]


def test_should_keep_the_rate():
    with HttpServer() as server:
        began = time.monotonic()
        send(writer(server, batch=2, rows_per_second=40), range(8))
        assert time.monotonic() - began >= 6 / 40


def test_should_never_show_a_secret():
    with HttpServer() as server:
        server.answer = lambda request: answered(403, b"no: Bearer s3cret key=qu3ry pa55")
        made = HttpEndpoint(url=f"{server.url}/in?key=qu3ry", token="s3cret", headers={"X-Shop": "pa55"}, **QUICK)
        assert "s3cret" not in repr(made)
        with pytest.raises(SinkError) as refused:
            send(writer(server, of=made), [1])
        text = f"{refused.value} {refused.value.facts} {made!r} {writer(server, of=made)!r}"
        assert "no: *** *** ***" in text
        assert not {secret for secret in ("s3cret", "qu3ry", "pa55") if secret in text}
        assert server.requests[0].path == "/in?key=qu3ry"
        assert server.requests[0].headers["authorization"] == "Bearer s3cret"


def test_should_read_a_secret_when_a_connection_is_made(monkeypatch):
    from dagster import EnvVar

    with HttpServer(headers={"X-Api-Key": "new"}) as server:
        made = HttpEndpoint(url=EnvVar("HOOK_URL"), headers={"X-Api-Key": EnvVar("HOOK_KEY")}, **QUICK)
        assert made.where == "$HOOK_URL"
        sink = writer(server, of=made)
        with pytest.raises(ConfigurationError, match="url of an HTTP service is empty"):
            sink.check_start()
        monkeypatch.setenv("HOOK_URL", f"{server.url}/in")
        monkeypatch.setenv("HOOK_KEY", "new\n")
        with pytest.raises(ConfigurationError, match="the header X-Api-Key has a line break") as odd_value:
            sink.check_start()
        assert "remove it from the value" in odd_value.value.remedy
        monkeypatch.setenv("HOOK_KEY", "new")
        sink.check_start()
        assert send(sink, [1]) == 1
        assert "new" not in f"{made!r}"


@pytest.mark.parametrize(
    ("settings", "text", "remedy"),
    [
        ({"url": "ftp://host"}, "'ftp://host' is not the address", {"url": "https://host/path"}),
        ({"url": "https://me:pa55@host/"}, r"'https://\*\*\*' is not the address",
         {"url": "https://host/", "username": "me", "password": "pa55"}),
        ({"headers": {"X Key": "1"}}, "'X Key' is not the name of a header", {"headers": {"X-Api-Key": "1"}}),
        ({"username": "me"}, "has one login", {"token": "..."}),
        ({"token": "a", "headers": {"authorization": "b"}}, "has one login", {"token": "..."}),
        ({"timeout": 3}, "timeout and patience must be times", {"timeout": timedelta(seconds=30)}),
    ],
)  # fmt: skip
def test_should_refuse_an_endpoint_and_follow_the_remedy(settings, text, remedy):
    with pytest.raises(ConfigurationError, match=text):
        HttpEndpoint(**{"url": "https://host", **settings})
    assert HttpEndpoint(**{"url": "https://host", **remedy}).where.startswith("https://host")


def test_should_not_take_settings_twice():
    made = HttpEndpoint(url="https://host")
    with pytest.raises(ConfigurationError, match="has its own headers and timeout"):
        HttpEndpoint.of(made, {"X": "1"})
    assert HttpEndpoint.of(made) is made
    assert HttpEndpoint.of("https://host", {"X": "1"}, timedelta(seconds=1)).sent_headers() == {"X": "1"}


@pytest.mark.parametrize(
    ("settings", "text", "remedy"),
    [
        ({"method": "GET"}, "the method must be one of POST, PUT, PATCH", {"method": "POST"}),
        ({"format": "xml"}, "the format must be one of json_lines", {"format": "json_lines"}),
        ({"batch": 0}, "batch must be a positive number of rows", {"batch": 500}),
        ({"rows_per_second": 0}, "rows_per_second must be a number above 0", {"rows_per_second": 100}),
        ({"refused": "skip"}, "policy of refused must be one of fail, dead_letter", {"refused": "fail"}),
        ({"format": "json_object", "batch": 2}, "a request for each row", {"format": "json_object", "batch": 1}),
    ],
)
def test_should_refuse_options_and_follow_the_remedy(settings, text, remedy):
    stream = StreamBuilder.data_stream("shop", "hook").from_array([{"n": 1}])
    with pytest.raises(TopologyError, match=text):
        stream.to_http("https://host/in", **settings)
    stream.to_http("https://host/in", **remedy).build()


def test_should_not_wait_for_a_certificate_that_is_not_trusted(monkeypatch):
    tries = []

    def refused(*_):
        tries.append(1)
        raise ssl.SSLCertVerificationError(1, "self-signed")

    with HttpServer() as server:
        sink = writer(server)
        with monkeypatch.context() as patched:
            patched.setattr(HttpClient, "_exchanged", refused)
            with pytest.raises(SinkError, match="is not trusted") as untrusted:
                send(sink, [1])
            assert len(tries) == 1
            assert "SSL_CERT_FILE" in untrusted.value.remedy
        assert send(sink, [1]) == 1


def test_should_keep_the_promises_of_a_sink(driver, tmp_path):
    with HttpServer(refuse=lambda row: "no text" if row["text"] is None else None) as server:
        case = SinkCase(
            write=lambda stream: stream.to_http(endpoint(server), batch=2, refused="dead_letter"),
            rows=lambda: server.rows,
            exactly_once=True,
            refused={"n": 7, "text": None},
        )
        check_sink(case, spark=driver, home=tmp_path)


def test_should_send_each_value_exactly(options):
    channel = MemoryChannel(schema="d decimal(20,3), t timestamp, b binary, a array<int>, s string, n bigint")
    channel.put(
        {"d": Decimal("12345678901234567.890"), "t": "2024-03-01T10:00:00.123456Z", "b": b"\xff", "a": [1, None]}
    )
    with HttpServer() as server:
        job = StreamBuilder.data_stream("shop", "hook").from_memory(channel).to_http(endpoint(server)).build()
        job.run(options)
        assert server.requests[0].body == (
            b'{"d":12345678901234567.890,"t":"2024-03-01T10:00:00.123456Z","b":"/w==","a":[1,null],"s":null,"n":null}\n'
        )


@pytest.mark.canary
def test_should_go_on_after_a_service_that_went_away_in_the_middle_of_a_batch(tmp_path, options):
    (tmp_path / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(10)))
    with HttpServer() as server:
        short = endpoint(server, patience=timedelta(seconds=0.2))
        begin = StreamBuilder.data_stream("shop", "hook").from_file(tmp_path / "in.jsonl", schema="n bigint")
        job = begin.to_http(short, batch=3).build()
        plain = server.answer
        server.answer = lambda request: plain(request) if len(server.rows) < 6 else answered(503)
        with pytest.raises(SinkError, match="accepts no request"):
            job.run(options)
        assert len(server.rows) == 6
        server.answer = plain
        job.run(options)
        assert Counter(numbers(server)) == Counter(range(10))
        report = job.run(replace(options, new_generation=True))
        assert any("sends all rows of 'in_requests' again" in warning for warning in report.warnings)
        assert Counter(numbers(server)) == Counter([*range(10)] * 2)


SQL = """
    CREATE TABLE orders (n BIGINT) WITH ('connector' = 'memory');
    CREATE TABLE hook (n BIGINT) WITH ('connector' = 'http', 'url' = '$HOOK_URL', 'format' = 'json-array',
        'sink.request.rows' = '2', 'header.X-Api-Key' = '$HOOK_KEY', 'sink.rows-per-second' = '1000',
        'request.timeout' = '5', 'request.patience' = '9', 'refused' = 'dead_letter'{more});
    INSERT INTO hook SELECT n FROM orders WHERE n > 1
"""


def test_should_be_a_table_of_sql(options, monkeypatch):
    with HttpServer(headers={"X-Api-Key": "pa55"}) as server:
        monkeypatch.setenv("HOOK_URL", f"{server.url}/in")
        monkeypatch.setenv("HOOK_KEY", "pa55")
        made = pipeline_from_sql(SQL.format(more=""), tables={"orders": [{"n": n} for n in range(4)]})
        (node,) = made.topology.sinks
        assert (node.format, node.batch, node.rows_per_second, node.refused) == ("json_array", 2, 1000, "dead_letter")
        assert (node.endpoint.timeout, node.endpoint.patience) == (timedelta(seconds=5), timedelta(seconds=9))
        assert "POST $HOOK_URL" in made.describe()
        made.run(options)
        assert sorted(numbers(server)) == [2, 3]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (", 'sink.rows-per-second' = 'x'", "given twice|must be a number above 0"),
        (", 'username' = 'me'", "has one login"),
        (", 'header.A B' = '1'", "is not the name of a header"),
        (", 'verb' = 'POST'", "has no option 'verb'"),
    ],
)
def test_should_refuse_options_of_a_table(more, text):
    sql = SQL.format(more=more)
    if "rows-per-second" in more:
        sql = sql.replace("'sink.rows-per-second' = '1000',", "")
    with pytest.raises(SqlError, match=text):
        pipeline_from_sql(sql, tables={"orders": [{"n": 1}]})

"""Rows of an HTTP service by a cursor: written to disk with it before they are read, and asked for again otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from rs_assets import HttpEndpoint, MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.http import client, pages
from rs_assets.connectors.http.connector import _reader
from rs_assets.connectors.http.nodes import HttpSource
from rs_assets.errors import SourceReadError, SqlError, TopologyError
from rs_assets.testing import HttpServer, SourceCase, check_source
from rs_assets.testing.servers.http import HttpReply

QUICK = {"timeout": timedelta(seconds=2), "patience": timedelta(seconds=10)}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(client, "LONGEST_PAUSE_S", 0.05)


def endpoint(server, path="/rows", **settings):
    return HttpEndpoint(url=f"{server.url}{path}", **{**QUICK, **settings})


def poller(server, *, of=None, **settings):
    made = {"schema": "n bigint", **({"next": "next"} if "last" not in settings else {}), **settings}
    return _reader(HttpSource(name="rows", endpoint=of or endpoint(server), **made), None).source


def polled(source, cursor=None):
    rows, cursor = source.poll(cursor)
    return [json.loads(row)["n"] for row in rows], cursor


def put(server, *numbers):
    server.append(*({"n": n} for n in numbers))


def test_should_ask_for_pages_after_a_cursor():
    with HttpServer() as server:
        put(server, *range(7))
        source = poller(server, of=endpoint(server, "/rows?limit=3"), max_rows_per_batch=6)
        assert polled(source) == ([0, 1, 2, 3, 4, 5], 6)
        assert polled(source, 6) == ([6], 7)
        assert polled(source, 7) == ([], 7)
        assert [request.path for request in server.requests] == [
            f"/rows?limit=3{after}" for after in ("", "&after=3", "&after=6", "&after=7", "&after=7")
        ]


def test_should_take_the_cursor_from_the_last_row_and_begin_where_it_is_told():
    with HttpServer() as server:
        put(server, *range(1, 6))
        assert polled(poller(server, last="n")) == ([1, 2, 3, 4, 5], 5)
        assert polled(poller(server, last="n", first=3)) == ([4, 5], 5)
        assert polled(poller(server, last="n", first=3), 4) == ([5], 5)


def answering(server, *bodies):
    """Give the next requests these answers."""
    left = [*bodies]
    server.answer = lambda _: HttpReply(body=json.dumps(left.pop(0)).encode())


def test_should_follow_addresses_on_its_own_host_only():
    with HttpServer() as server:
        answering(server, {"data": [{"n": 1}], "paging": {"next": "/rows?page=2"}}, {"data": [], "paging": {}})
        source = poller(server, items="data", next="paging.next")
        assert polled(source) == ([1], "/rows?page=2")
        assert server.requests[1].path == "/rows?page=2"
        answering(server, {"data": [{"n": 1}], "paging": {"next": "https://elsewhere.example/"}})
        with pytest.raises(SourceReadError, match="points to another host: https://elsewhere.example/") as other:
            polled(source)
        assert "ask the host that has the pages" in other.value.remedy
        answering(server, {"data": [], "paging": {}})
        assert polled(source) == ([], None)


@pytest.mark.parametrize(
    ("row", "answer", "settings", "asked"),
    [
        ("/a?b", {}, {"last": "id"}, "/rows?after=%2Fa%3Fb"),
        ("https://host/7", {}, {"last": "id"}, "/rows?after=https%3A%2F%2Fhost%2F7"),
        (1, {"next": "/9j+Q=="}, {}, "/rows?after=%2F9j%2BQ%3D%3D"),
        (1, {"next": "/rows/2"}, {}, "/rows/2"),
    ],
)
def test_a_cursor_that_begins_with_a_slash_by_chance_is_sent_as_one(row, answer, settings, asked):
    """Values of rows, and texts of Base64, are not addresses."""
    with HttpServer() as server:
        answering(server, {"items": [{"n": 1, "id": row}], **answer}, {"items": []})
        polled(poller(server, **settings))
        assert [request.path for request in server.requests] == ["/rows", asked]


@pytest.mark.parametrize("empty", ["", False])
def test_an_empty_cursor_is_none_and_does_not_ask_for_the_first_page_again(empty):
    with HttpServer() as server:
        answering(server, {"items": [{"n": 1}], "next": 5}, {"items": [{"n": 2}], "next": empty})
        with pytest.raises(SourceReadError, match="has rows and no further cursor by next='next'"):
            polled(poller(server))
        answering(server, {"items": [], "next": empty})
        assert polled(poller(server), 5) == ([], 5)


@pytest.mark.parametrize(
    ("answer", "text", "remedy", "settings"),
    [
        ({"items": [{"n": 1}], "next": None}, "has rows and no further cursor by", "last='id'", {"last": "n"}),
        ({"items": [{"n": 1}]}, "has rows and no further cursor by next='next'", "last='id'", {"last": "n"}),
        ([{"n": 1}], "has no list at 'items'", "'' if the answer itself is the list", {"items": "", "last": "n"}),
        ({"data": {"rows": [{"n": 1}]}}, "has no list at 'items'", "items='data.rows'",
         {"items": "data.rows", "last": "n"}),
    ],
)  # fmt: skip
def test_should_refuse_an_answer_and_follow_the_remedy(answer, text, remedy, settings):
    with HttpServer() as server:
        answering(server, answer)
        with pytest.raises(SourceReadError, match=text) as refused:
            polled(poller(server))
        assert remedy in refused.value.remedy
        answering(server, answer)
        assert polled(poller(server, max_rows_per_batch=1, **settings)) == ([1], 1)


def test_should_not_read_the_same_page_again():
    with HttpServer() as server:
        answering(server, {"items": [{"n": 1}], "next": 5})
        with pytest.raises(SourceReadError, match="no further cursor"):
            polled(poller(server), 5)
        # A page without rows may keep its cursor, or have another one.
        answering(server, {"items": [], "next": 5}, {"items": [], "next": None}, {"items": [], "next": 9})
        assert [polled(poller(server), 5) for _ in range(3)] == [([], 5), ([], 5), ([], 9)]


def test_should_say_what_is_wrong_with_a_service(monkeypatch):
    with HttpServer(headers={"Authorization": "Bearer right"}) as server:
        put(server, 1)
        with pytest.raises(SourceReadError, match="was: HTTP 401 who are you") as refused:
            polled(poller(server, of=endpoint(server, token="wrong")))
        assert "check the address, the login" in refused.value.remedy
        source = poller(server, of=endpoint(server, token="right"))
        assert polled(source) == ([1], 1)
        server.fail(503, "lost", 429)
        assert polled(source) == ([1], 1)
        server.answer = lambda _: HttpReply(body=b"<html>")
        with pytest.raises(SourceReadError, match="is not JSON: HTTP 200 <html>") as other:
            polled(source)
        assert "answers by JSON" in other.value.remedy
        server.answer = lambda _: HttpReply(body=b" " * 4096)
        monkeypatch.setattr(pages, "PAGE_BYTES", 1 << 10)
        with pytest.raises(SourceReadError, match="has more than 0 MiB") as large:
            polled(source)
        assert "ask for smaller pages" in large.value.remedy


@pytest.mark.parametrize(
    ("settings", "text", "remedy"),
    [
        ({"schema": None}, "does not declare the fields", {}),
        ({"cursor": ""}, "the cursor must be the name of a parameter", {}),
        ({"last": None}, "one of next= and last=", {}),
        ({"next": "next"}, "one of next= and last=", {}),
        ({"every": 3}, "every must be a time", {"every": timedelta(seconds=10)}),
        ({"keep": 0}, "keep must be a positive number", {"keep": 10}),
        ({"max_rows_per_batch": 0}, "max_rows_per_batch must be a positive number", {"max_rows_per_batch": 10}),
        ({"requests_per_second": 0}, "requests_per_second must be a number above 0", {"requests_per_second": 5}),
    ],
)
def test_should_refuse_options_and_follow_the_remedy(settings, text, remedy):
    begin = StreamBuilder.data_stream("shop", "rows")
    good = {"schema": "id bigint", "last": "id"}
    with pytest.raises(TopologyError, match=text):
        begin.from_http("https://host/rows", **{**good, **settings})
    begin.from_http("https://host/rows", **good, **remedy).to_print().build()


def test_should_not_read_what_it_sends():
    stream = StreamBuilder.data_stream("shop", "loop").from_http("https://host/rows", schema="id bigint", last="id")
    with pytest.raises(TopologyError, match="writes the address that the step 'http' reads"):
        stream.to_http("https://host/rows?key=1").build()
    fresh = StreamBuilder.data_stream("shop", "copy").from_http("https://host/rows", schema="id bigint", last="id")
    assert fresh.to_http("https://host/others").build().topology.sinks[0].name == "others_requests"


def test_should_keep_the_promises_of_a_source(driver, tmp_path):
    with HttpServer() as server:
        case = SourceCase(
            stream=lambda begin, bad: begin.from_http(
                endpoint(server), schema="n bigint", next="next", bad_records=bad, every=timedelta(0)
            ),
            row=lambda n: {"n": n},
            add=lambda rows: server.append(*rows),
            add_bad=lambda: server.append({"n": "x"}),
        )
        check_source(case, spark=driver, home=tmp_path)


def test_should_read_each_value_exactly_with_a_secret_that_came_late(options, monkeypatch):
    from dagster import EnvVar

    out = MemoryChannel()
    made = HttpEndpoint(url=EnvVar("ROWS_URL"), token=EnvVar("ROWS_TOKEN"), **QUICK)
    stream = StreamBuilder.data_stream("shop", "exact").from_http(
        made, schema="d decimal(20,3), x double, t timestamp, i bigint, a array<int>", items="", last="i"
    )
    job = stream.to_memory(out).build()
    with HttpServer(headers={"Authorization": "Bearer late"}) as server:
        body = (
            b'[{"d": 12345678901234567.890, "x": 1.10, "t": "2024-03-01T10:00:00.123456Z", "i": 9007199254740993,'
            b' "a": [1, null]}]'
        )
        server.answer = lambda request: HttpReply(body=b"[]" if "after" in request.path else body)
        monkeypatch.setenv("ROWS_URL", f"{server.url}/rows")
        monkeypatch.setenv("ROWS_TOKEN", "late")
        job.run(options)
        (row,) = out.rows()
        assert (row["d"], row["x"], row["i"], row["a"]) == (
            Decimal("12345678901234567.890"), 1.1, 9007199254740993, [1, None],
        )  # fmt: skip
        assert server.requests[-1].path == "/rows?after=9007199254740993"
        job.run(replace(options))
        assert len(out.rows()) == 1


def test_should_refuse_a_key_that_is_twice_in_a_map(options):
    """Python's JSON would drop its first value; as a file of lines has it, it is a bad record."""
    out, schema = MemoryChannel(), "i bigint, m map<string,int>"
    body = b'[{"i": 1, "m": {"a": 1}}, {"i": 2, "m": {"a": 1, "a": 2}}]'
    with HttpServer() as server:
        server.answer = lambda request: HttpReply(body=b"[]" if "after" in request.path else body)
        stream = StreamBuilder.data_stream("shop", "odd").from_http(
            endpoint(server), schema=schema, items="", last="i", bad_records="dead_letter"
        )
        report = stream.to_memory(out).build().run(options)
    assert out.rows() == [{"i": 1, "m": {"a": 1}}]
    assert report.rows_dead == 1


SQL = """
    CREATE TABLE tickets (n BIGINT) WITH ('connector' = 'http', 'url' = '{url}', 'last' = 'n', 'token' = 'right',
        'scan.startup.cursor' = '2', 'max-rows-per-batch' = '3', 'scan.poll.interval' = '1'{more});
    CREATE TABLE found (n BIGINT) WITH ('connector' = 'memory');
    INSERT INTO found SELECT n FROM tickets
"""


def test_should_be_a_table_of_sql(options):
    out = MemoryChannel(schema="n bigint")
    with HttpServer(headers={"Authorization": "Bearer right"}) as server:
        put(server, *range(1, 8))
        job = pipeline_from_sql(SQL.format(url=f"{server.url}/rows", more=""), tables={"found": out})
        assert f"http_source  [{server.url}/rows by n]" in job.describe()
        job.run(options)
        assert sorted(row["n"] for row in out.rows()) == [3, 4, 5, 6, 7]
    with pytest.raises(SqlError, match="has no option 'limit'"):
        pipeline_from_sql(SQL.format(url="https://host", more=", 'limit' = '3'"), tables={"found": out})

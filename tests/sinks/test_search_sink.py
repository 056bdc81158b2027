"""Documents in OpenSearch and Elasticsearch: ids and versions, conflicts, deletes, refused ones, busy servers.

The server is a stub of `_bulk`: these tests prove what is sent, and what is made of each answer.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from rs_assets import HttpEndpoint, MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.http import client
from rs_assets.connectors.search.bulk import outcomes
from rs_assets.connectors.search.documents import Document, version_of
from rs_assets.connectors.search.index import IndexName
from rs_assets.connectors.search.nodes import SearchSink
from rs_assets.connectors.search.writer import SearchWriter
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError, SqlError, TopologyError
from rs_assets.testing import SearchServer, SinkCase, check_sink
from rs_assets.testing.servers.http import HttpReply

MARK = BatchMark("id", 1, "out", 7)
QUICK = {"timeout": timedelta(seconds=2), "patience": timedelta(seconds=10)}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(client, "LONGEST_PAUSE_S", 0.05)


def endpoint(server, **settings):
    return HttpEndpoint(url=server.url, **{**QUICK, **settings})


def writer(server, *, of=None, **settings):
    made = {"index": IndexName("orders"), "batch": 3, **settings}
    return SearchWriter(SearchSink(name="out", endpoint=of or endpoint(server), **made))


def upserts(server, **settings):
    return writer(server, mode="upsert", keys=("k",), **settings)


def put(sink, rows, mark=MARK):
    """Write rows `(k, n)`, or `(k, n, gone)`, as a batch."""
    from rs_assets.connectors.search import documents

    made = {"_rs_body": [json.dumps({"k": row[0], "n": row[1]}) for row in rows], "_rs_index": ["orders"] * len(rows)}
    if sink.node.mode == "upsert":
        made |= {
            "_rs_id": [str(row[0]) for row in rows],
            "_rs_version": pa.array([row[1] if sink.node.version else None for row in rows], pa.int64()),
            "_rs_gone": pa.array([len(row) > 2 and row[2] for row in rows], pa.bool_()),
            "k": pa.array([row[0] for row in rows], pa.int64()),
        }
    return sink._commit(documents.documents(pa.table(made), sink.node, mark), mark)


def found(server):
    return {int(key): source["n"] for key, source in server.documents("orders").items()}


def test_should_add_each_document_once_whatever_is_repeated():
    rows = [(1, 1), (2, 2), (2, 2), (3, 3), (4, 4)]
    with SearchServer() as server:
        server.fail("lost", "cut", 503)
        assert put(writer(server), rows) == 5
        server.fail("lost")
        assert put(writer(server), random.Random(1).sample(rows, 5)) == 5
        assert Counter(source["n"] for source in server.documents("orders").values()) == Counter([1, 2, 2, 3, 4])
        put(writer(server), rows, replace(MARK, batch_id=8))
        assert len(server.documents("orders")) == 10


def test_should_keep_the_newest_row_of_a_key():
    with SearchServer() as server:
        sink = upserts(server)
        put(sink, [(1, 1), (2, 2), (3, 3), (4, 4)])
        put(sink, [(1, 10), (2, 20, True), (9, 9, True)], replace(MARK, batch_id=8))
        assert found(server) == {1: 10, 3: 3, 4: 4}
        # An answer that was lost: equal versions are conflicts, and done.
        server.fail("lost")
        put(sink, [(1, 10), (2, 20, True), (9, 9, True)], replace(MARK, batch_id=8))
        assert found(server) == {1: 10, 3: 3, 4: 4}
        # Batches of another generation are newer.
        put(sink, [(1, 5), (2, 6)], replace(MARK, generation=2, batch_id=0))
        assert found(server) == {1: 5, 2: 6, 3: 3, 4: 4}


def test_a_key_of_minus_zero_is_that_of_zero(driver):
    from rs_assets.connectors.search import documents

    node = SearchSink(name="out", endpoint=HttpEndpoint(url="http://localhost"), index=IndexName("orders"),
                      mode="upsert", keys=("k",))  # fmt: skip
    frames = (driver.call(lambda spark, k=k: spark.createDataFrame([(k,)], "k double")) for k in (0.0, -0.0, 1.5))
    found = [driver.call(lambda _, f=f: documents.as_documents(f, node).toArrow())["_rs_id"][0].as_py() for f in frames]
    assert found == ["0.0", "0.0", "1.5"]


def test_should_not_let_an_older_writer_win_without_a_word():
    with SearchServer() as server:
        put(upserts(server), [(1, 1)], replace(MARK, batch_id=9))
        with pytest.raises(SinkError, match="is newer than this batch.*version conflict") as overtaken:
            put(upserts(server), [(1, 2)])
        assert "delete the index and begin a new generation" in overtaken.value.remedy
        assert found(server) == {1: 1}
        put(upserts(server), [(1, 2)], replace(MARK, generation=2))
        assert found(server) == {1: 2}


def test_should_order_rows_by_a_version_of_their_own():
    with SearchServer() as server:
        sink = upserts(server, version="n")
        put(sink, [(1, 5), (1, 7), (1, 6), (2, 4, True)])
        put(sink, [(1, 6), (2, 3)], replace(MARK, batch_id=8))
        assert found(server) == {1: 7}
        put(sink, [(1, 8, True), (2, 5)], replace(MARK, batch_id=9))
        assert found(server) == {2: 5}
        with pytest.raises(SinkError, match="has no version: one of its fields is null or negative") as refused:
            put(sink, [(1, None)])
        assert ".filter('k IS NOT NULL AND n IS NOT NULL')" in refused.value.remedy


def test_should_send_only_busy_documents_again():
    with SearchServer() as server:
        server.busy(3, 0.4)
        assert put(upserts(server, batch=50), [(k, k) for k in range(50)]) == 50
        assert found(server) == {k: k for k in range(50)}
        sizes = [request.body.count(b'"_id"') for request in server.requests]
        assert sizes[0] == 50
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) < 150
        server.busy(3, 1)
        hurried = upserts(server, of=endpoint(server, patience=timedelta(seconds=0.2)))
        with pytest.raises(SinkError, match="accepts no request within 0.2 s: 1 document, the first: HTTP 429"):
            put(hurried, [(1, 1)])
        server.busy(3, 0)
        assert put(hurried, [(1, 1)]) == 1


def test_should_send_refused_rows_to_the_dead_letters():
    kept = []
    with SearchServer(refuse=lambda row: "failed to parse [n]" if row["n"] % 2 else None) as server:
        with pytest.raises(SinkError, match="refuses a row: HTTP 400 mapper_parsing_exception failed to parse"):
            put(upserts(server), [(1, 1), (2, 2)])
        sink = upserts(server, batch=4, refused="dead_letter")
        sink.keep_refused(lambda rows, mark, number: kept.append(([row.row["n"] for row in rows], number)))
        assert put(sink, [(k, k) for k in range(8)]) == 4
        assert found(server) == {0: 0, 2: 2, 4: 4, 6: 6}
        assert kept == [([1, 3], 7 << 20), ([5, 7], (7 << 20) + 1)]


def test_should_divide_a_request_that_is_too_large():
    with SearchServer(most_bytes=400) as server:
        assert put(upserts(server, batch=10), [(k, k) for k in range(10)]) == 10
        assert found(server) == {k: k for k in range(10)}


def test_should_not_take_a_missing_index_for_refused_rows():
    kept = []
    with SearchServer(indexes=["others"]) as server:
        sink = writer(server, refused="dead_letter")
        sink.keep_refused(lambda *each: kept.append(each))
        with pytest.raises(SinkError, match="cannot be written: HTTP 404 index_not_found_exception") as missing:
            put(sink, [(1, 1)])
        assert "that the index exists" in missing.value.remedy
        server._indexes = ["orders"]
        assert put(sink, [(1, 1)]) == 1
        server.answer = lambda request: HttpReply(200, b"<html>a proxy</html>")
        with pytest.raises(SinkError, match="cannot be written: HTTP 200 <html>a proxy"):
            put(sink, [(2, 2)])
        assert not kept


@pytest.mark.parametrize(
    ("status", "answer", "version", "verdict"),
    [
        (201, {}, 5, "done"),
        (404, {"result": "not_found"}, 5, "refused"),
        (409, {"error": {"reason": "[1]: version conflict, current version [5] is higher or equal"}}, 5, "done"),
        (409, {"error": {"reason": "[1]: version conflict, current version [6] is higher or equal"}}, 5, "overtaken"),
        (409, {"error": {"reason": "in other words"}}, 5, "done"),
        (409, {"error": {"reason": "document already exists (current version [9])"}}, None, "done"),
        (429, {"error": {"type": "es_rejected_execution_exception"}}, 5, "again"),
        (503, {"error": {"type": "unavailable_shards_exception"}}, 5, "again"),
        (403, {"error": {"type": "cluster_block_exception"}}, 5, "failed"),
        (400, {"error": None}, 5, "refused"),
    ],
)
def test_should_know_what_became_of_a_document(status, answer, version, verdict):
    one = Document("orders", "1", b"{}", version, b"{}")
    body = json.dumps({"items": [{one.action: {"status": status, **answer}}]}).encode()
    (outcome,) = outcomes(client.Answer(status=200, headers={}, body=body), [one], versioned=False)
    assert outcome.verdict == verdict


def test_should_not_delete_what_is_not_there():
    gone = Document("orders", "1", None, 5, b"{}")
    for item in (
        {"status": 404, "result": "not_found"},
        {"status": 404, "error": {"type": "index_not_found_exception"}},
    ):
        body = json.dumps({"items": [{"delete": item}]}).encode()
        (outcome,) = outcomes(client.Answer(status=200, headers={}, body=body), [gone], versioned=False)
        assert outcome.verdict == "done"
    assert outcomes(client.Answer(status=200, headers={}, body=b'{"items": []}'), [gone], versioned=False) is None


def test_should_have_versions_that_grow_with_batches_and_generations():
    last = 0
    for generation, batch in ((1, 0), (1, 1), (1, 10**9), (2, 0), (2**15 - 1, 2**40)):
        version = version_of(replace(MARK, generation=generation, batch_id=batch))
        assert last < version < 2**63
        last = version


def test_should_check_the_server_before_the_start():
    with SearchServer("elasticsearch", "6.8.23") as old:
        with pytest.raises(SinkError, match="is elasticsearch 6.8.23") as refused:
            writer(old).check_start()
        assert "use elasticsearch 7 or newer" in refused.value.remedy
    with SearchServer("elasticsearch") as server:
        with pytest.raises(
            SinkError, match="is elasticsearch 8.17.0, and the sink is declared for opensearch"
        ) as other:
            writer(server, flavour="opensearch").check_start()
        assert "flavour='elasticsearch'" in other.value.remedy
        writer(server, flavour="elasticsearch").check_start()
        writer(server).check_start()
    with SearchServer(headers={"Authorization": "Basic bWU6cGE1NQ=="}) as server:
        with pytest.raises(SinkError, match="cannot be written: HTTP 401"):
            writer(server).check_start()
        writer(server, of=endpoint(server, username="me", password="pa55")).check_start()
        # Who may only write.
        server.answer = lambda request: HttpReply(403)
        writer(server, of=endpoint(server, username="me", password="pa55")).check_start()


def shop(rows=({"id": 1, "ts": "2024-03-01T00:00:00Z", "x": 1.5, "gone": False},)):
    schema = "id bigint, ts timestamp, x double, gone boolean"
    return StreamBuilder.data_stream("shop", "search").from_array(rows, schema=schema)


@pytest.mark.parametrize(
    ("settings", "text", "remedy"),
    [
        ({"index": "Orders"}, "is not the name of an index", {"index": "orders"}),
        ({"index": "orders-{ts|yyyy"}, "is not the name of an index", {"index": "orders-{ts|yyyy.MM}"}),
        ({"mode": "merge"}, "the mode must be one of append, upsert", {"mode": "append"}),
        ({"keys": ["id"]}, "keys belong to mode='upsert'", {"mode": "upsert", "keys": ["id"]}),
        ({"deletes": "gone"}, "deletes belongs to mode='upsert'", {}),
        ({"version": "id"}, "version belongs to mode='upsert'", {}),
        ({"mode": "upsert", "keys": ["id"], "version": "id"}, "a key marks neither",
         {"mode": "upsert", "keys": ["id"]}),
        ({"mode": "upsert", "keys": ["id"], "index": "orders-{ts|yyyy}"}, "whose index changes",
         {"mode": "upsert", "keys": ["id", "ts"], "index": "orders-{ts|yyyy}"}),
        ({"flavour": "solr"}, "the flavour must be one of opensearch, elasticsearch", {}),
        ({"mode": "upsert", "keys": ["x"]}, "'x' is double, which cannot be a key", {"mode": "upsert", "keys": ["id"]}),
        ({"mode": "upsert", "keys": ["id"], "version": "x"}, "'x' is double, which cannot be a version",
         {"mode": "upsert", "keys": ["id"]}),
        ({"index": "orders-{id|yyyy}"}, "'id' is bigint, which cannot be a date", {"index": "orders-{ts|yyyy}"}),
    ],
)  # fmt: skip
def test_should_refuse_options_and_follow_the_remedy(settings, text, remedy):
    with pytest.raises(TopologyError, match=text):
        shop().to_search("http://host:9200", **{"index": "orders", **settings}).build()
    shop().to_search("http://host:9200", **{"index": "orders", **remedy}).build()


def test_should_not_keep_rows_that_are_retracted():
    changes = shop().to_table("id").to_stream(name="changes")
    with pytest.raises(TopologyError, match="would keep rows that the table of 'changes' retracts") as refused:
        changes.to_search("http://host:9200", "orders", mode="upsert", keys=["id"]).build()
    assert "deletes='retracted'" in refused.value.remedy


def test_should_not_let_two_sinks_share_the_versions_of_an_index():
    def twice(**settings):
        stream = shop()
        for name in ("one", "two"):
            stream.to_search("http://host:9200", "orders", name=name, **settings)
        return stream.build()

    with pytest.raises(TopologyError, match="sinks 'one' and 'two' share the target search:http://host:9200/orders"):
        twice(mode="upsert", keys=["id"])
    twice()
    twice(mode="upsert", keys=["ts"], version="id")


def test_should_keep_the_promises_of_a_sink(driver, tmp_path):
    with SearchServer(refuse=lambda row: "no text" if row["text"] is None else None) as server:
        case = SinkCase(
            write=lambda stream: stream.to_search(endpoint(server), "rows", batch=2, refused="dead_letter"),
            rows=lambda: server.documents("rows").values(),
            refused={"n": 7, "text": None},
        )
        check_sink(case, spark=driver, home=tmp_path)


@pytest.mark.canary
def test_should_hold_a_table_and_write_by_dates(options):
    channel = MemoryChannel(schema="id bigint, tier string, ts timestamp")
    table = StreamBuilder.data_stream("shop", "tiers").from_memory(channel).to_table("id")
    with SearchServer() as server:
        table.filter("tier != 'left'").to_search(endpoint(server), "tiers")
        changes = table.to_stream(name="changes")
        changes.to_search(endpoint(server), "days-{ts|yyyy.MM.dd}-{tier}", name="days")
        job = changes.build()
        times = ["2024-03-01T23:59:59Z", "2024-03-02T00:00:00Z"]
        channel.put({"id": 1, "tier": "free", "ts": times[0]}, {"id": 2, "tier": "free", "ts": times[0]})
        job.run(options)
        channel.put({"id": 1, "tier": "paid", "ts": times[1]}, {"id": 2, "tier": "left", "ts": times[1]})
        job.run(options)
        stored = {key: row["tier"] for key, row in server.documents("tiers").items()}
        assert stored == {"1": "paid"}
        assert server.documents("tiers")["1"] == {"id": 1, "tier": "paid", "ts": "2024-03-02T00:00:00.000000Z"}
        assert server.indexes[:-1] == ["days-2024.03.01-free", "days-2024.03.02-left", "days-2024.03.02-paid"]


SQL = """
    CREATE TABLE orders (id BIGINT, page STRING) WITH ('connector' = 'memory');
    CREATE TABLE found (page STRING, n BIGINT{key}) WITH ('connector' = '{connector}', 'hosts' = '{url}',
        'index' = 'pages'{more});
    INSERT INTO found SELECT page, COUNT(*) FROM orders GROUP BY page
"""
KEY = ", PRIMARY KEY (page) NOT ENFORCED"


def table(url="http://host:9200", key=KEY, connector="opensearch", more=""):
    orders = [{"id": n, "page": f"/{n % 3}"} for n in range(10)]
    return pipeline_from_sql(SQL.format(url=url, key=key, connector=connector, more=more), tables={"orders": orders})


def test_should_be_a_table_of_sql(options):
    with SearchServer("elasticsearch") as server:
        made = table(server.url, connector="elasticsearch-7", more=", 'sink.bulk-flush.max-actions' = '2'")
        (node,) = made.topology.sinks
        assert (node.mode, node.keys, node.flavour, node.batch) == ("upsert", ("page",), "elasticsearch", 2)
        made.run(options)
        counts = {row["page"]: row["n"] for row in server.documents("pages").values()}
        assert counts == {"/0": 4, "/1": 3, "/2": 3}


def test_should_refuse_a_table_without_a_key_for_rows_that_are_replaced():
    with pytest.raises(SqlError, match="has no option 'hots'"):
        table(more=", 'hots' = '1'")
    assert table(connector="opensearch-2", more=", 'username' = 'me', 'password' = '$PW'").name == "sql.found"

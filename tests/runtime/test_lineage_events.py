"""OpenLineage: what a run reads and writes, column by column, as a server of lineage gets it."""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from openlineage.client.event_v2 import RunState

from rs_assets import Dimension, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home
from rs_assets.connectors.connector import nowhere
from rs_assets.connectors.registry import SOURCES
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import default_openlineage
from rs_assets.runtime.record.datasets import dataset_at, datasets_read, datasets_written
from rs_assets.runtime.record.lineage import LineageEvents, Outcome


@pytest.fixture
def server(monkeypatch):
    """A server of lineage on loopback, which the client is told of; `.events` are what it got."""

    class Lineage(BaseHTTPRequestHandler):
        def do_POST(self):
            made.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Lineage) as made:
        made.events = []
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{made.server_port}")
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


HITS = [
    {"page": "/a", "user": 1, "at": "2026-01-05 10:00:01"},
    {"page": "/a", "user": 2, "at": "2026-01-05 10:00:02"},
]


def pipeline(folder, *, rows=HITS, condition="page IS NOT NULL"):
    """Counts hits by page and tier, which a dimension has."""
    (folder / "hits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "users.jsonl").write_text('{"user": 1, "tier": "gold"}\n{"user": 2, "tier": "gold"}\n')
    hits = StreamBuilder.data_stream("shop", "lineage").from_file(
        folder / "hits.jsonl", schema="page string, user int, at timestamp", name="hits"
    )
    users = Dimension.from_file(folder / "users.jsonl", schema="user int, tier string")
    hours = TumblingWindow.of(Time.hours(1), "at")
    looked_up = hits.filter(condition).dim_join(users, on="user", name="users")
    return looked_up.window(hours).group_by("page", "tier").count("n").to_delta("pages", name="pages").build()


def run(made, folder, driver, **options):
    return made.run(RunOptions(home=Home(folder / "home"), driver=driver, openlineage=True, **options))


def test_a_run_sends_what_it_reads_and_writes_column_by_column(tmp_path, driver, server):
    run_id = str(uuid.uuid4())
    report = run(pipeline(tmp_path), tmp_path, driver, run_id=run_id)
    assert report.warnings == ()
    assert [event["eventType"] for event in server.events] == ["START", "COMPLETE"]
    last = server.events[-1]
    assert last["run"]["runId"] == run_id
    assert (last["job"]["namespace"], last["job"]["name"]) == ("shop", "lineage")
    assert last["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    read = {each["name"]: each for each in last["inputs"]}
    assert set(read) == {str(tmp_path / "hits.jsonl"), str(tmp_path / "users.jsonl")}
    hits = read[str(tmp_path / "hits.jsonl")]
    assert hits["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert [f["name"] for f in hits["facets"]["schema"]["fields"]] == ["page", "user", "at"]
    [written] = last["outputs"]
    assert (written["namespace"], written["name"]) == ("file", str(tmp_path / "home/tables/shop/pages"))
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == report.rows_out == 1
    made_from = {
        column: {(each["name"].rpartition("/")[2], each["field"]) for each in found["inputFields"]}
        for column, found in written["facets"]["columnLineage"]["fields"].items()
    }
    assert made_from["page"] == {("hits.jsonl", "page")}
    # The key of a lookup decides which of its rows is found.
    assert made_from["tier"] == {("users.jsonl", "tier"), ("hits.jsonl", "user")}


def test_rows_that_two_queries_read_count_once(tmp_path, driver, server):
    (tmp_path / "hits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in HITS))
    hits = StreamBuilder.data_stream("shop", "twice").from_file(
        tmp_path / "hits.jsonl", schema="page string, user int, at timestamp", name="hits"
    )
    hours = TumblingWindow.of(Time.hours(1), "at")
    hits.window(hours, name="by_page").group_by("page").count("n").to_delta("pages")
    made = hits.window(hours, name="by_user").group_by("user").count("n").to_delta("users").build()
    report = run(made, tmp_path, driver)
    assert (len(report.queries), report.rows_in, report.rows_out) == (2, 2, 3)
    [read] = server.events[-1]["inputs"]
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 2


def test_a_run_that_fails_sends_its_error(tmp_path, driver, server):
    broken = pipeline(tmp_path, condition="raise_error(concat('no page ', page)) IS NULL")
    with pytest.raises(Exception, match="no page"):
        run(broken, tmp_path, driver)
    last = server.events[-1]
    assert last["eventType"] == "FAIL"
    assert "no page /a" in last["run"]["facets"]["errorMessage"]["message"]


def test_a_server_that_is_away_is_a_warning_of_the_report(tmp_path, driver, monkeypatch):
    """Also if the first event has failed before the run goes on: that it was made ended the warning."""

    def begun(self):
        self._send(RunState.START).result()

    monkeypatch.setattr(LineageEvents, "begin", begun)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    report = run(pipeline(tmp_path), tmp_path, driver)
    assert report.rows_out == 1
    assert [warning.partition(":")[0] for warning in report.warnings] == ["OpenLineage events are not sent"]


def test_a_stream_that_is_stopped_is_complete_and_streaming(tmp_path, driver, server):
    made = pipeline(tmp_path)
    with made.start(RunOptions(home=Home(tmp_path / "home"), driver=driver, openlineage=True)):
        pass
    assert [event["eventType"] for event in server.events] == ["START", "COMPLETE"]
    assert server.events[0]["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


def test_an_interrupted_run_is_aborted():
    assert Outcome(complete=False).state.name == "ABORT"
    assert Outcome(complete=True, error=ValueError()).state.name == "FAIL"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/data/t", ("file", "/data/t")),
        ("s3a://lake/raw/t", ("s3://lake", "raw/t")),
        ("kafka://a:9092,b:9092/hits", ("kafka://a:9092", "hits")),
        ("rocketmq://a:9876;b:9876/hits", ("rocketmq://a:9876", "hits")),
        ("postgresql://db:5432/shop sales.orders", ("postgres://db:5432", "shop.sales.orders")),
        ("mariadb://db:3306/shop orders", ("mysql://db:3306", "shop.orders")),
        ("$DB_URL orders", ("rs-assets", "$DB_URL orders")),
    ],
)
def test_a_place_has_the_name_that_other_systems_give_it(place, expected):
    found = dataset_at(place)
    assert (found.namespace, found.name) == expected


def test_rows_that_only_the_process_has_are_no_dataset(tmp_path):
    shown = StreamBuilder.data_stream("shop", "shown").from_array([{"n": 1}]).to_print().build()
    assert datasets_read(shown.topology, Home(tmp_path)) == {}
    assert datasets_written(shown.topology, Home(tmp_path)) == {}


def test_topics_and_tables_of_both_ends_are_datasets(tmp_path):
    kafka = StreamBuilder.data_stream("shop", "sent").from_kafka("a:9092", topics=["x", "y"], schema="n int", name="in")
    made = kafka.to_kafka("a:9092", "z", name="out").build().topology
    read, written = datasets_read(made, Home(tmp_path)), datasets_written(made, Home(tmp_path))
    assert [(each.namespace, each.name) for each in read["in"]] == [("kafka://a:9092", "x"), ("kafka://a:9092", "y")]
    assert (written["out"].namespace, written["out"].name) == ("kafka://a:9092", "z")


def test_sources_of_other_systems_have_a_place():
    """Only rows of the program, and those that others push to a port of this machine, are read from none."""
    without = {node.__name__ for node, known in SOURCES.items() if known.places is nowhere}
    assert without == {"ArraySource", "MemorySource", "WebhookSource", "SyslogSource"}


def test_the_switch_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("RS_OPENLINEAGE", "yes")
    assert default_openlineage()
    monkeypatch.setenv("RS_OPENLINEAGE", "http://lineage")
    with pytest.raises(ConfigurationError, match="RS_OPENLINEAGE") as refused:
        default_openlineage()
    assert refused.value.remedy == "use 1 or 0"
    for text, switched in (("1", True), ("0", False)):
        monkeypatch.setenv("RS_OPENLINEAGE", text)
        assert default_openlineage() is switched

"""OpenTelemetry: a collector gets the numbers of a run; one that is away ends nothing, and is told of."""

from __future__ import annotations

import gzip
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rs_assets import MemoryChannel, RunOptions, StreamBuilder
from rs_assets.common.background import BackgroundFailures
from rs_assets.common.home import Home
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import default_metrics_endpoint
from rs_assets.runtime.record.telemetry import Telemetry
from rs_assets.runtime.report import BatchProgress


@pytest.fixture
def collector():
    """A collector on loopback; `.requests` are what it got, decoded."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            server.requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def flow():
    stream = StreamBuilder.data_stream("shop", "told").from_array([{"n": 1}, {"n": 2}])
    return stream.expect("n > 0", name="positive").filter("n > 1").to_memory(MemoryChannel(), name="out").build()


def sums(request):
    [resource] = request.resource_metrics
    return {
        (metric.name, tuple(sorted((a.key, a.value.string_value) for a in point.attributes))): point.as_int
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.HasField("sum")
        for point in metric.sum.data_points
    }


def test_a_collector_gets_the_numbers_of_the_report(tmp_path, driver, collector):
    endpoint = f"http://127.0.0.1:{collector.server_port}/v1/metrics"
    report = flow().run(RunOptions(home=Home(tmp_path), driver=driver, metrics_endpoint=endpoint))
    found = sums(collector.requests[-1])
    query = (("pipeline", "shop.told"), ("query", report.queries[0].query))
    assert found["rs_rows", (("kind", "in"), *query)] == report.rows_in == 2
    assert found["rs_rows_out", (*query, ("sink", "out"))] == report.rows_out == 1
    expected = {attributes: rows for (name, attributes), rows in found.items() if name == "rs_expected_rows"}
    assert expected == {
        (("outcome", "failed"), *query, ("step", "positive")): 0,
        (("outcome", "met"), *query, ("step", "positive")): 2,
    }
    names = {a.key: a.value.string_value for a in collector.requests[-1].resource_metrics[0].resource.attributes}
    assert names["service.name"] == "shop.told"
    assert report.warnings == ()


def batch():
    return BatchProgress(
        query="out",
        steps=frozenset(),
        batch_id=0,
        rows_in=3,
        rows_dead=1,
        rows_late=0,
        rows_out={"out": 2},
        seconds=0.3,
        state_rows=7,
        watermark=datetime(2026, 1, 5, tzinfo=UTC),
    )


def test_every_number_has_its_pipeline_and_query(collector):
    failures = BackgroundFailures()
    with Telemetry("shop.told", f"http://127.0.0.1:{collector.server_port}/v1/metrics", failures) as telemetry:
        telemetry.count(batch())
        telemetry.count(batch())
    found = sums(collector.requests[-1])
    query = (("pipeline", "shop.told"), ("query", "out"))
    kinds = {kind: found["rs_rows", (("kind", kind), *query)] for kind in ("in", "dead", "late")}
    assert kinds == {"in": 6, "dead": 2, "late": 0}
    metrics = collector.requests[-1].resource_metrics[0].scope_metrics[0].metrics
    last = {m.name: p.as_double or p.as_int for m in metrics for p in m.gauge.data_points}
    assert (last["rs_state_rows"], last["rs_watermark_timestamp_seconds"]) == (7, batch().watermark.timestamp())
    assert failures.warnings == ()


@pytest.mark.timeout(60)
def test_a_collector_that_is_away_is_among_the_troubles():
    failures = BackgroundFailures()
    with Telemetry("shop.told", "http://127.0.0.1:9/v1/metrics", failures) as telemetry:
        telemetry.count(batch())
    assert failures.warnings == ("metrics do not reach the collector of OpenTelemetry: it did not take them",)


def test_the_environment_names_the_collector(monkeypatch):
    monkeypatch.setenv("RS_METRICS_ENDPOINT", "http://collector:4318/v1/metrics")
    assert default_metrics_endpoint() == "http://collector:4318/v1/metrics"


@pytest.mark.parametrize("text", ["collector:4318", "grpc://collector:4317"])
def test_what_is_no_address_is_refused(text, monkeypatch):
    monkeypatch.setenv("RS_METRICS_ENDPOINT", text)
    with pytest.raises(ConfigurationError, match="http://"):
        RunOptions()

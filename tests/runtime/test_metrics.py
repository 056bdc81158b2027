"""Metrics: what Prometheus reads of a run is what its report says, on loopback and while it goes on."""

import re
import socket
import urllib.request

import pytest

from rs_assets import MemoryChannel, RunOptions, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.options import default_metrics_port
from rs_assets.runtime.record.metrics import Metrics

ROWS = [{"k": "a", "ts": f"2026-01-01T00:00:{n:02d}Z"} for n in range(40)]


def read(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as reply:
        text = reply.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(rs_\S+) (\S+)$", text, re.MULTILINE)}


def test_the_numbers_of_a_run_are_those_of_its_report(tmp_path, driver, monkeypatch):
    seen, made = {}, []
    exit_of = Metrics.__exit__

    def last_look(self, *error):
        made.append(self.port)
        seen.update(read(self.port))
        exit_of(self, *error)

    monkeypatch.setattr(Metrics, "__exit__", last_look)
    stream = StreamBuilder.data_stream("shop", "counted").from_array(ROWS, schema="k string, ts timestamp")
    stream = stream.expect("k IS NULL", name="nobody")
    windows = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("k").count("n")
    flow = windows.to_data_stream().to_memory(MemoryChannel(), name="out").build()
    from rs_assets.common.home import Home

    report = flow.run(RunOptions(home=Home(tmp_path), driver=driver, metrics_port=0))
    labels = 'pipeline="shop.counted",query="tens"'
    assert seen[f'rs_rows_total{{kind="in",{labels}}}'] == report.rows_in == 40
    assert seen[f'rs_rows_total{{kind="late",{labels}}}'] == 0
    assert seen[f'rs_rows_out_total{{{labels},sink="out"}}'] == report.rows_out == 4
    assert seen[f'rs_expected_rows_total{{outcome="failed",{labels},step="nobody"}}'] == 40
    assert seen[f'rs_expected_rows_total{{outcome="met",{labels},step="nobody"}}'] == 0
    assert seen[f"rs_batch_seconds_count{{{labels}}}"] == report.batches
    assert seen[f"rs_watermark_timestamp_seconds{{{labels}}}"] > 0
    with pytest.raises(OSError, match="refused"):
        read(made[0])


def test_a_port_that_is_taken_is_refused_with_another_way(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        with pytest.raises(ConfigurationError, match=r"(?s)cannot be served on 127.0.0.1.*choose another metrics_port"):
            Metrics("shop.counted", held.getsockname()[1])


def test_metrics_before_the_first_batch_are_series_of_nothing():
    with Metrics("shop.counted", 0, {"tens": ["out"]}) as metrics:
        seen = read(metrics.port)
    labels = 'pipeline="shop.counted",query="tens"'
    assert {name: value for name, value in seen.items() if name.startswith("rs_rows") and "_created" not in name} == {
        **{f'rs_rows_total{{kind="{kind}",{labels}}}': 0 for kind in ("in", "dead", "late")},
        f'rs_rows_out_total{{{labels},sink="out"}}': 0,
    }
    assert seen[f"rs_batch_seconds_count{{{labels}}}"] == 0


@pytest.mark.parametrize(("text", "port"), [("", None), ("0", 0), ("9100", 9100)])
def test_the_environment_names_the_port(text, port, monkeypatch):
    monkeypatch.setenv("RS_METRICS_PORT", text)
    assert default_metrics_port() == port


@pytest.mark.parametrize("text", ["-1", "http", "70000", "²"])
def test_what_is_no_port_is_refused(text, monkeypatch):
    monkeypatch.setenv("RS_METRICS_PORT", text)
    with pytest.raises(ConfigurationError, match="RS_METRICS_PORT"):
        default_metrics_port()

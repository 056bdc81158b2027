"""Nexmark over Kafka: the same events and the same answers as from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipelines.nexmark.generator import LINES, Settings, lines, write
from pipelines.nexmark.queries import nexmark
from pipelines.nexmark.sources import Files, Topics, default_origin, topic
from pipelines.nexmark.topics import send
from rs_assets.runtime.options import RunOptions
from rs_assets.testing import KafkaBroker
from tests.nexmark.reference import compare

SETTINGS = Settings(events=10_000, rate=200, files=2, disorder=50)


@pytest.mark.long
def test_a_query_over_topics_equals_duckdb_over_files(broker: KafkaBroker, options: RunOptions, tmp_path: Path) -> None:
    for kind in LINES:
        broker.create_topic(topic(kind), partitions=2)
    assert send(broker.cluster, SETTINGS) == 10_000
    for kind in LINES:
        sent = sorted(line.rstrip("\n") for file in range(2) for line in lines(kind, file, SETTINGS))
        assert sorted(record.value.decode() for record in broker.read(topic(kind))) == sent
    keys = {(record.key, record.partition) for record in broker.read(topic("bids"))}
    assert len(keys) == len({key for key, _ in keys}) > 100
    pipeline = nexmark(
        "q9", Topics(cluster=broker.cluster, side_input=tmp_path), longest_auction=SETTINGS.longest_auction
    )
    report = pipeline.run(options, finish=True)
    assert (report.rows_in, report.rows_late) == (9_800, 0)
    table = DeltaTable(options.home.table("nexmark", "q9")).to_pyarrow_table()
    rows, lacking, surplus = compare("q9", write(tmp_path / "nexmark", SETTINGS), table)
    assert rows > 0
    assert (lacking, surplus) == (0, 0)


def test_the_environment_says_where_events_are(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RS_NEXMARK", str(tmp_path))
    monkeypatch.delenv("NEXMARK_SOURCE", raising=False)
    assert default_origin() == Files(folder=tmp_path)
    monkeypatch.setenv("NEXMARK_SOURCE", "kafka")
    monkeypatch.setenv("RS_KAFKA", "broker:9092")
    assert default_origin() == Topics(cluster="broker:9092", side_input=tmp_path / "side_input.csv")

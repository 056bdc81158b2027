"""Kafka in Dagster: sensors over topics without a running pipeline, the example by its job, shuffles in the graph."""

from __future__ import annotations

import orjson
import pytest
from dagster import DagsterInstance, RunRequest, SkipReason, build_sensor_context

from pipelines.order_totals import ORDERS, PAYMENTS, TOTALS, order_totals
from pipelines.order_totals_data import events
from rs_assets import RunOptions, StreamBuilder, Time, TumblingWindow, build_definitions
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.sensors import new_input_sensor, split_change_sensor
from rs_assets.testing import KafkaRecord


@pytest.fixture
def pipeline(broker, topic):
    stream = StreamBuilder.data_stream("test", "topics").from_kafka(broker.bootstrap_servers, topic, schema="id bigint")
    return stream.to_delta("out").build()


def test_should_observe_partitions_that_come_without_a_running_pipeline(
    broker, topic, pipeline, driver, tmp_path, monkeypatch
):
    monkeypatch.setenv("RS_HOME", str(tmp_path))
    broker.create_topic(topic, 2)
    pipeline.run(RunOptions(driver=driver))
    sensor = split_change_sensor(StreamAssets.of(pipeline))
    first = sensor.evaluate_tick(build_sensor_context())
    assert first.asset_events[0].metadata["added"].value == f"{topic}-0, {topic}-1"
    again = sensor(build_sensor_context(cursor=first.cursor))
    assert isinstance(again, SkipReason)
    broker.add_partitions(topic, 3)
    second = sensor.evaluate_tick(build_sensor_context(cursor=first.cursor))
    assert second.asset_events[0].metadata["added"].value == f"{topic}-2"
    assert second.asset_events[0].asset_key.path == ["test", "topics", "kafka"]


def test_should_ask_for_a_run_once_when_records_have_come(broker, topic, pipeline):
    broker.create_topic(topic, 1)
    sensor = new_input_sensor(StreamAssets.of(pipeline))
    empty = sensor.evaluate_tick(build_sensor_context())
    broker.produce(topic, [b'{"id": 1}'])
    found = sensor.evaluate_tick(build_sensor_context(cursor=empty.cursor))
    assert [type(request) for request in found.run_requests] == [RunRequest]
    assert not sensor.evaluate_tick(build_sensor_context(cursor=found.cursor)).run_requests


def test_should_skip_with_the_reason_while_no_broker_answers(monkeypatch):
    monkeypatch.setattr("rs_assets.dagster.sensors.inputs.PATIENCE", Time.seconds(1))
    stream = StreamBuilder.data_stream("test", "alone").from_kafka("127.0.0.1:1", "nothing", schema="id bigint")
    skipped = new_input_sensor(StreamAssets.of(stream.to_delta("out").build()))(build_sensor_context())
    assert isinstance(skipped, SkipReason)
    assert "127.0.0.1:1" in skipped.skip_message


def test_should_run_the_example_through_its_job_with_equal_results_in_table_and_topic(broker, driver, tmp_path):
    for name in (ORDERS, PAYMENTS, TOTALS):
        broker.create_topic(name, 2)
    made = list(events(600))
    for name in (ORDERS, PAYMENTS):
        broker.produce(name, [KafkaRecord(key=e.key, value=e.value) for e in made if e.topic == name])
    definitions = build_definitions([order_totals(broker.bootstrap_servers)])
    job = definitions.resolve_job_def("shop_order_totals_run")
    config = {
        "resources": {
            "rs_spark": {"config": {"share": True}},
            "rs_run": {"config": {"home": str(tmp_path)}},
            "rs_window": {"config": {"finish": True}},
        },
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }
    with DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(run_config=config, instance=instance)
    assert result.success
    from deltalake import DeltaTable

    table = DeltaTable(str(tmp_path / "tables" / "shop" / "order_totals")).to_pyarrow_table().to_pylist()
    sent = [orjson.loads(record.value) for record in broker.read(TOTALS)]
    assert sum(row["ordered"] for row in table) == sum(_amounts(made, ORDERS))
    assert sum(row["paid"] for row in table) == sum(_amounts(made, PAYMENTS))
    assert sorted((r["customer"], f"{r['owed']:.2f}") for r in table) == sorted(
        (r["customer"], f"{r['owed']:.2f}") for r in sent
    )


def _amounts(made, topic):
    from decimal import Decimal

    for event in made:
        if event.topic == topic and event.value.endswith(b"}"):
            yield Decimal(orjson.loads(event.value)["amount"])


def test_should_draw_the_halves_of_a_durable_shuffle_one_behind_the_other():
    stream = StreamBuilder.data_stream("test", "drawn").from_array([{"page": "/", "ts": "2026-01-01 00:00:00"}])
    windowed = stream.shuffle(2, strategy="delta").window(TumblingWindow.of(Time.seconds(1), "ts")).count("n")
    definitions = build_definitions([windowed.to_data_stream().to_delta("out").build()])
    graph = definitions.resolve_job_def("test_drawn_run").graph
    nodes = {node.name: node for node in graph.nodes}["test_drawn"].definition
    assert {"shuffle_1_write", "shuffle_1"} <= {node.name for node in nodes.nodes}
    assets = definitions.resolve_asset_graph()
    state = next(key for key in assets.get_all_asset_keys() if key.path[-1] == "window")
    assert {key.path[-1] for key in assets.get(state).parent_keys} == {"array"}

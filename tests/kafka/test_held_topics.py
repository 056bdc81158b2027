"""Topics that wait until a table is loaded keep the place at which the first start would have begun."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rs_assets import MemoryChannel, StreamBuilder
from tests.tables.test_waiting import World, start_shuffled


def test_records_after_latest_that_come_while_a_table_is_loaded_meet_the_whole_table(broker, topic, options):
    users, out = f"{topic}-users", MemoryChannel()
    broker.create_topic(topic)
    broker.create_topic(users)
    broker.produce(users, [json.dumps({"id": n % 20, "tier": str(n // 20)}).encode() for n in range(60)])
    broker.produce(topic, [b'{"user": 1, "n": 0}'])
    came = []

    def listen(batch):
        if not came:
            came.append(batch.batch_id)
            broker.produce(topic, [b'{"user": 1, "n": 1}', b'{"user": 19, "n": 2}'])

    shop = StreamBuilder.data_stream("shop", "held")
    read = {"schema": "id bigint, tier string", "max_rows_per_batch": 20, "name": "users"}
    table = shop.from_kafka(broker.bootstrap_servers, users, **read).to_table("id")
    clicks = shop.from_kafka(
        broker.bootstrap_servers, topic, schema="user bigint, n bigint", starting_offsets="latest", name="clicks"
    )
    seen = clicks.join_table(table, on={"user": "id"}, how="left", wait_for_table=True).to_memory(out).build()
    seen.run(replace(options, on_progress=listen))
    assert came == [0]
    assert sorted((row["n"], row["tier"]) for row in out.rows()) == [(1, "2"), (2, "2")]


@pytest.mark.long
def test_a_started_stream_waits_for_a_table_of_the_rows_in_a_topic_of_another_query(broker, options, tmp_path):
    world = World(options, tmp_path)
    world.load(60)
    world.click(0, 29, 59)
    start_shuffled(world, strategy="kafka", bootstrap_servers=broker.bootstrap_servers)
    assert world.result() == world.expected()

"""Processors with every store and timers on all ways back, by random histories against dictionaries."""

import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from rs_assets import Time
from rs_assets.testing import ProcessorTest
from tests.processors.campaign import SCHEMA, Everything, Model, Play, World, drawn

# The second history begins where the watermark of Spark does.
BEGINS = [datetime(2026, 1, 5, 10, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 40, tzinfo=UTC)]


@pytest.mark.canary
@pytest.mark.parametrize("seed", range(2))
def test_a_processor_without_spark_equals_dictionaries(seed):
    rng, clock, rows = random.Random(seed), BEGINS[seed], []
    for _ in range(3):
        more, clock = drawn(rng, clock)
        rows += more
    schema = "k string, what string"
    test = ProcessorTest(Everything, keys="k", schema=schema, time_field="ts", water_mark=Time.seconds(5), rows=SCHEMA)
    test.pipe(*rows)
    # Each row is a batch.
    model = Model([row] for row in rows)
    assert Counter((row["k"], row["what"]) for row in test.forwarded()) == Counter(model.made)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_a_processor_equals_dictionaries_after_each_step(options, tmp_path, monkeypatch, seed):
    Play(World(options, tmp_path, BEGINS[seed % 2]), monkeypatch, seed).run(steps=12)

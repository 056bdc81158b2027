"""A home that was lost beside an exactly-once topic is brought back by one command, and never begins from nothing."""

import shutil
from dataclasses import replace

import pytest

from rs_assets import StreamBuilder
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.home import Home
from rs_assets.errors import CheckpointError
from rs_assets.runtime.options import SavepointPolicy
from rs_assets.runtime.upkeep.claims import lost_pipeline
from rs_assets.runtime.upkeep.savepoints import restore


@pytest.fixture
def topics(broker, topic):
    made = f"{topic}-in", f"{topic}-out"
    for name in made:
        broker.create_topic(name, 1)
    return made


def test_should_bring_a_lost_home_back_beside_an_exactly_once_topic(broker, topics, options, tmp_path):
    source, out = topics
    stream = StreamBuilder.data_stream("shop", "sent").from_kafka(broker.bootstrap_servers, source, format="text")
    pipeline = stream.to_kafka(broker.bootstrap_servers, out, delivery="exactly_once", value="value").build()
    options = replace(options, savepoints=SavepointPolicy(uri=str(tmp_path / "store")))
    for number in range(3):
        broker.produce(source, [b"%d" % number])
        pipeline.run(replace(options, savepoints=replace(options.savepoints, at_end=number == 2)))
    manifest = manifests.load(options.home.job("shop", "sent"))
    shutil.rmtree(options.home.root)
    blank = replace(options, home=Home(tmp_path / "blank"))
    with pytest.raises(CheckpointError, match="there are savepoints of it"):
        pipeline.run(blank)
    nothing_saved = replace(blank, savepoints=SavepointPolicy(uri=str(tmp_path / "empty")))
    with pytest.raises(CheckpointError, match="its outputs were written from another one") as refused:
        pipeline.run(nothing_saved)
    assert refused.value.facts["written_from"].endswith(str(options.home.root))
    assert lost_pipeline(pipeline.topology, blank) == manifest.pipeline_id
    restore(pipeline.topology, blank)
    broker.produce(source, [b"3"])
    pipeline.run(blank)
    assert [record.value for record in broker.read(out)] == [b"0", b"1", b"2", b"3"]

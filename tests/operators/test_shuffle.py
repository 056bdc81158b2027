"""shuffle: rows over partitions."""

import json

import pytest

from rs_assets import Dimension, MemoryChannel, Rules, StreamBuilder
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.testing import PipelineDriver

ROWS = [{"key": f"k{n % 4}", "n": n} for n in range(20)]


def partition(row):
    from pyspark import TaskContext

    return {"key": row["key"], "partition": TaskContext.get().partitionId()}


@pytest.mark.parametrize("keys", [(), ("key",)])
def test_should_keep_every_row_and_equal_keys_together(source, drive, keys):
    stream = source("key string, n bigint").shuffle(3, keys=keys).map(partition, schema="key string, partition int")
    rows = drive(stream, ROWS)
    assert len(rows) == len(ROWS)
    if keys:
        places = {(row["key"], row["partition"]) for row in rows}
        assert len(places) == 4
    else:
        assert len({row["partition"] for row in rows}) == 3


@pytest.mark.parametrize("partitions", [0, -1, True, 1.5, "2"])
def test_should_refuse_a_number_that_is_none(source, partitions):
    with pytest.raises(TopologyError, match="positive number of partitions"):
        source("n bigint").shuffle(partitions)


def test_should_name_the_unknown_key(source, drive):
    with pytest.raises(UnknownFieldError, match="use one of: n"):
        drive(source("n bigint").shuffle(2, keys=["m"]), [{"n": 1}])


def limits_of(way, file):
    """Rows with the limit that `file` has, by rules and by a dimension."""
    stream = StreamBuilder.data_stream("shop", way).from_memory(MemoryChannel(schema="n bigint"), name="in")
    if way == "dimension":
        limits = Dimension.from_file(file, schema="n bigint, version bigint")
        return stream.filter("n > 0").dim_join(limits, on="n", name="looked_up")
    rules = Rules.from_file(file, columns="version bigint")
    return stream.filter("n > 0").match(rules, form="per_match", carry=["version"], name="looked_up")


@pytest.mark.parametrize("way", ["dimension", "rules"])
def test_rows_before_it_should_have_the_version_of_their_batch(driver, tmp_path, way):
    """Also after a batch in which no row was looked up."""
    file = tmp_path / "looked_up.jsonl"

    def write(version):
        rule = {"rule": "one", "condition": "(n,==,1)"}
        file.write_text(json.dumps({"version": version, **({"n": 1} if way == "dimension" else rule)}) + "\n")

    write(0)
    pipeline = limits_of(way, file).shuffle(2).to_memory(MemoryChannel(), name="out").build()
    found = []
    with PipelineDriver(pipeline, spark=driver) as running:
        for version, n in enumerate((0, 1, 1)):
            write(version)
            running.reload("looked_up")
            running.push([{"n": n}])
            running.step()
            found.append([row["version"] for row in running.take()])
    assert found == [[], [1], [2]]

"""shuffle: rows over partitions."""

import pytest

from rs_assets.errors import TopologyError, UnknownFieldError

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

"""What `rescale` refuses before it runs anything."""

import pytest

from rs_assets import StreamBuilder, Time
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.run.rescaled import check_partitions


def ids():
    return StreamBuilder.data_stream("test", "ids").from_array([{"id": 1, "ts": 1_000}])


def test_a_pipeline_without_state_is_refused():
    """It was run to the end of its input, and then said to be rescaled."""
    with pytest.raises(ConfigurationError, match=r"test\.ids has no state"):
        check_partitions(ids().filter("id > 0").to_print().build().topology, 4)


def test_a_pipeline_with_state_is_accepted():
    once = ids().distinct("id", within=Time.minutes(1), time_field="ts")
    check_partitions(once.to_print().build().topology, 4)


@pytest.mark.parametrize("partitions", [0, True, 5_000, "4"])
def test_an_invalid_number_is_refused(partitions):
    with pytest.raises(ConfigurationError, match="not a number of partitions"):
        check_partitions(ids().to_print().build().topology, partitions)

"""A process that runs pipelines again and again keeps nothing of the runs that are over."""

import gc

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.pipeline.runtime.batch.query import QueryRun


def test_spark_does_not_keep_the_queries_of_a_run(options):
    out = MemoryChannel()
    pipeline = StreamBuilder.data_stream("shop", "forgotten").from_array([{"id": 1}]).to_memory(out).build()
    pipeline.run(options)
    gc.collect()
    kept = [o for o in gc.get_objects() if isinstance(o, QueryRun) and o.topology.job == "forgotten"]
    assert (out.rows(), kept) == ([{"id": 1}], [])

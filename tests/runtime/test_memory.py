"""A process that runs pipelines again and again keeps nothing of the runs that are over."""

import gc
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from py4j.java_gateway import JavaObject

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.errors import StepError
from rs_assets.runtime.batch.calls import SERVER
from rs_assets.runtime.batch.query import QueryRun


def test_spark_does_not_keep_the_queries_of_a_run(options):
    out = MemoryChannel()
    pipeline = StreamBuilder.data_stream("shop", "forgotten").from_array([{"id": 1}]).to_memory(out).build()
    pipeline.run(options)
    gc.collect()
    kept = [o for o in gc.get_objects() if isinstance(o, QueryRun) and o.topology.job == "forgotten"]
    assert (out.rows(), kept) == ([{"id": 1}], [])


def well(stream, options):
    stream.to_memory(MemoryChannel()).build().run(replace(options, new_generation=True))


def by_a_stop(stream, options):
    came = threading.Event()
    told = replace(options, interval=timedelta(milliseconds=1), on_progress=lambda batch: came.set())
    with stream.to_memory(MemoryChannel()).build().start(replace(told, new_generation=True)):
        assert came.wait(120)


def with_a_failure(stream, options):
    with pytest.raises(StepError):
        stream.filter(lambda record: int(record["text"]) > 0).to_memory(MemoryChannel()).build().run(options)


@pytest.mark.parametrize("ends", [well, by_a_stop, with_a_failure])
def test_no_thread_waits_for_the_calls_of_a_query_that_is_over(options, ends):
    """Each keeps a socket open, and a process has 1,024 at most."""
    stream = StreamBuilder.data_stream("shop", "threads").from_array([{"id": 1, "text": "none"}])
    before = set(threading.enumerate())
    for _ in range(4):
        ends(stream, options)
    new = set(threading.enumerate()) - before
    until, pause = time.monotonic() + 120, threading.Event()
    # One of them may be that on which Java says what it has forgotten.
    while len([thread for thread in new if thread.is_alive()]) > 1:
        assert time.monotonic() < until, new
        pause.wait(0.05)


def test_java_keeps_no_connection_and_no_thread_of_a_query_that_is_over(options, tmp_path):
    """Each connection has a socket, and each thread of a Python source keeps the session of its query."""
    lines = tmp_path / "in.jsonl"
    stream = StreamBuilder.data_stream("shop", "java").from_file(lines, schema="id bigint", tail=True)
    pipeline = stream.to_memory(MemoryChannel()).build()

    def run():
        with lines.open("a") as file:
            file.write('{"id": 1}\n')
        pipeline.run(options, finish=False)

    for _ in range(2):
        run()
    before = options.driver.call(kept_by_java)
    for _ in range(3):
        run()
    assert options.driver.call(kept_by_java) == before


def kept_by_java(spark):
    """How many connections of py4j's client and monitors of Python workers there are in the JVM."""
    jvm = spark.sparkContext._jvm
    client = JavaObject(SERVER, spark.sparkContext._gateway._gateway_client).getCallbackClient()
    connections = client.getClass().getSuperclass().getDeclaredField("connections")
    connections.setAccessible(True)
    monitors = 0
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
        if thread.getClass().getName().endswith("PythonWorkerFactory$MonitorThread"):
            # One that was interrupted ends in a moment.
            if thread.isInterrupted():
                thread.join(120_000)
            monitors += thread.isAlive()
    return connections.get(client).size(), monitors

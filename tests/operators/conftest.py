"""How operators are tested: a pipeline, some batches, and what came out."""

from itertools import chain

import pytest

from rs_assets import StreamBuilder
from rs_assets.testing import PipelineDriver, run_rows


@pytest.fixture
def source():
    """Begins a pipeline over a file source of a schema; the driver replaces the file by a memory channel."""

    def begin(schema, **options):
        return StreamBuilder.data_stream("test", "operator").from_file("in.jsonl", schema=schema, **options)

    return begin


@pytest.fixture
def drive(driver):
    """Runs a stream over batches of rows, to its end, and returns the rows that its sink got."""

    def run(stream, *batches):
        with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
            for rows in batches:
                pipeline.push(rows)
                pipeline.step()
            pipeline.finish()
            return pipeline.take()

    return run


@pytest.fixture
def compute(driver):
    """The rows that steps without state make of batches of rows, in one job; one test a step uses `drive` instead."""

    def run(stream, *batches):
        return run_rows(stream, chain.from_iterable(batches), spark=driver)

    return run

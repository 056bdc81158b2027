"""How operators are tested: a pipeline, some batches, and what came out."""

import pytest

from rs_assets import StreamBuilder
from rs_assets.testing import PipelineDriver


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

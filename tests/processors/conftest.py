"""How functions with state are tested: batches of rows, and the rows that each of them made."""

import pyarrow as pa
import pytest

from rs_assets import StreamBuilder
from rs_assets.testing import PipelineDriver


@pytest.fixture
def follow(driver):
    """Runs a stream; called with batches, each a list of rows, it gives the rows that each made.

    It is stopped and started again before the batches whose numbers are in `restarts`.
    """

    def run(stream, batches, *, restarts=()):
        told = []
        with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
            for number, rows in enumerate(batches):
                if number in restarts:
                    pipeline.restart()
                pipeline.push(rows)
                pipeline.step()
                told.append(pipeline.take())
        return told

    return run


def source(schema, **options):
    """A file that is followed, so that its rows have an order."""
    return StreamBuilder.data_stream("test", "process").from_file("in.jsonl", schema=schema, tail=True, **options)


def touched(key, state, rows, shape):
    """A batch for a worker, with one key."""
    kinds = {name: shape.rows.field(name).type if name in shape.rows.names else pa.string() for name in shape.keys}
    columns = {
        "key": pa.array([key], pa.struct(kinds.items())),
        "state": pa.array([state], pa.struct(list(shape.state))),
        "rows": pa.array([rows], pa.list_(pa.struct(list(shape.rows)))),
    }
    return pa.record_batch(columns)

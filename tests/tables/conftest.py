"""How tables are tested: batches of rows, and the changes that each of them told."""

import pytest

from rs_assets.testing import PipelineDriver


@pytest.fixture
def follow(driver):
    """Runs a stream; called with batches, each a list of rows or a dict of them by source, it gives what each told.

    With `restart` it starts anew before the last batch.
    """

    def run(stream, batches, *, restart=True):
        told = []
        with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
            for number, batch in enumerate(batches):
                if restart and number == len(batches) - 1:
                    pipeline.restart()
                for source, rows in batch.items() if isinstance(batch, dict) else [(None, batch)]:
                    pipeline.push(rows, source)
                pipeline.step()
                told.append(pipeline.take())
        return told

    return run

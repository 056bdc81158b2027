"""for_each: a side effect, and the record goes on unchanged."""

import pytest

from rs_assets.errors import StepError, TopologyError

ROWS = [{"n": 1}, {"n": 2}]


def test_should_call_the_function_for_every_record(source, drive, tmp_path):
    def note(row, folder=str(tmp_path)):
        from pathlib import Path

        Path(folder, str(row["n"])).touch()

    assert drive(source("n bigint").for_each(note), ROWS) == ROWS
    assert sorted(file.name for file in tmp_path.iterdir()) == ["1", "2"]


def test_should_end_the_batch_if_the_function_raises(source, drive):
    def refuse(row):
        raise ValueError(row["n"])

    with pytest.raises(StepError, match="ValueError: 1"):
        drive(source("n bigint").for_each(refuse), ROWS)


def test_should_refuse_what_is_no_function(source):
    with pytest.raises(TopologyError, match="takes a function"):
        source("n bigint").for_each("n")

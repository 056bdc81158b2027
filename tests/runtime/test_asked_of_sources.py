"""What a run asks of its sources: limits of batches, and the policy for bad records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError
from rs_assets.records.policy import BadRecords
from rs_assets.runtime.job.asked import as_asked
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.topology import Topology


@pytest.fixture
def topology() -> Topology:
    """Sources of each kind of limit, and one without."""
    job = StreamBuilder.data_stream("shop", "asked")
    followed = job.from_file("in.jsonl", schema="id int", tail=True, max_rows_per_batch=10, name="followed")
    whole = job.from_file("in", schema="id int", max_files_per_batch=3, bad_records="skip", name="whole")
    table = job.from_sqlite("in.db", "events", schema="id int", name="table")
    array = job.from_array([{"id": 1}], schema="id int", name="array")
    return followed.union(whole, table, array).to_print().build().topology


def limits(topology: Topology) -> dict[str, tuple[object, object, object]]:
    """Rows, files and policy of each source."""
    names = ("max_rows_per_batch", "max_files_per_batch", "policy")
    rows, files, policy = ({node.name: getattr(node, name, "none") for node in topology.sources} for name in names)
    return {name: (rows[name], files[name], policy[name]) for name in rows}


def test_a_run_that_asks_for_nothing_has_the_settings_of_the_steps(topology: Topology) -> None:
    assert as_asked(topology, RunOptions()) is topology


def test_a_run_sets_the_limits_that_sources_have_and_the_code_is_the_same(topology: Topology) -> None:
    made = as_asked(topology, RunOptions(max_rows_per_batch=5, max_files_per_batch=7))
    assert limits(made) == {
        "followed": (5, None, BadRecords.FAIL),
        "whole": (None, 7, BadRecords.SKIP),
        "table": (5, "none", BadRecords.FAIL),
        "array": ("none", "none", BadRecords.FAIL),
    }
    assert (made.code, made.fingerprint) == (topology.code, topology.fingerprint)
    one = as_asked(topology, RunOptions(max_rows_per_batch=5))
    assert limits(one)["whole"] == limits(topology)["whole"]


def test_a_policy_of_a_run_is_that_of_all_sources_and_another_version(topology: Topology) -> None:
    made = as_asked(topology, RunOptions(bad_records="dead_letter"))
    assert {policy for _, _, policy in limits(made).values()} == {BadRecords.DEAD_LETTER}
    assert limits(made)["followed"][0] == 10
    assert (made.code != topology.code, made.fingerprint) == (True, topology.fingerprint)


@pytest.mark.parametrize(
    ("asked", "what"),
    [({"bad_records": "sometimes"}, "'sometimes' is not a policy"), ({"max_rows_per_batch": 0}, "a positive number")],
)
def test_a_setting_that_no_source_takes_is_refused(topology: Topology, asked: dict[str, object], what: str) -> None:
    with pytest.raises(TopologyError, match=what):
        as_asked(topology, replace(RunOptions(), **asked))


def test_limits_of_a_run_cut_its_batches(tmp_path: Path, options: RunOptions) -> None:
    (tmp_path / "in.jsonl").write_text("".join(f'{{"id": {n}}}\n' for n in range(5)))
    rows = StreamBuilder.data_stream("shop", "cut").from_file(tmp_path / "in.jsonl", schema="id int", tail=True)
    report = rows.to_delta("cut").build().run(replace(options, max_rows_per_batch=2))
    assert (report.rows_in, report.batches) == (5, 3)

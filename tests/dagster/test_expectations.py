"""Checks of expectations: what the rows of the last day say, beside those of the days before."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.catalog import Catalog, row_of
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.dagster.assets.checks import judges_of
from rs_assets.dagster.place import Place

SCHEMA = "page string, ms bigint, ts timestamp"


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "rs")


def build():
    """Two expectations: one upstream of both outputs, one of a single output."""
    hits = StreamBuilder.data_stream("shop", "hits").from_file("in.jsonl", schema=SCHEMA)
    checked = hits.expect("ms >= 0", tolerated=0.1, name="took_time")
    checked.to_delta("all_hits")
    windows = checked.window(TumblingWindow.of(Time.minutes(1), "ts"), name="minutes").count("n").to_data_stream()
    return windows.expect("n > 1", on_fail="skip", name="busy").to_delta("busy_minutes").build()


def judged(home, sink, name):
    topology = build().topology
    [judge] = [judge for step, check, judge in judges_of(topology) if (step, check) == (sink, name)]
    return judge(topology, sink, Place(home=home))


def note(home, *counts, pipeline="shop.hits", step="took_time", condition=None, query="q", generation=1, first=0):
    """Rows of the catalog, a batch each: days ago, rows, failed."""
    now = datetime.now(UTC)
    known = {"generation": generation, "run_id": "r", "query": query, "step": step, "condition": condition}
    rows = [
        row_of(pipeline, at=now - timedelta(days=days), batch_id=number, rows=came, failed=failed, **known)
        for number, (days, came, failed) in enumerate(counts, first)
    ]
    Catalog(home.catalog).append("expectations", rows)


def test_each_output_has_the_checks_of_the_expectations_upstream():
    topology = build().topology
    found = {(step, name) for step, name, _ in judges_of(topology) if name in ("took_time", "busy")}
    assert found == {
        ("all_hits_table", "took_time"),
        ("busy_minutes_table", "took_time"),
        ("busy_minutes_table", "busy"),
    }


@pytest.mark.parametrize(("failed", "passed"), [(0, True), (10, True), (11, False)])
def test_a_check_passes_up_to_the_tolerated_share_of_a_day(home, failed, passed):
    note(home, (0, 60, failed), (0.5, 40, 0), (1.5, 10, 10))
    result = judged(home, "all_hits_table", "took_time")
    assert result.passed is passed
    assert (result.description or "").startswith(
        f"{failed} of 100 rows within a day did not meet 'ms >= 0'" * bool(failed)
    )


def test_a_check_remembers_what_was_usual(home):
    note(home, (0, 10, 0), (2, 10, 1), (3, 6, 3), (3, 4, 0), (9, 10, 2), (40, 10, 10))
    note(home, (0, 10, 10), pipeline="shop.others")
    facts = {name: value.value for name, value in judged(home, "all_hits_table", "took_time").metadata.items()}
    assert (facts["rows"], facts["failed"], facts["share"], facts["tolerated"]) == (10, 0, 0.0, 0.1)
    assert (facts["usual_share"], facts["days"]) == (pytest.approx(0.2), 3)
    assert (facts["condition"], facts["on_fail"]) == ("ms >= 0", "warn")
    ago = datetime.now(UTC) - datetime.fromisoformat(facts["last_failed"])
    assert timedelta(days=2) <= ago < timedelta(days=2, hours=1)


def test_rows_that_another_condition_has_judged_do_not_count(home):
    note(home, (0, 10, 10), (3, 10, 10), condition="ms >= 100")
    note(home, (0, 4, 0), (2, 4, 1), condition="ms >= 0")
    result = judged(home, "all_hits_table", "took_time")
    facts = {name: value.value for name, value in result.metadata.items()}
    assert (result.passed, result.description) == (True, None)
    assert (facts["rows"], facts["failed"], facts["usual_share"], facts["days"]) == (4, 0, 0.25, 1)


def test_rows_of_batches_that_were_undone_do_not_count(home):
    topology = build().topology
    plan = next(plan for plan in plan_queries(topology) if "all_hits_table" in plan.sinks)
    facts = QueryFacts(generation=2, stateful=plan.stateful, sinks=dict.fromkeys(plan.sinks, 3), path=((1, 1),))
    manifest = replace(Manifest.new(), generation=2, queries={plan.name: facts})
    manifests.save(home.job(topology.namespace, topology.job), manifest)
    note(home, (0, 1, 0), (0, 2, 0), (0, 4, 4), (0, 8, 8), query=plan.name)
    note(home, (0, 16, 0), query=plan.name, generation=2, first=2)
    result = judged(home, "all_hits_table", "took_time")
    facts = {name: value.value for name, value in result.metadata.items()}
    assert (result.passed, facts["rows"], facts["failed"]) == (True, 1 + 2 + 16, 0)


def test_a_check_without_rows_says_so(home):
    result = judged(home, "busy_minutes_table", "busy")
    assert (result.passed, result.description) == (True, "no rows were judged within a day")

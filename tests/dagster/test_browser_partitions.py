"""Hours of a table in a real browser: they fill, start what follows, are proved, tried and computed again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from dagster import AssetKey, DagsterInstance
from deltalake import DeltaTable
from playwright.sync_api import Page

from tests.dagster.browser import (
    MARKS,
    PATIENCE_MS,
    entry,
    launch,
    opened,
    served,
    shot,
    show_event,
    show_text,
    wait_for_success,
    wait_for_text,
    wait_until,
    world_of,
)

pytestmark = [*MARKS, pytest.mark.long]

CODE = """
import os

import dagster as dg
from rs_assets import EventTimePartitions, StreamBuilder, Time, TumblingWindow, build_definitions

HOURS = EventTimePartitions.hourly("start_time", since="2026-01-05")
TOTAL = "sum(ms)"
hits = StreamBuilder.data_stream("web", "hours").from_file(
    os.environ["HITS"], schema="id int, page string, ms int, ts timestamp", tail=True
)
windows = hits.window(TumblingWindow.of(Time.minutes(10), "ts"), name="windows").group_by("page")
pipeline = windows.aggregate(n="count(*)", total=TOTAL).to_delta("per_hour", partitions=HOURS).build()


@dg.asset(
    partitions_def=HOURS.definition(),
    deps=[dg.AssetKey(["web", "hours", "per_hour", "closed"])],
    automation_condition=dg.AutomationCondition.eager().without(dg.AutomationCondition.in_latest_time_window()),
)
def report(context: dg.AssetExecutionContext) -> None:
    context.log.info(f"the rows of the hour {context.partition_key} are complete")


automation = dg.AutomationConditionSensorDefinition(
    "automation", target=dg.AssetSelection.all(), default_status=dg.DefaultSensorStatus.RUNNING
)
defs = dg.Definitions.merge(build_definitions([pipeline]), dg.Definitions(assets=[report], sensors=[automation]))
"""
WORKSPACE = "load_from:\n  - python_module: {module_name: hours, location_name: hours}\n"
HITS = [
    {"id": number, "page": page, "ms": number, "ts": f"2026-01-05 {time}:00"}
    for number, (page, time) in enumerate(
        [("/a", "10:05"), ("/b", "10:06"), ("/a", "10:07"), ("/a", "11:15"), ("/b", "12:30"), ("/a", "13:45")], 1
    )
]
TEN, ELEVEN, TWELVE = (f"2026-01-05-{hour}:00" for hour in (10, 11, 12))
CLOSED = AssetKey(["web", "hours", "per_hour", "closed"])


@pytest.fixture
def world(tmp_path: Path) -> Mapping[str, str]:
    """A project of somebody's own with six records, as environment variables."""
    (tmp_path / "hours.py").write_text(CODE)
    (tmp_path / "workspace.yaml").write_text(WORKSPACE)
    (tmp_path / "hits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in HITS))
    return world_of(tmp_path, HITS=str(tmp_path / "hits.jsonl"), RS_SPARK_MASTER="local[1]")


@pytest.fixture
def ui(world: Mapping[str, str], tmp_path: Path) -> Iterator[str]:
    with served(world, tmp_path) as address:
        yield address


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with opened(tmp_path / "profile") as page:
        yield page


def upkeep(action: str) -> str:
    return f"ops:\n  upkeep:\n    config:\n      {action}\n"


def rows(world: Mapping[str, str]) -> list[tuple[str, int, int]]:
    """Page, count and sum of the closed hours."""
    table = DeltaTable(str(Path(world["RS_HOME"]) / "tables" / "web" / "per_hour"))
    found = table.to_pyarrow_table().sort_by([("start_time", "ascending"), ("page", "ascending")])
    return [(row["page"], row["n"], row["total"]) for row in found.to_pylist()]


def test_hours_should_fill_start_others_and_be_proved_and_backfilled(
    page: Page, ui: str, world: Mapping[str, str]
) -> None:
    launch(page, ui, "web_hours_run", location="hours")
    wait_for_success(page, world)
    written = rows(world)
    assert written == [("/a", 2, 4), ("/b", 1, 2), ("/a", 1, 4), ("/b", 1, 5)]

    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:

        def materialized(key: AssetKey) -> set[str]:
            return set(instance.get_materialized_partitions(key))

        wait_until(page, lambda: materialized(CLOSED) >= {TEN, ELEVEN, TWELVE}, what="the hours are not reported")
        wait_until(page, lambda: TEN in materialized(AssetKey("report")), what="the report is not started")
    page.goto(f"{ui}/assets/web/hours/per_hour/closed?view=partitions")
    wait_for_text(page, "Materialized (3)")
    shot(page, "hours_filled")
    page.goto(f"{ui}/assets/report?view=events")
    wait_for_text(page, TEN)
    shot(page, "hours_downstream")

    # A row is removed by hand, and the proof finds it.
    DeltaTable(str(Path(world["RS_HOME"]) / "tables" / "web" / "per_hour")).delete(
        "page = '/b' AND n = 1 AND total = 2"
    )
    launch(page, ui, "web_hours_proof", location="hours")
    wait_for_success(page, world)
    page.goto(f"{ui}/assets/web/hours/per_hour/closed?view=checks")
    wait_for_text(page, "stream_equals_batch")
    wait_for_text(page, "Failed")
    shot(page, "hours_proof_failed")
    launch(page, ui, "web_hours_upkeep", upkeep("why: {where: 'id = 2'}"), location="hours")
    wait_for_success(page, world)
    shot(page, "hours_why")

    # The partition comes again from the page of the asset.
    page.goto(f"{ui}/assets/web/hours/per_hour/closed?view=partitions&partition={TEN}")
    page.get_by_role("button", name="Materialize").first.click(timeout=PATIENCE_MS)
    shot(page, "hours_materialize")
    page.get_by_role("button", name="Launch 1 run").click(timeout=PATIENCE_MS)
    wait_until(page, lambda: rows(world) == written, what="the partition is not computed again")
    with DagsterInstance.from_config(world["DAGSTER_HOME"]) as instance:
        # The same run judges the check.
        wait_until(page, lambda: all(run.is_finished for run in instance.get_runs()), what="a run does not end")


def test_other_code_should_be_tried_and_promoted(page: Page, ui: str, world: Mapping[str, str], tmp_path: Path) -> None:
    launch(page, ui, "web_hours_run", location="hours")
    wait_for_success(page, world)
    written = rows(world)
    code = tmp_path / "hours.py"
    code.write_text(code.read_text().replace('"sum(ms)"', '"sum(ms * 10)"'))
    reloaded = page.request.post(
        f"{ui}/graphql", data={"query": "mutation { reloadWorkspace { __typename } }"}, timeout=PATIENCE_MS
    )
    assert "WorkspaceLocation" in reloaded.text() or '"Workspace"' in reloaded.text(), reloaded.text()

    # It is tried from the Launchpad; what it would change is on the page of the output.
    launch(page, ui, "web_hours_upkeep", upkeep("try: {keys: [page, start_time]}"), location="hours")
    wait_for_success(page, world)
    show_event(page, ui, world, "web/hours/per_hour", "try")
    digest = entry(page, "code")
    assert re.fullmatch("[0-9a-f]{16}", digest)
    show_text(page, "changed in total: 4")
    shot(page, "hours_tried")
    assert rows(world) == written

    # It becomes the code of the pipeline, from the digest that the page shows.
    action = f'promote: {{code: "{digest}", rewrite_from: "{TEN}", keep_state: true}}'
    launch(page, ui, "web_hours_upkeep", upkeep(action), location="hours")
    wait_for_success(page, world)
    shot(page, "hours_promotion_run")
    show_event(page, ui, world, "web/hours/per_hour", "promote")
    wait_for_text(page, "rewritten")
    show_text(page, "left, as it has not closed")
    shot(page, "hours_promoted")
    assert rows(world) == [(path, n, total * 10) for path, n, total in written]

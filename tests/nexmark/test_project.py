"""Where Nexmark's queries are found: on the command line, and in Dagster, where they do not crowd out the rest."""

from __future__ import annotations

from pathlib import Path

from pipelines.definitions import defs
from pipelines.nexmark.queries import QUERIES
from rs_assets.dagster.discovery import find_pipelines, pick


def test_the_command_line_knows_each_query() -> None:
    found = find_pipelines(folder=Path(__file__).parents[2])
    for query in QUERIES:
        assert pick(found, f"nexmark_{query}").name == f"nexmark.{query}"


def test_dagster_has_two_jobs_of_each_query_and_one_group() -> None:
    jobs = {job.name for job in defs.resolve_all_job_defs() if "nexmark" in job.name}
    assert jobs == {f"nexmark_{query}_{mode}" for query in QUERIES for mode in ("run", "start")}
    assert not any("nexmark" in sensor.name for sensor in defs.sensors or ())
    groups = {(spec.key.path[0], spec.group_name) for spec in defs.resolve_all_asset_specs()}
    own = {("web", "web_access_log"), ("shop", "shop_order_totals"), ("security", "security_detections")}
    assert groups == {*own, ("nexmark", "nexmark")}

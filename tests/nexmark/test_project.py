"""Where Nexmark's queries are found: on the command line, and in Dagster, where they do not crowd out the rest."""

from __future__ import annotations

from pathlib import Path

from dagster import Definitions

from pipelines import definitions as project
from pipelines.nexmark import definitions as nexmark
from pipelines.nexmark.queries import QUERIES
from rs_assets.dagster.discovery import find_pipelines, pick, split_modules

MODULE = nexmark.__name__


def test_the_command_line_knows_each_query() -> None:
    found = find_pipelines(folder=Path(__file__).parents[2])
    for query in QUERIES:
        assert pick(found, f"nexmark_{query}").name == f"nexmark.{query}"


def groups_of(defs: Definitions) -> set[tuple[str, str | None]]:
    """The namespaces of the assets, each with its group."""
    return {(spec.key.path[0], spec.group_name) for spec in defs.resolve_all_asset_specs()}


def test_dagster_opens_with_the_pipelines_of_the_project_alone() -> None:
    own = {("web", "web_access_log"), ("shop", "shop_order_totals"), ("security", "security_detections")}
    assert groups_of(project.defs) == own
    assert not any("nexmark" in job.name for job in project.defs.resolve_all_job_defs())


def test_dagster_has_two_jobs_of_each_query_and_one_group_in_a_location_of_its_own() -> None:
    jobs = {job.name for job in nexmark.defs.resolve_all_job_defs() if "nexmark" in job.name}
    assert jobs == {f"nexmark_{query}_{mode}" for query in QUERIES for mode in ("run", "start")}
    assert not list(nexmark.defs.sensors or ())
    assert groups_of(nexmark.defs) == {("nexmark", "nexmark")}
    # As `rs-assets ui -m` opens it.
    assert split_modules([MODULE]) == ([MODULE], [])

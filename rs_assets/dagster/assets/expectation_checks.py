"""Checks of expectations: the rows of the last day met each of them, on every output that they come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Any

from dagster import AssetCheckResult, AssetCheckSeverity

from rs_assets.catalog.catalog import Row
from rs_assets.catalog.layout import DAY
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.plural import count_of
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.dagster.assets.rule_checks import Judge
from rs_assets.dagster.place import Place
from rs_assets.runtime.upkeep.returns import valid_batches
from rs_assets.topology.nodes.step import Expect
from rs_assets.topology.shape import upstream_of
from rs_assets.topology.topology import Topology

# The rows that decide, and the days that they are compared with.
JUDGED, REMEMBERED = timedelta(days=1), timedelta(days=30)
NO_ROWS = "no rows were judged within a day"


def checked_expectations(topology: Topology) -> Iterator[tuple[str, Mapping[str, Judge]]]:
    """The sinks downstream of expectations, each with a check for every one of them."""
    for sink in (each for each in topology.sinks if each.family == "sink"):
        above = map(topology.__getitem__, sorted(upstream_of(topology, sink.name)))
        checks = {node.name: _check(node) for node in above if isinstance(node, Expect)}
        if checks:
            yield sink.name, checks


def _check(node: Expect) -> Judge:
    def check(topology: Topology, _sink: str, place: Place) -> AssetCheckResult:
        return expectation_is_met(node, topology, place)

    check.__doc__ = f"{node.said}; if it is not true for a row: {node.on_fail.value}."
    return check


def expectation_is_met(node: Expect, topology: Topology, place: Place) -> AssetCheckResult:
    """The condition was true for the rows of the last day, but for the share that is tolerated.

    Rows that were judged by another condition, before it was changed, do not count, nor those of batches before which
    the pipeline went back since. Metadata: the condition, the rows of that day and those that failed, their share, the
    usual share (the median of up to 30 earlier days with rows), and the time of the last batch with such a row.
    """
    now = datetime.now(UTC)
    rows = place.catalog.rows(
        "expectations",
        at_least={DAY: (now - REMEMBERED).date()},
        pipeline=topology.name,
        step=node.name,
    )
    # Rows of earlier releases have no condition.
    rows = [row for row in rows if row.get("condition") in (None, node.condition.identity())]
    recent = _standing([row for row in rows if row["at"] >= now - JUDGED], topology, place)
    judged, failed = (sum(row[name] for row in recent) for name in ("rows", "failed"))
    share = failed / judged if judged else 0.0
    problem = f"{failed:,} of {count_of(judged, 'row')} within a day did not meet {node.said!r}" if failed else None
    usual = _shares(rows, before=now.date())
    facts: dict[str, Any] = {"condition": node.said, "on_fail": node.on_fail.value, "rows": judged, "failed": failed}
    facts |= {"share": share, "tolerated": float(node.tolerated)} if judged else {}
    facts |= {"usual_share": median(usual.values()), "days": len(usual)} if usual else {}
    newest = max((row["at"] for row in rows if row["failed"]), default=None)
    facts |= {"last_failed": newest.isoformat()} if newest is not None else {}
    return AssetCheckResult(
        passed=share <= node.tolerated,
        severity=AssetCheckSeverity.WARN,
        description=problem or (None if judged else NO_ROWS),
        metadata=facts,
    )


def _standing(rows: list[dict[str, Any]], topology: Topology, place: Place) -> list[dict[str, Any]]:
    """Those of `rows` whose batches still count: the pipeline has neither gone back before them nor begun again."""
    manifest = manifests.load(place.job(topology))
    if manifest is None:
        return rows
    valid = {plan.name: valid_batches(manifest, plan) for plan in plan_queries(topology)}
    paths = {name: batches for name, batches in valid.items() if batches is not None}
    return [
        row
        for row in rows
        if row["query"] not in paths or row["batch_id"] <= paths[row["query"]].get(row["generation"], -1)
    ]


def _shares(rows: list[dict[str, Any]], *, before: date) -> Mapping[date, float]:
    """The share of rows that failed, for each earlier day with rows."""
    by_day: defaultdict[date, list[Row]] = defaultdict(list)
    for row in rows:
        by_day[row["at"].date()].append(row)
    return {
        day: sum(row["failed"] for row in every) / sum(row["rows"] for row in every)
        for day, every in by_day.items()
        if day < before
    }

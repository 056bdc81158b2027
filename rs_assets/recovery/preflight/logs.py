"""Checks of the offset log and the commit log: each file by itself, and both against each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from rs_assets.recovery.preflight.facts import Facts, Read
from rs_assets.recovery.preflight.files import gaps, spans
from rs_assets.recovery.preflight.finding import Code, Finding
from rs_assets.recovery.preflight.mending import why_keep_commit, why_keep_plan

COPY = "restore it from a copy of the checkpoint, or start over with --new-generation"


def check_plans(facts: Facts) -> Iterator[Finding]:
    """`empty_plan`, `damaged_plan`, `unreadable`: every offsets file can be read."""
    for batch, plan in facts.plans.items():
        if plan.state != "sound":
            mends = batch == facts.last_plan and plan.spoilt and why_keep_plan(facts) is None
            yield _damage(
                plan, "empty_plan" if plan.state == "empty" else "damaged_plan", "drop_uncommitted" if mends else None
            )


def check_commits(facts: Facts) -> Iterator[Finding]:
    """`damaged_commit`, `unreadable`: every commits file can be read."""
    for batch, commit in facts.commits.items():
        if commit.state != "sound":
            mends = batch == facts.last_commit and commit.spoilt and why_keep_commit(facts) is None
            yield _damage(commit, "damaged_commit", "drop_commit" if mends else None)


def _damage(found: Read[Any], code: Code, repair: str | None) -> Finding:
    if found.state == "foreign":
        remedy = "run it with the release that wrote it"
        return Finding(code="unreadable", severity="error", file=found.file, meaning=found.problem, remedy=remedy)
    remedies = {
        "drop_uncommitted": "remove it: no sink has the batch, it is planned again",
        "drop_commit": "remove it: the batch runs again, and sinks that have it skip it",
    }
    remedy = remedies.get(repair or "", COPY)
    if found.state == "unreadable":
        remedy = "check the disk and the permissions"
    return Finding(code=code, severity="error", file=found.file, meaning=found.problem, remedy=remedy, repair=repair)


def check_lost_sources(facts: Facts) -> Iterator[Finding]:
    """`damaged_plan`: a current source in a batch's plan is also in the next, for the plans that Spark continues from.

    These are the last committed plan and later ones; removed sources are missing in older ones.
    """
    for before, batch in pairwise(facts.plans):
        if batch < facts.last_commit:
            continue
        earlier, later = facts.plans[before].content, facts.plans[batch].content
        if earlier is None or later is None:
            continue
        for name in sorted((earlier.sources.keys() - later.sources.keys()) & facts.expected.names):
            yield Finding(
                code="damaged_plan",
                severity="error",
                file=facts.plans[batch].file,
                meaning=f"lost its line of the source {name!r}, which batch {before} has: it would be read again",
                remedy=f"{COPY}; a source that was removed and added again needs another name",
            )


def check_unconfirmed(facts: Facts) -> Iterator[Finding]:
    """`plans_ahead`: at most the newest planned batch is uncommitted."""
    if facts.last_plan - facts.last_commit > 1:
        unconfirmed = spans(batch for batch in facts.plans if batch > facts.last_commit)
        end = f"ends at batch {facts.last_commit}" if facts.commits else "is empty"
        yield Finding(
            code="plans_ahead",
            severity="error",
            file=facts.folder / "commits",
            meaning=f"{end}, but {unconfirmed} are also planned: all but the last would be skipped",
            remedy="restore the commits from a copy of the checkpoint, or start over with --new-generation",
        )


def check_unplanned(facts: Facts) -> Iterator[Finding]:
    """`lost_plan`: no commit is newer than the newest plan."""
    unplanned = [batch for batch in facts.commits if batch > facts.last_plan]
    if unplanned:
        yield Finding(
            code="lost_plan",
            severity="error",
            file=facts.folder / "offsets" / str(unplanned[-1]),
            meaning=f"is missing, but batch {spans(unplanned)} is committed: older rows would be written again",
            remedy=COPY,
        )


def check_holes(facts: Facts) -> Iterator[Finding]:
    """`gap`: no file is missing between the oldest and the newest; Spark removes files only from the low end."""
    plans, commits = list(facts.plans), list(facts.commits)
    # Spark begins the newest batch at the end of the previous one, committed or not.
    alone = [(plans[0] - 1, plans[0] - 1)] if len(plans) == 1 and plans[0] > 0 else []
    for name, holes in (("offsets", alone + gaps(plans)), ("commits", gaps(commits))):
        if holes:
            missing = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in holes)
            yield Finding(
                code="gap",
                severity="error",
                file=facts.folder / name / str(holes[0][0]),
                meaning=f"does not exist: of the batches kept, {missing} is missing",
                remedy=COPY,
            )

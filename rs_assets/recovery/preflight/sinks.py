"""Compares the markers in the sinks with the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rs_assets.recovery.preflight.facts import Facts
from rs_assets.recovery.preflight.finding import Finding

CHANGED: Final = "sink_changed"
# The repair that accepts a sink as others have changed it.
ACCEPT = "accept_changes"


def check_lost(facts: Facts) -> Iterator[Finding]:
    """`lost_checkpoint`, `sink_ahead`: no sink is ahead of the checkpoint."""
    ahead = facts.expected.furthest
    if ahead <= max(facts.last_plan, facts.last_commit):
        return
    gone = not facts.plans and not facts.commits
    last = "has no batch" if gone else f"ends at batch {max(facts.last_plan, facts.last_commit)}"
    names = ", ".join(sorted(name for name, batch in facts.expected.sinks.items() if batch == ahead))
    yield Finding(
        code="lost_checkpoint" if gone else "sink_ahead",
        severity="error",
        file=facts.folder,
        meaning=(
            f"{last}, but in generation {facts.expected.generation} batch {ahead} was written to {names}:"
            f" new batches up to that number would be skipped"
        ),
        remedy="restore the checkpoint or a savepoint, or start over with --new-generation; if another pipeline wrote"
        " there, write to a location of its own",
    )


def check_changed(facts: Facts) -> Iterator[Finding]:
    """`sink_changed`: no other writer has removed rows of ours from a sink since our last commit."""
    if not facts.commits:
        return
    for name, changes in sorted(facts.expected.sinks_changed.items()):
        for change in changes:
            yield Finding(
                code=CHANGED,
                severity=change.severity,
                file=facts.folder / "commits" / str(facts.last_commit),
                meaning=f"the sink {name!r} was changed by others: {change.what}",
                remedy=change.remedy,
                repair=ACCEPT if change.acceptable else None,
            )


def check_behind(facts: Facts) -> Iterator[Finding]:
    """`sink_behind`: no sink has lost batches that it had; a sink that skipped empty batches has lost none."""
    if not facts.commits:
        return
    for name, seen in sorted(facts.expected.sinks_seen.items()):
        marker = facts.expected.sinks.get(name)
        if marker is None or marker >= seen:
            continue
        lost = marker < 0
        emptied = "empty it and " if name in facts.expected.sinks_staying else ""
        has = "has no batch" if lost else f"ends at batch {marker}"
        yield Finding(
            code="sink_behind",
            severity="error",
            file=facts.folder / "commits" / str(facts.last_commit),
            meaning=f"is committed, but the sink {name!r} {has} but had batch {seen}: those in between are missing",
            remedy="restore the data of the sink,"
            + ("" if lost else f" rewind the pipeline to batch {marker} (rs-assets rewind),")
            + f" or {emptied}start over with --new-generation",
        )

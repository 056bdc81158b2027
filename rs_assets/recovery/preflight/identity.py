"""Checks that the checkpoint is the one that was recorded (finding `metadata`)."""

from __future__ import annotations

from collections.abc import Iterator

from rs_assets.recovery.preflight.facts import Facts
from rs_assets.recovery.preflight.finding import Finding


def check_identity(facts: Facts) -> Iterator[Finding]:
    """The metadata file exists once a batch was planned or an id recorded, can be read and has that id."""
    found, recorded = facts.metadata, facts.expected.query_id
    if found is None and recorded is None and not facts.plans and not facts.commits:
        return
    if found is not None and found.content is not None and recorded in {None, found.content}:
        return
    if found is None:
        meaning = "is missing: Spark would give the query another id"
    elif found.content is None:
        meaning = found.problem
    else:
        meaning = f"holds the id {found.content!r}, recorded is {recorded!r}: this is the checkpoint of another query"
    mends = recorded is not None and (found is None or found.spoilt)
    yield Finding(
        code="metadata",
        severity="error",
        file=facts.folder / "metadata",
        meaning=meaning,
        remedy="write it again from the recorded id" if mends else "put back the checkpoint that belongs to this query",
        repair="write_metadata" if mends else None,
    )

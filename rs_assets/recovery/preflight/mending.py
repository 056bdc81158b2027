"""Decides when a damaged log file can be removed without loss; used by the repairs and the checks that offer them."""

from __future__ import annotations

from rs_assets.recovery.preflight.facts import Facts
from rs_assets.recovery.preflight.files import spans
from rs_assets.recovery.preflight.state import state_problems


def why_keep_plan(facts: Facts) -> str | None:
    """Why the newest offsets file must be kept; None if it is damaged and nothing depends on it."""
    batch = facts.last_plan
    if batch < 0 or not facts.plans[batch].spoilt:
        return "the newest offsets file is not damaged"
    if batch <= facts.last_commit:
        return f"batch {batch} is committed"
    if batch - facts.last_commit > 1:
        return f"batches {spans(n for n in facts.plans if n > facts.last_commit)} are unconfirmed"
    return _why_as_planned(facts, batch)


def why_keep_commit(facts: Facts) -> str | None:
    """Why the newest commits file must be kept; None if it is damaged and its batch can run again as planned.

    A later plan, which no sink may have begun, must be removed with it: Spark runs only the newest plan again.
    """
    batch = facts.last_commit
    if batch < 0 or not facts.commits[batch].spoilt:
        return "the newest commits file is not damaged"
    if batch not in facts.plans or facts.plans[batch].state != "sound":
        return f"the offsets of batch {batch} are missing or damaged"
    if batch > 0 and batch - 1 not in facts.commits:
        return f"batch {batch - 1} is not committed either"
    if facts.last_plan > batch + 1:
        return f"batches {spans(n for n in facts.plans if n > batch)} are unconfirmed"
    later = _why_as_planned(facts, facts.last_plan) if facts.last_plan > batch else None
    return later or next((finding.meaning for finding in state_problems(facts, batch)), None)


def _why_as_planned(facts: Facts, batch: int) -> str | None:
    """Why a batch must run as it was planned; None if nothing of it was written."""
    if facts.expected.furthest >= batch:
        return f"a sink has batch {batch}: planned again it may have other rows, which the sink would skip"
    if facts.expected.letters() >= batch:
        return f"batch {batch} has dead letters: planned again it may have others, which would not be written"
    return None

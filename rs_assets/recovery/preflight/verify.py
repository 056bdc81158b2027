"""The checks of a checkpoint before Spark uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rs_assets.errors import CheckpointError
from rs_assets.recovery.preflight.disk import check_leftovers, check_room
from rs_assets.recovery.preflight.facts import Facts
from rs_assets.recovery.preflight.finding import Expected, Finding
from rs_assets.recovery.preflight.identity import check_identity
from rs_assets.recovery.preflight.logs import (
    check_commits,
    check_holes,
    check_lost_sources,
    check_plans,
    check_unconfirmed,
    check_unplanned,
)
from rs_assets.recovery.preflight.sinks import check_behind, check_changed, check_lost
from rs_assets.recovery.preflight.sources import check_file_sources, check_names
from rs_assets.recovery.preflight.state import check_state

# In order of relevance to a reader: complete losses first.
CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_lost,
    check_identity,
    check_plans,
    check_commits,
    check_unconfirmed,
    check_unplanned,
    check_holes,
    check_lost_sources,
    check_file_sources,
    check_state,
    check_behind,
    check_changed,
    check_room,
    check_names,
    check_leftovers,
)


def verify_query(checkpoint: Path, expected: Expected) -> tuple[Finding, ...]:
    """All problems of the checkpoint folder of one query, which must not be running; nothing is changed.

    A missing folder is a first start. CheckpointError only if the disk itself does not answer.
    """
    facts = Facts(checkpoint, expected)
    return tuple(finding for check in CHECKS for finding in check(facts))


def refuse(findings: Iterable[Finding], pipeline: str) -> None:
    """Raise CheckpointError with file, meaning and remedy of each error among `findings`; warnings pass.

    >>> lost = Finding(
    ...     code="metadata", severity="error", file=Path("c/metadata"), meaning="is not there", remedy="restore it"
    ... )
    >>> refuse([lost], "shop.clicks")
    Traceback (most recent call last):
        ...
    rs_assets.errors.CheckpointError: the checkpoint of shop.clicks cannot be started from
      metadata c/metadata: is not there
        remedy: restore it
    """
    errors = [_told(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise CheckpointError("\n".join([f"the checkpoint of {pipeline} cannot be started from", *errors]))


def _told(finding: Finding) -> str:
    text = f"  {finding.code} {finding.file}: {finding.meaning}\n    remedy: {finding.remedy}"
    return f"{text} (repair {finding.repair})" if finding.repair else text

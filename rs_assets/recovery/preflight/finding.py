"""Findings of the checks of a checkpoint, and the expected content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rs_assets.connectors.sink import SinkChange

Severity = Literal["error", "warning"]
# The kinds of problems: docs/runbook.md says what each means.
Code = Literal[
    "empty_plan",
    "damaged_plan",
    "lost_plan",
    "damaged_commit",
    "plans_ahead",
    "gap",
    "unreadable",
    "metadata",
    "source_log",
    "sources",
    "state",
    "lost_checkpoint",
    "sink_ahead",
    "sink_behind",
    "sink_changed",
    "disk_full",
    "leftover",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a checkpoint.

    `code` names the kind of problem; `file` is the file or folder concerned; `meaning` says
    what would go wrong; `remedy` what to do; `repair` names the repair that fixes it, None if nothing fixes it without
    loss.
    """

    code: Code
    severity: Severity
    file: Path
    meaning: str
    remedy: str
    repair: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected content of a query's checkpoint.

    `sources` are the expected names in its offset log, `controls` those of the runtime's own sources, which are there
    once they have given a row; `stateful` says that it keeps state, in `operators` steps and `partitions` partitions
    (0: not known yet); `query_id` is the recorded id of its metadata file, None if it was never recorded; `sinks`
    maps each sink to the last batch of this pipeline and `generation` in its own marker, -1 for none; `sinks_seen` to
    the last batch recorded for it, -1 or absent for none; `sinks_changed` to changes of its rows by others since. The
    content of `sinks_staying` is not replaced by a new generation. `letters` returns the last batch that has
    dead letters in their table, -1 for none.
    """

    query: str
    sources: tuple[str, ...]
    controls: tuple[str, ...] = ()
    stateful: bool
    partitions: int
    query_id: str | None
    sinks: Mapping[str, int]
    generation: int
    operators: int = 1
    sinks_seen: Mapping[str, int] = field(default_factory=dict)
    sinks_changed: Mapping[str, Sequence[SinkChange]] = field(default_factory=dict)
    sinks_staying: frozenset[str] = frozenset()
    letters: Callable[[], int] = lambda: -1

    @property
    def names(self) -> frozenset[str]:
        """All names that its offset log may have."""
        return frozenset((*self.sources, *self.controls))

    @property
    def furthest(self) -> int:
        """The last batch that any sink has stored, -1 for none.

        >>> Expected(
        ...     query="q", sources=(), stateful=False, partitions=0, query_id=None, sinks={"a": 3, "b": 7}, generation=1
        ... ).furthest
        7
        """
        return max(self.sinks.values(), default=-1)

"""What became of the versions of a pipeline, as events of the catalog, and which version is to run by them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from rs_assets.engine.checkpoint.catalog import Catalog, as_json, row_of
from rs_assets.engine.checkpoint.deployments import DeploymentTable, Version, stamp_of
from rs_assets.engine.home import Home

Happened = Literal["trying", "paused", "returning", "committed", "refused", "failed", "passed", "stopped", "dropped"]
# A version that was started and has not committed a batch yet.
ON_TRIAL: frozenset[str] = frozenset({"trying", "paused", "returning"})
# What is the last word on a version.
SETTLED: frozenset[str] = frozenset(get_args(Happened)) - ON_TRIAL
TABLE = "deployment_events"
# Events of one pipeline are in the order of their times.
TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a version; `details` holds what a later start goes by."""

    pipeline: str
    version: int
    event: Happened
    summary: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a pipeline stands: the version that is wished for, and the last one that has committed a batch.

    `last` is the last event of the wished version, None if nobody has looked at it yet. `trial` is the last event of a
    version that was started and has not committed yet, None without one; `tries` are the starts of it of which nobody
    has told the end.
    """

    wished: Version
    good: Version | None = None
    last: Event | None = None
    tried: Version | None = None
    trial: Event | None = None
    tries: int = 0
    # Rows of the pipeline that no one can put in their place.
    strays: int = 0

    @property
    def settled(self) -> bool:
        """Whether the wished version has been dealt with, for better or worse."""
        return self.last is not None and self.last.event in SETTLED

    @property
    def broken(self) -> bool:
        """Whether the wished version cannot run."""
        return self.last is not None and self.last.event in ("refused", "failed")

    @property
    def chosen(self) -> Version | None:
        """The version that should run: the one before, where the wished one is broken. None if none should."""
        if self.wished.state != "running" and not self.wished.fault:
            return None
        return (self.tried or self.good) if self.broken else self.wished

    @property
    def shown(self) -> Version | None:
        """The version whose steps people should see; None if the pipeline was dropped or never ran."""
        if self.wished.state == "dropped" and not self.wished.fault:
            return None
        return self.good if self.good is not None or self.broken else self.wished


def standing(versions: Sequence[Version], events: Iterable[Event]) -> Standing:
    """Where the pipeline of `versions`, which are not none, stands after `events`, oldest first.

    >>> one, two = (Version(pipeline="shop.a", version=n, text=f"v{n}") for n in (1, 2))
    >>> ran, broke = (Event(pipeline="shop.a", version=n, event=e) for n, e in ((1, "committed"), (2, "failed")))
    >>> standing([one, two], [ran]).chosen.version, standing([one, two], [ran, broke]).chosen.version
    (2, 1)
    """
    by_number = {version.version: version for version in versions}
    last: dict[int, Event] = {}
    tries: dict[int, int] = {}
    good = None
    for event in events:
        last[event.version] = event
        if event.event == "committed":
            good = by_number.get(event.version, good)
        before = tries.get(event.version, 0)
        tries[event.version] = before + 1 if event.event == "trying" else before if event.event == "returning" else 0
    trial = next((last[n] for n in sorted(last, reverse=True) if n in by_number and last[n].event in ON_TRIAL), None)
    return Standing(
        wished=versions[-1],
        good=good,
        last=last.get(versions[-1].version),
        tried=by_number[trial.version] if trial else None,
        trial=trial,
        tries=tries[trial.version] if trial else 0,
        strays=sum(version.version < 1 for version in versions),
    )


@dataclass(frozen=True, slots=True)
class History:
    """The events of all pipelines, in a catalog."""

    catalog: Catalog

    def of(self, pipeline: str | None = None) -> list[Event]:
        """The events of one pipeline, or of all, oldest first."""
        catalog = self.catalog
        rows = catalog.rows(TABLE) if pipeline is None else catalog.rows(TABLE, pipeline=pipeline)
        return [
            Event(
                pipeline=row["pipeline"],
                version=row["version"],
                event=row["event"],
                summary=row["summary"] or "",
                details=json.loads(row["details"] or "{}"),
                at=row["at"],
                run_id=row["run_id"] or "",
            )
            for row in rows
        ]

    def note(self, event: Event) -> None:
        """Add an event behind those of its pipeline, whatever the clock says; CheckpointError if it cannot be."""
        before = self.catalog.last(TABLE, pipeline=event.pipeline)
        now = datetime.now(UTC)
        row = row_of(
            event.pipeline,
            generation=0,
            run_id=event.run_id,
            at=now if before is None else max(now, before["at"] + TICK),
            version=event.version,
            event=event.event,
            summary=event.summary,
            details=as_json(event.details),
        )
        self.catalog.append(TABLE, [row])


def standings(home: Home) -> Mapping[str, Standing]:
    """Where each deployed pipeline of a home stands, in the order of their names. Rows are read if there are new ones.

    CheckpointError if the tables cannot be read.
    """
    return _standings(home, stamp_of(home.deployments), stamp_of(home.catalog / TABLE))


@lru_cache(maxsize=4)
def _standings(home: Home, deployed: str, happened: str) -> Mapping[str, Standing]:  # noqa: ARG001  the tables as they are now
    versions, events = DeploymentTable(home.deployments).versions(), History(Catalog(home.catalog)).of()
    return MappingProxyType(
        {name: standing(of, [e for e in events if e.pipeline == name]) for name, of in sorted(versions.items())}
    )

"""The history of a pipeline's versions, as events of the catalog, and the version to run according to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from rs_assets.catalog.catalog import Catalog, as_json, row_of
from rs_assets.catalog.deployments import DeploymentTable, Version, stamp_of
from rs_assets.common.home import Home

Happened = Literal["trying", "paused", "returning", "committed", "refused", "failed", "passed", "stopped", "dropped"]
# A version that was started and has not committed a batch yet.
ON_TRIAL: frozenset[str] = frozenset({"trying", "paused", "returning"})
# Events that conclude a version.
SETTLED: frozenset[str] = frozenset(get_args(Happened)) - ON_TRIAL
# Events that leave the previous version running, or none.
LEFT_ALONE: frozenset[str] = frozenset({"refused", "failed", "passed"})
# A rollback may lead to a version with these events, whatever has become of the deployment table.
TOLD_WHOLE: frozenset[str] = frozenset({*ON_TRIAL, "committed"})
TABLE = "deployment_events"
# The times of one pipeline's events are strictly increasing.
TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a version; `details` holds what a later start needs."""

    pipeline: str
    version: int
    event: Happened
    summary: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    run_id: str = ""

    @classmethod
    def about(cls, version: Version, happened: Happened, summary: str, *, run_id: str = "", **details: object) -> Event:
        """An event of `version`; if a rollback may lead to it, with everything that defines its pipeline."""
        content = {"wish": _content_of(version)} if happened in TOLD_WHOLE else {}
        told = {"mark": version.mark, **content, **details}
        return cls(
            pipeline=version.pipeline,
            version=version.version,
            event=happened,
            summary=summary,
            details=told,
            run_id=run_id,
        )

    def is_of(self, version: Version | None) -> bool:
        """Whether it belongs to this version, and not to one of another table with the same number."""
        return version is not None and self.details.get("mark", version.mark) == version.mark

    def told_of(self, known: Version | None) -> Version | None:
        """The version as it was at that time; `known` is the version that the table has under its number."""
        if self.is_of(known):
            return known
        content = self.details.get("wish")
        return _restored(self.pipeline, self.version, content) if isinstance(content, dict) else None


def _content_of(version: Version) -> Mapping[str, object]:
    """The fields that restore a version whose row is gone."""
    at = version.at.isoformat() if version.at is not None else None
    content = {name: getattr(version, name) for name in ("text", "reset", "note", "author")}
    return {**content, "variables": dict(version.variables), "at": at}


def _restored(pipeline: str, number: int, content: Mapping[str, Any]) -> Version:
    at = content.get("at")
    return Version(
        pipeline=pipeline,
        version=number,
        text=content["text"],
        variables=content["variables"],
        reset=tuple(content["reset"]),
        note=content["note"],
        author=content["author"],
        at=datetime.fromisoformat(at) if at else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The status of a pipeline: its desired version, and the last version that has committed a batch.

    `last` is the last event of the desired version, None if it has not been handled yet. `trial` is the last event of a
    started version that has not committed yet, None without one; `tries` counts its starts without a recorded end.
    `good` and `tried` may be versions that are no longer in the table. `halted`: how a concluded version has ended the
    pipeline since the last commit; empty if none has.
    """

    desired: Version
    good: Version | None = None
    last: Event | None = None
    tried: Version | None = None
    trial: Event | None = None
    tries: int = 0
    halted: Literal["stopped", "dropped", ""] = ""
    # Rows of the pipeline without a valid version number.
    strays: int = 0

    @property
    def settled(self) -> bool:
        """Whether the desired version has been handled, successfully or not."""
        return self.last is not None and self.last.event in SETTLED

    @property
    def broken(self) -> bool:
        """Whether the desired version cannot run."""
        return self.last is not None and self.last.event in ("refused", "failed")

    @property
    def before(self) -> Version | None:
        """The version that keeps running if the desired one cannot; None if the pipeline was stopped."""
        return None if self.halted else self.good

    @property
    def chosen(self) -> Version | None:
        """The version that should run: the previous one if the desired one is broken. None if none should."""
        if self.desired.state != "running" and not self.desired.fault:
            return None
        return (self.tried or self.before) if self.broken else self.desired

    @property
    def shown(self) -> Version | None:
        """The version whose steps are shown; None if the pipeline was dropped or never ran."""
        if self.desired.state == "dropped" and not self.desired.fault:
            return None
        if self.broken:
            return self.good if self.halted != "dropped" else None
        return self.good or self.desired

    @property
    def rooted(self) -> bool:
        """Whether a version that has run is shown: a new pipeline must not take its name in Dagster."""
        return self.good is not None and self.halted != "dropped"


def standing(versions: Sequence[Version], events: Iterable[Event]) -> Standing:
    """The status of the pipeline of `versions` (at least one) after `events`, oldest first.

    A table that was recreated or restored has other versions under used numbers. Their events stay and determine what
    runs, but say nothing about the versions that have these numbers now.

    >>> one, two = (Version(pipeline="shop.a", version=n, text=f"v{n}") for n in (1, 2))
    >>> ran, broke = (Event(pipeline="shop.a", version=n, event=e) for n, e in ((1, "committed"), (2, "failed")))
    >>> standing([one, two], [ran]).chosen.version, standing([one, two], [ran, broke]).chosen.version
    (2, 1)
    """
    by_number = {version.version: version for version in versions}
    desired, trials = versions[-1], _Trials()
    good: Version | None = None
    last: Event | None = None
    halted: Literal["stopped", "dropped", ""] = ""
    for event in events:
        known = by_number.get(event.version)
        about = event.told_of(known)
        if about is None or not event.is_of(known):
            # Another version ran at that time, so earlier events of the desired version no longer hold.
            last = last if event.event in LEFT_ALONE else None
        elif event.version == desired.version:
            last = event
        if event.event == "committed" and about is not None:
            good, halted = about, ""
        elif event.event in ("stopped", "dropped"):
            halted = "stopped" if event.event == "stopped" else "dropped"
        trials.take(event, about)
    trial, tried, tries = trials.last()
    strays = sum(version.version < 1 for version in versions)
    return Standing(
        desired=desired, good=good, last=last, tried=tried, trial=trial, tries=tries, halted=halted, strays=strays
    )


class _Trials:
    """Trials without a recorded end."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str | None], tuple[Event, Version, int]] = {}

    def take(self, event: Event, about: Version | None) -> None:
        """Add the next event."""
        key = (event.version, about.mark if about is not None else None)
        _, _, tries = self._open.pop(key, (None, None, 0))
        if event.event in ON_TRIAL and about is not None:
            counted = tries + 1 if event.event == "trying" else tries if event.event == "returning" else 0
            self._open[key] = event, about, counted

    def last(self) -> tuple[Event | None, Version | None, int]:
        """The last event of the newest trial, its version, and the number of its starts."""
        return next(reversed(self._open.values()), (None, None, 0))


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
        """Add an event after those of its pipeline, whatever the clock says; CheckpointError if that fails."""
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
    """The status of each deployed pipeline of a home, by name. Rows are read only if there are new ones.

    CheckpointError if the tables cannot be read.
    """
    return _standings(home, stamp_of(home.deployments), stamp_of(home.catalog / TABLE))


@lru_cache(maxsize=4)
def _standings(home: Home, _deployed: str, _happened: str) -> Mapping[str, Standing]:  # the tables as they are now
    versions, events = DeploymentTable(home.deployments).versions(), History(Catalog(home.catalog)).of()
    return MappingProxyType(
        {name: standing(of, [e for e in events if e.pipeline == name]) for name, of in sorted(versions.items())}
    )

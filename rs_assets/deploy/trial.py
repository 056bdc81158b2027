"""The trial of a version: what another process needs to end it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rs_assets.catalog.deployments import Version
from rs_assets.deploy.history import Event
from rs_assets.deploy.progress import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A version that has been started and has not committed a batch yet, with the position of each query before it."""

    version: Version
    before: Position
    savepoint: str | None = None
    change: str = ""

    @classmethod
    def of(cls, version: Version, event: Event) -> Trial:
        """The trial that an event describes."""
        details = event.details
        return cls(
            version=version,
            before=Position(details["before"]),
            savepoint=details["savepoint"],
            change=details["change"],
        )

    @property
    def details(self) -> Mapping[str, Any]:
        """The details of an event from which another process can end the trial."""
        return {"before": self.before.queries, "savepoint": self.savepoint, "change": self.change}

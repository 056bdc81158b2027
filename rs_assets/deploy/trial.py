"""The trial of a version: what another process must know to end it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rs_assets.catalog.deployments import Version
from rs_assets.deploy.history import Event
from rs_assets.deploy.progress import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A version that has been started and has not committed a batch yet: where the queries stood before it."""

    version: Version
    before: Position
    savepoint: str | None = None
    change: str = ""

    @classmethod
    def of(cls, version: Version, event: Event) -> Trial:
        """The trial that an event tells of."""
        details = event.details
        return cls(
            version=version,
            before=Position(details["before"]),
            savepoint=details["savepoint"],
            change=details["change"],
        )

    @property
    def details(self) -> Mapping[str, Any]:
        """What an event has to tell, so that another process can end the trial."""
        return {"before": self.before.queries, "savepoint": self.savepoint, "change": self.change}

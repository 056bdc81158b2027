"""Tables of Postgres as sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rs_assets.common.node import NO_EFFECT
from rs_assets.connectors.changes.nodes import ChangesSource

# What Postgres accepts as the name of a slot.
SLOT = re.compile(r"[a-z0-9_]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSource(ChangesSource):
    """A table of Postgres, then its changes, from a replication slot. Unbounded."""

    icon: ClassVar[str] = "postgres"
    system: ClassVar[str] = "postgres"

    slot: str = field(metadata=NO_EFFECT)
    publication: str

    @property
    def own_checks(self) -> Sequence[tuple[bool, str, str]]:
        """The names of slot and publication."""
        return (
            (isinstance(self.slot, str) and SLOT.fullmatch(self.slot) is not None,
             f"{self.slot!r} is not the name of a replication slot", "use at most 63 of a-z, 0-9 and _"),
            (isinstance(self.publication, str) and bool(self.publication) and "\0" not in self.publication,
             f"{self.publication!r} is not the name of a publication", "publication='orders'"),
        )  # fmt: skip

    @property
    def reserves(self) -> str:
        """The slot, for which the server keeps its log."""
        return f"the replication slot {self.slot!r}"

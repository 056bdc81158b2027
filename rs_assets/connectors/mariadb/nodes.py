"""Tables of MariaDB as sources of their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rs_assets.common.node import NO_EFFECT
from rs_assets.connectors.changes.nodes import ChangesSource


@dataclass(frozen=True, slots=True, kw_only=True)
class MariadbSource(ChangesSource):
    """A table of MariaDB, then its changes, from the binary log. Unbounded.

    `server_id` is the number by which the server knows this reader of its log.
    """

    icon: ClassVar[str] = "mariadb"
    system: ClassVar[str] = "mariadb"

    server_id: int = field(metadata=NO_EFFECT)

    @property
    def own_checks(self) -> Sequence[tuple[bool, str, str]]:
        """The number of the reader."""
        number = self.server_id
        holds = isinstance(number, int) and not isinstance(number, bool) and 0 < number < 1 << 32
        return (
            (holds, f"server_id must be a number from 1 to {(1 << 32) - 1}, not {number!r}",
             "leave it out; or server_id=5401, one that no replica and no other pipeline has"),
        )  # fmt: skip

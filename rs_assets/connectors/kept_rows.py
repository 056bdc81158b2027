"""Ways back of a sink whose rows cannot be removed: those of single batches cannot be distinguished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import SinkError


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of `table`, which the sink `step` has written.

    `emptied` says how a user empties it, `facts` are those of an error about it. `kind` is what it is called.
    """

    step: str
    table: str
    emptied: str
    facts: Mapping[str, str]
    kind: str = "table"

    @classmethod
    def of_sql(cls, step: str, table: str, quoted: str, facts: Mapping[str, str]) -> Self:
        """The rows of a table whose name in SQL is `quoted`."""
        return cls(step, table, f"empty the table ({'DELETE FROM'} {quoted})", facts)

    def check_return(self, found: Sequence[Point], kept: BatchMark, had: int) -> None:
        """SinkError unless the table has just the rows up to `kept`.

        `found` are the last batches of each generation in it, newest first; see `Rewinding` for `had`.
        """
        same = [point.batch for point in found if point.generation == kept.generation]
        if any(batch <= kept.batch_id for batch in same):
            known = max(same)
            if known >= min(kept.batch_id, had):
                return
            ends = f"the {self.kind} {self.table!r} ends at batch {known}"
            why = f"{ends} and had batch {had}: restore the database as it was"
            raise self._refused(why, remedy=self._instead(f"go back to batch {known}"))
        if not found and min(kept.batch_id, had) < 0:
            return
        last = found[0] if found else Point(kept.generation, -1)
        raise self._refused(
            f"the rows of the {self.kind} {self.table!r} cannot be removed, and it has those of batch {last.batch}"
            f" of generation {last.generation}",
            remedy=self._instead(f"go to batch {last.batch}, which removes none"),
        )

    def refuse_begin(self) -> SinkError:
        """The error for a new generation over a table that has rows of an earlier one."""
        return self._refused(
            f"the {self.kind} {self.table!r} has rows of an earlier generation, and a new one would add its own",
            remedy=f"{self.emptied}, then begin the new generation as you did now; or write to another {self.kind}",
        )

    def _refused(self, why: str, *, remedy: str) -> SinkError:
        return SinkError(why, remedy=remedy, step=self.step, **self.facts)

    def _instead(self, first: str) -> str:
        afresh = f"{self.emptied} and begin a new generation (--new-generation), which writes all rows again"
        return f"{first}; or {afresh}"

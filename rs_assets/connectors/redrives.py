"""What redrives note in the dead-letter table: a claim before rows are added, then that its records are redriven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction

from rs_assets.connectors.dead_letters import (
    REDRIVEN,
    REDRIVEN_AT,
    REDRIVES,
    REDRIVING,
    STORED,
    TRIES,
    UNDONE,
    again,
    dead_letters_of,
    letters_of,
    quoted_text,
    with_state,
)
from rs_assets.connectors.delta.table import open_table

Letter = Mapping[str, Any]
# By which a dead letter is known. Records of several rows, and files of one name, may have several dead letters.
KEY = ("generation", "query", "batch_id", "step", "source", "split", "line", "offset")
KEYS = pa.schema([STORED.field(name) for name in KEY])
# In place of a line or an offset that a source does not have.
NOWHERE: Final = -1
# The same, and in place of the source that an earlier release did not note.
ABSENT: Final[Mapping[str, Any]] = MappingProxyType({"source": "", "line": NOWHERE, "offset": NOWHERE})
SAME = " AND ".join(
    f"coalesce(t.{name}, {ABSENT[name]!r}) = s.{name}" if name in ABSENT else f"t.{name} = s.{name}" for name in KEY
)


@dataclass(frozen=True, slots=True)
class Redrives:
    """The dead letters of one job in the table at `path`, as its redrives see them.

    A redrive first claims its dead letters, by the id under which the output's table will have its rows. A claim that
    was left by a crash is settled if the table has these rows, else released.
    """

    path: str
    namespace: str
    job: str

    def counting(self) -> list[Letter]:
        """The dead letters that count, also those that are claimed; by batch and place."""
        found = dead_letters_of(self.path, self.namespace, self.job)
        letters: list[Letter] = found.sort_by([(name, "ascending") for name in KEY]).to_pylist()
        return letters

    def last_number(self, pipeline_id: str) -> int:
        """The greatest number of a claim, 0 for none."""
        table = open_table(self.path)
        return 0 if table is None else table.transaction_version(_claims(pipeline_id)) or 0

    @again
    def claim(self, letters: Sequence[Letter], claim: str, number: int, *, pipeline_id: str) -> bool:
        """Claim dead letters that count; False, and none is claimed, if some are, or another claim has the number."""
        table = self._table()
        last = table.transaction_version(_claims(pipeline_id)) or 0
        if last >= number:
            return False
        marker = CommitProperties(app_transactions=[Transaction(_claims(pipeline_id), number)])
        changed = self._merge(table, letters, {REDRIVING: quoted_text(claim)}, marker, free=True)
        if changed == len(letters):
            return True
        self.release(claim)
        return False

    @again
    def settle(self, claim: str, *, number: int, generation: int, batch: int, counts: bool = True) -> int:
        """Note that the dead letters of a claim were redriven after `batch`; returns how many there were.

        Without `counts` that batch has been undone since, and the dead letters count again.
        """
        place = quoted_text(f"{number}:{generation}:{batch}")
        values = {
            REDRIVES: f"CASE WHEN {REDRIVES} IS NULL THEN {place} ELSE concat({REDRIVES}, ' ', {place}) END",
            REDRIVEN: f"CAST({number if counts else 'NULL'} AS BIGINT)",
            REDRIVING: "CAST(NULL AS VARCHAR)",
        }
        at = pa.scalar(datetime.now(UTC)).as_py()
        values[REDRIVEN_AT] = f"arrow_cast('{at:%Y-%m-%dT%H:%M:%S.%f}Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"
        return self._update(claim, values)

    @again
    def reopen(self, claim: str, *, number: int) -> None:
        """Claim the dead letters of a redrive again that was settled while the pipeline went back."""
        mine = f"{letters_of(self.namespace, self.job)} AND {REDRIVEN} = {number}"
        values = {REDRIVING: quoted_text(claim), REDRIVEN: "CAST(NULL AS BIGINT)"}
        self._table().update(predicate=mine, updates=values)

    @again
    def release(self, claim: str) -> int:
        """Give the dead letters of a claim back, of which no row was added; returns how many there were."""
        return self._update(claim, {REDRIVING: "CAST(NULL AS VARCHAR)"})

    @again
    def refuse(self, letters: Sequence[Letter]) -> None:
        """Note for dead letters that were refused again their new reasons, in `reason`, and one more try."""
        values = {"reason": "s.reason", TRIES: f"coalesce(t.{TRIES}, 0) + 1"}
        if letters:
            self._merge(self._table(), letters, values, None, free=False)

    def _table(self) -> DeltaTable:
        table = with_state(self.path)
        assert table is not None  # its dead letters were read
        return table

    def _update(self, claim: str, values: Mapping[str, str]) -> int:
        mine = f"{letters_of(self.namespace, self.job)} AND {REDRIVING} = {quoted_text(claim)}"
        return int(self._table().update(predicate=mine, updates=dict(values))["num_updated_rows"])

    def _merge(
        self,
        table: DeltaTable,
        letters: Sequence[Letter],
        values: Mapping[str, str],
        marker: CommitProperties | None,
        *,
        free: bool,
    ) -> int:
        """Set `values` of the rows of `letters` that count, or of those of them that are not claimed."""
        own = f"t.namespace = {quoted_text(self.namespace)} AND t.job = {quoted_text(self.job)}"
        counts = f"t.{UNDONE} IS NULL AND t.{REDRIVEN} IS NULL" + f" AND t.{REDRIVING} IS NULL" * free
        merge = table.merge(
            _keys(letters),
            predicate=f"{own} AND {SAME} AND {counts}",
            source_alias="s",
            target_alias="t",
            commit_properties=marker,
        )
        return int(merge.when_matched_update(dict(values)).execute()["num_target_rows_updated"])


def claims_of(letters: Iterable[Letter]) -> list[str]:
    """The claims on some of `letters`."""
    return sorted({letter[REDRIVING] for letter in letters if letter[REDRIVING] is not None})


def claim_id(pipeline_id: str, generation: int, sink: str, number: int) -> str:
    """The id of a redrive, in the dead-letter table and in that of its output.

    >>> claim_id("p1", 2, "clicks", 7)
    'p1/g2/clicks/redrive/7'
    """
    return f"{pipeline_id}/g{generation}/{sink}/redrive/{number}"


def parsed_claim(claim: str) -> tuple[int, str, int]:
    """Generation, sink and number of a claim.

    >>> parsed_claim("p1/g2/clicks/redrive/7")
    (2, 'clicks', 7)
    """
    _, generation, sink, _, number = claim.rsplit("/", 4)
    return int(generation[1:]), sink, int(number)


def _claims(pipeline_id: str) -> str:
    """The id under which the dead-letter table stores the greatest number of a claim."""
    return f"{pipeline_id}/redrive"


def _keys(letters: Sequence[Letter]) -> pa.Table:
    """The keys of `letters`, each once, with their reasons."""
    known = {tuple(letter[name] for name in KEY): letter for letter in letters}
    rows = [
        {**{name: ABSENT[name] if letter[name] is None else letter[name] for name in KEY}, "reason": letter["reason"]}
        for letter in known.values()
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([*KEYS, STORED.field("reason")]))

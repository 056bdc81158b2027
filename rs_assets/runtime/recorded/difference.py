"""What differs between two tables, row by row or by keys and columns: counts and samples."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from rs_assets.common.plural import count_of

KINDS: Final = ("only_before", "only_after", "changed")
COUNTED: Final = ("rows_before", "rows_after", *KINDS)
# How many samples of each kind are kept.
SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A row that differs, as JSON; `before` or `after` is None where it is only on the other side."""

    change: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """In one line."""
        return f"{self.change}: {' -> '.join(text for text in (self.before, self.after) if text is not None)}"

    def brief(self, keys: Sequence[str]) -> Sample:
        """The same, of a changed row only its keys and what has changed.

        >>> row = Sample(change="changed", before='{"id":2,"n":1,"page":"/"}', after='{"id":2,"n":2,"page":"/"}')
        >>> str(row.brief(["id"]))
        'changed: {"id":2,"n":1} -> {"n":2}'
        """
        if self.before is None or self.after is None:
            return self
        before, after = json.loads(self.before), json.loads(self.after)
        named = [name for name in before if name in keys]
        named += [name for name in {**before, **after} if before.get(name) != after.get(name)]
        return replace(
            self,
            before=_json({name: before[name] for name in named if name in before}),
            after=_json({name: after[name] for name in named if name in after and name not in keys}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How rows by the current code (after) differ from those in the table (before).

    `only_before` and `only_after` count rows, `changed` keys with other values: without `keys` a changed row is one of
    each of the other two. `by_column` has the number of changed keys by column. Columns that only one side has are not
    compared; `columns_retyped` are compared as text. `batches` were read, some more than once for many partitions.
    `samples` are the first of each kind. `code` is the digest of the current code, for `backfill(code=)`. `whole`: the
    table was compared, and not partitions of it. `streamed`: the batches went through the code as a stream. It went
    on from the state of `savepoint`, if that is not empty.
    """

    code: str = ""
    partitions: tuple[str, ...] = ()
    batches: int = 0
    version: int | None = None
    keys: tuple[str, ...] = ()
    rows_before: int = 0
    rows_after: int = 0
    only_before: int = 0
    only_after: int = 0
    changed: int = 0
    by_column: Mapping[str, int] = field(default_factory=dict)
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    columns_retyped: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()
    whole: bool = False
    streamed: bool = False
    savepoint: str = ""

    @property
    def empty(self) -> bool:
        """Whether rows and columns are the same."""
        columns = (*self.columns_added, *self.columns_removed, *self.columns_retyped)
        return not (self.only_before or self.only_after or self.changed or columns)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """A line for the counts, one for the columns, and one for each sample."""
        rows = f"{count_of(self.rows_before, 'row')} before, {self.rows_after:,} after"
        where = "the whole table" if self.whole else count_of(len(self.partitions), "partition")
        way = f" since savepoint {self.savepoint}" if self.savepoint else " as a stream" if self.streamed else ""
        head = f"{rows}, in {where}, from {count_of(self.batches, 'batch')}{way}"
        counts = ", ".join(f"{kind} {getattr(self, kind):,}" for kind in KINDS)
        columns = [f"  changed in {name}: {count:,}" for name, count in self.by_column.items()]
        sides = (("added", self.columns_added), ("removed", self.columns_removed), ("retyped", self.columns_retyped))
        code = [f"code {self.code}"] if self.code and not self.empty else []
        kinds = [f"  columns {what}: {', '.join(names)}" for what, names in sides if names]
        return "\n".join([head, "no difference" if self.empty else counts, *columns, *kinds, *self._shown(), *code])

    def _shown(self) -> Iterator[str]:
        return (f"  {sample.brief(self.keys)}" for sample in self.samples)


def _json(row: Mapping[str, object]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False)


def summed(parts: Sequence[Difference]) -> Difference:
    """The sum over some partitions, at least one."""
    columns, samples = Counter[str](), [sample for part in parts for sample in part.samples]
    for part in parts:
        columns.update(part.by_column)
    counts: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in ("batches", *COUNTED)}
    return replace(
        parts[-1],
        **counts,
        partitions=tuple(key for part in parts for key in part.partitions),
        by_column=dict(columns.most_common()),
        samples=tuple(each for kind in KINDS for each in [s for s in samples if s.change == kind][:SHOWN]),
    )

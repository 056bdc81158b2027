"""What differs between two tables, row by row or by keys and columns: counts, samples, and a table of all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError
from rs_assets.records.schema import quoted

KINDS: Final = ("only_before", "only_after", "changed")
_COUNTED: Final = ("rows_before", "rows_after", *KINDS)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How rows by the current code (after) differ from those in the table (before).

    `only_before` and `only_after` count rows, `changed` keys with other values: without `keys` a changed row is one of
    each of the other two. `by_column` has the number of changed keys by column. Columns that only one side has are not
    compared; `columns_retyped` are compared as text. `batches` were read, once for each partition that needs them.
    `samples` are the first of each kind. `code` is the digest of the current code, for `backfill(code=)`. `whole`: the
    table was compared, and not partitions of it. `streamed`: the batches went through the code as a stream.
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
        head = f"{rows}, in {where}, from {count_of(self.batches, 'batch')}{' as a stream' if self.streamed else ''}"
        counts = ", ".join(f"{kind} {getattr(self, kind):,}" for kind in KINDS)
        columns = [f"  changed in {name}: {count:,}" for name, count in self.by_column.items()]
        sides = (("added", self.columns_added), ("removed", self.columns_removed), ("retyped", self.columns_retyped))
        code = [f"code {self.code}"] if self.code and not self.empty else []
        kinds = [f"  columns {what}: {', '.join(names)}" for what, names in sides if names]
        return "\n".join([head, "no difference" if self.empty else counts, *columns, *kinds, *self._shown(), *code])

    def _shown(self) -> Iterator[str]:
        return (f"  {sample}" for sample in self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences of the parts of a table in its version `version`, each also written into `target`."""

    keys: tuple[str, ...]
    target: Path | None
    version: int

    def of(self, before: DataFrame, after: DataFrame, partition: str) -> Difference:
        """What differs between two sides, of which the first is in the table."""
        sides = _Sides.of(before, after, self.keys)
        rows = sides.rows.persist()
        try:
            found = self._counted(sides, rows, partition)
            differing = rows.filter(F.col("change").isNotNull())
            first = [_first(differing, kind) for kind in KINDS if getattr(found, kind)]
            self._write(differing, partition)
        finally:
            rows.unpersist()
        samples = tuple(sample for each in first for sample in each)
        return replace(found, version=self.version, samples=samples, partitions=(partition,))

    def _counted(self, sides: _Sides, rows: DataFrame, partition: str) -> Difference:
        kinds = [F.sum(F.when(F.col("change") == kind, F.col("rows"))).alias(kind) for kind in KINDS]
        ends = [F.sum(name).alias(name) for name in ("rows_before", "rows_after")]
        most = F.max(F.greatest("rows_before", "rows_after")).alias("most")
        columns = [F.count_if(F.array_contains("columns", name)) for name in sides.values]
        row = rows.agg(*ends, *kinds, most, *columns).head()
        assert row is not None  # noqa: S101  without groups there is one row
        if self.keys and (row["most"] or 0) > 1:
            where = f"the partition {partition}" if partition else "the table"
            raise ConfigurationError(
                f"{where} has {row['most']:,} rows with the same {', '.join(self.keys)}",
                remedy=f"add fields to the keys, or leave them out: {', '.join(sides.values)}",
            )
        changed = dict(zip(sides.values, row[len(_COUNTED) + 1 :], strict=True))
        found = Difference(
            keys=self.keys,
            by_column={name: count for name, count in changed.items() if count},
            columns_added=sides.added,
            columns_removed=sides.removed,
            columns_retyped=sides.retyped,
        )
        counts: dict[str, Any] = {name: row[name] or 0 for name in _COUNTED}
        return replace(found, **counts)

    def _write(self, differing: DataFrame, partition: str) -> None:
        if self.target is None:
            return
        rows = differing.select(F.lit(partition).alias("partition"), "change", "rows", "columns", "before", "after")
        rows.write.format("delta").mode("append").save(str(self.target))


def summed(parts: Sequence[Difference]) -> Difference:
    """The sum over some partitions, at least one."""
    columns, samples = Counter[str](), [sample for part in parts for sample in part.samples]
    for part in parts:
        columns.update(part.by_column)
    counts: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in ("batches", *_COUNTED)}
    return replace(
        parts[-1],
        **counts,
        partitions=tuple(key for part in parts for key in part.partitions),
        by_column=dict(columns.most_common()),
        samples=tuple(each for kind in KINDS for each in [s for s in samples if s.change == kind][:SHOWN]),
    )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Rows of both sides together, one for each key: how many each side has, and what differs."""

    rows: DataFrame
    values: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[str, ...]

    @classmethod
    def of(cls, before: DataFrame, after: DataFrame, keys: Sequence[str]) -> _Sides:
        """Those of two frames; ConfigurationError for keys that not both have."""
        common = [name for name in after.columns if name in before.columns]
        unknown = next((key for key in keys if key not in common), None)
        if unknown is not None:
            raise ConfigurationError(
                f"{unknown!r} is not a field of both sides, so it cannot be a key",
                remedy=f"keys of: {', '.join(common)}",
            )
        retyped = [name for name in common if before.schema[name].dataType != after.schema[name].dataType]
        values = tuple(name for name in common if name not in keys) if keys else ()
        sides = [_side(frame, keys or common, values, retyped) for frame in (before, after)]
        both = sides[0].withColumn("stored", F.lit(True)).unionByName(sides[1].withColumn("stored", F.lit(False)))  # noqa: FBT003
        return cls(
            rows=_grouped(both, values),
            values=values,
            added=tuple(name for name in after.columns if name not in common),
            removed=tuple(name for name in before.columns if name not in common),
            retyped=tuple(retyped),
        )


def _side(rows: DataFrame, keys: Sequence[str], values: Sequence[str], retyped: Sequence[str]) -> DataFrame:
    def taken(name: str) -> Column:
        column = rows[quoted(name)]
        return (column.cast("string") if name in retyped else column).alias(name)

    # A struct has at least one field.
    return rows.select(
        F.struct(*map(taken, keys)).alias("key"), F.struct(F.lit(0).alias("_rs"), *map(taken, values)).alias("row")
    )


def _grouped(both: DataFrame, values: Sequence[str]) -> DataFrame:
    """One row a key: its rows on each side, the columns that differ, and the kind of difference, null for none."""
    stored = F.col("stored")
    groups = both.groupBy("key").agg(
        F.count_if(stored).alias("rows_before"),
        F.count_if(~stored).alias("rows_after"),
        F.first(F.when(stored, F.col("row")), ignorenulls=True).alias("b"),
        F.first(F.when(~stored, F.col("row")), ignorenulls=True).alias("a"),
    )
    before, after = F.col("rows_before"), F.col("rows_after")
    both_sides = (before > 0) & (after > 0)
    differs = (~F.col("b")[name].eqNullSafe(F.col("a")[name]) for name in values)
    named = [F.when(both_sides & each, F.lit(name)) for each, name in zip(differs, values, strict=True)]
    columns = F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")
    kind = F.when(before > after, KINDS[0]).when(after > before, KINDS[1]).when(F.size("columns") > 0, KINDS[2])
    texts = [_text(side, values, there) for side, there in (("b", before > 0), ("a", after > 0))]
    return groups.withColumn("columns", columns).select(
        kind.alias("change"),
        F.when(before == after, before).otherwise(F.abs(before - after)).alias("rows"),
        "columns",
        "rows_before",
        "rows_after",
        texts[0].alias("before"),
        texts[1].alias("after"),
    )


def _text(side: str, values: Sequence[str], there: Column) -> Column:
    fields = [F.col(side)[name].alias(name) for name in values]
    return F.when(there, F.to_json(F.struct("key.*", *fields)))


def _first(differing: DataFrame, kind: str) -> list[Sample]:
    rows = differing.filter(F.col("change") == kind).orderBy("before", "after").limit(SHOWN).collect()
    return [Sample(change=kind, before=row["before"], after=row["after"]) for row in rows]

"""Compares two sides of a table: first the sums of the hashes of their rows, and where they differ row by row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions, PartitionValue
from rs_assets.errors import ConfigurationError
from rs_assets.records.schema import quoted
from rs_assets.runtime.recorded.difference import COUNTED, KINDS, SHOWN, Difference, Sample, summed
from rs_assets.runtime.recorded.digest import sums
from rs_assets.runtime.recorded.partitions import Partition

# The columns of the table of differences.
WRITTEN: Final = "partition string, change string, rows bigint, columns array<string>, before string, after string"
PART, STORED, ROWS = "_rs_part", "_rs_stored", "_rs_rows"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a table that are compared one by one: `place` says of a row in which it is, `names` are by place."""

    place: Column
    names: Mapping[str, str]

    @classmethod
    def of(cls, partitions: EventTimePartitions, chosen: Sequence[Partition]) -> Parts:
        """Some partitions of a table that has their column."""
        places = {text_of(partitions.parse(each.key)): each.key for each in chosen}
        return cls(F.col(quoted(partitions.column)).cast("string"), places)

    @classmethod
    def whole(cls) -> Parts:
        """The table as one part, without a name."""
        return cls(F.lit(""), {"": ""})


def text_of(value: PartitionValue) -> str:
    """The value of a partition as Spark writes it, with the time zone UTC.

    >>> from datetime import date
    >>> text_of(datetime(2026, 1, 5, 10, tzinfo=UTC)), text_of(date(2026, 1, 5))
    ('2026-01-05 10:00:00', '2026-01-05')
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    return value.isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The differences of the parts of a table in its version `version`, each also written into `target`."""

    keys: tuple[str, ...]
    target: Path | None
    version: int

    def of(self, before: DataFrame, after: DataFrame, parts: Parts) -> Difference:
        """What differs between two sides, of which the first is in the table; both have rows of `parts` alone.

        Rows are compared one by one only in a part of which the digests differ.
        """
        columns = _Columns.of(before, after, self.keys)
        found = columns.digests(before, after, parts)
        equal = frozenset(place for place in parts.names if found.get((place, True)) == found.get((place, False)))
        self._refuse_repeated(columns, before, parts, equal)
        made = list[Difference]()
        for place, name in parts.names.items():
            if place in equal:
                made.append(self._equal(columns, found.get((place, True), (0,))[0], name))
            else:
                was, now = (rows.filter(parts.place == place) for rows in (before, after))
                made.append(self._row_by_row(columns, was, now, name))
        self._write_nothing(before.sparkSession)
        return summed(made)

    def _equal(self, columns: _Columns, rows: int, partition: str) -> Difference:
        return replace(
            columns.difference(), version=self.version, partitions=(partition,), rows_before=rows, rows_after=rows
        )

    def _row_by_row(self, columns: _Columns, before: DataFrame, after: DataFrame, partition: str) -> Difference:
        rows = columns.grouped(before, after).persist()
        try:
            found = self._counted(columns, rows, partition)
            differing = rows.filter(F.col("change").isNotNull())
            first = [_first(differing, kind) for kind in KINDS if getattr(found, kind)]
            self._write(differing, partition)
        finally:
            rows.unpersist()
        samples = tuple(sample for each in first for sample in each)
        return replace(found, version=self.version, samples=samples, partitions=(partition,))

    def _counted(self, columns: _Columns, rows: DataFrame, partition: str) -> Difference:
        kinds = [F.sum(F.when(F.col("change") == kind, F.col("rows"))).alias(kind) for kind in KINDS]
        ends = [F.sum(name).alias(name) for name in ("rows_before", "rows_after")]
        most = F.max(F.greatest("rows_before", "rows_after")).alias("most")
        named = [F.count_if(F.array_contains("columns", name)) for name in columns.values]
        row = rows.agg(*ends, *kinds, most, *named).head()
        assert row is not None  # without groups there is one row
        if self.keys and (row["most"] or 0) > 1:
            raise self._repeated(columns, row["most"], partition)
        changed = dict(zip(columns.values, row[len(COUNTED) + 1 :], strict=True))
        counts: dict[str, Any] = {name: row[name] or 0 for name in COUNTED}
        by_column = {name: count for name, count in changed.items() if count}
        return replace(columns.difference(), by_column=by_column, **counts)

    def _refuse_repeated(self, columns: _Columns, rows: DataFrame, parts: Parts, equal: Collection[str]) -> None:
        """ConfigurationError if two rows of a part that is equal on both sides have the same keys."""
        if not self.keys or not equal:
            return
        groups = columns.shared(rows, parts).groupBy(PART, *map(quoted, self.keys)).agg(F.count(F.lit(1)).alias("rows"))
        repeated = groups.filter("rows > 1").groupBy(PART).agg(F.max("rows").alias("most")).collect()
        for row in repeated:
            if row[PART] in equal:
                raise self._repeated(columns, row["most"], parts.names[row[PART]])

    def _repeated(self, columns: _Columns, most: int, partition: str) -> ConfigurationError:
        where = f"the partition {partition}" if partition else "the table"
        return ConfigurationError(
            f"{where} has {count_of(most, 'row')} with the same {', '.join(self.keys)}",
            remedy=f"add fields to the keys, or leave them out: {', '.join(columns.values)}",
        )

    def _write(self, differing: DataFrame, partition: str) -> None:
        if self.target is None:
            return
        rows = differing.select(F.lit(partition).alias("partition"), "change", "rows", "columns", "before", "after")
        rows.write.format("delta").mode("append").save(str(self.target))

    def _write_nothing(self, spark: SparkSession) -> None:
        """The table of the differences without a row, if there is none yet."""
        if self.target is not None and not self.target.exists():
            spark.createDataFrame([], WRITTEN).write.format("delta").save(str(self.target))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of two sides: `common` ones are compared, as text if they are `retyped`; `values` are not keys."""

    keys: tuple[str, ...]
    common: tuple[str, ...]
    values: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[str, ...]

    @classmethod
    def of(cls, before: DataFrame, after: DataFrame, keys: Sequence[str]) -> _Columns:
        """Those of two frames; ConfigurationError for keys that not both have."""
        was, now = ({each.name: each.dataType.simpleString() for each in rows.schema} for rows in (before, after))
        common = tuple(name for name in now if name in was)
        unknown = next((key for key in keys if key not in common), None)
        if unknown is not None:
            raise ConfigurationError(
                f"{unknown!r} is not a field of both sides, so it cannot be a key",
                remedy=f"keys of: {', '.join(common)}",
            )
        return cls(
            keys=tuple(keys),
            common=common,
            values=tuple(name for name in common if name not in keys) if keys else (),
            added=tuple(name for name in now if name not in common),
            removed=tuple(name for name in was if name not in common),
            retyped=tuple(name for name in common if was[name] != now[name]),
        )

    def difference(self) -> Difference:
        """Without rows."""
        return Difference(
            keys=self.keys, columns_added=self.added, columns_removed=self.removed, columns_retyped=self.retyped
        )

    def shared(self, rows: DataFrame, parts: Parts) -> DataFrame:
        """The common columns, and the place of each row."""
        return rows.select(parts.place.alias(PART), *(self._taken(rows, name) for name in self.common))

    def digests(self, before: DataFrame, after: DataFrame, parts: Parts) -> Mapping[tuple[str, bool], tuple[int, ...]]:
        """By place, and whether it is the first side: the number of rows, and sums of their hashes; none without."""
        sides = [self.shared(rows, parts).withColumn(STORED, F.lit(rows is before)) for rows in (before, after)]
        both = sides[0].unionByName(sides[1])
        hashed = sums(each for each in both.schema if each.name not in {PART, STORED})
        found = both.groupBy(PART, STORED).agg(F.count(F.lit(1)), *hashed).collect()
        return {(row[0], row[1]): tuple(row[2:]) for row in found}

    def grouped(self, before: DataFrame, after: DataFrame) -> DataFrame:
        """Both sides together, a row for each key: how many rows each side has, and what differs."""
        sides = (self._side(rows).withColumn("stored", F.lit(rows is before)) for rows in (before, after))
        return _grouped(reduce(DataFrame.unionByName, sides), self.values)

    def _side(self, rows: DataFrame) -> DataFrame:
        keys, values = (
            (self._taken(rows, name) for name in names) for names in (self.keys or self.common, self.values)
        )
        # A struct has at least one field.
        return rows.select(F.struct(*keys).alias("key"), F.struct(F.lit(0).alias("_rs"), *values).alias("row"))

    def _taken(self, rows: DataFrame, name: str) -> Column:
        column = rows[quoted(name)]
        return (column.cast("string") if name in self.retyped else column).alias(name)


def _grouped(both: DataFrame, values: Sequence[str]) -> DataFrame:
    """One row a key: its rows on each side, the columns that differ, and the kind of difference, null for none."""
    stored, row = F.col("stored"), F.col("row")
    sides = {"b": stored, "a": ~stored} if values else {}
    groups = both.groupBy("key").agg(
        F.count_if(stored).alias("rows_before"),
        F.count_if(~stored).alias("rows_after"),
        *(F.first(F.when(there, row), ignorenulls=True).alias(side) for side, there in sides.items()),
    )
    before, after = F.col("rows_before"), F.col("rows_after")
    both_sides = (before > 0) & (after > 0)
    differs = (~F.col("b")[name].eqNullSafe(F.col("a")[name]) for name in values)
    named = [F.when(both_sides & each, F.lit(name)) for each, name in zip(differs, values, strict=True)]
    columns = F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")
    kind = F.when(before > after, KINDS[0]).when(after > before, KINDS[1]).when(F.size("columns") > 0, KINDS[2])
    changes = groups.withColumn("columns", columns).withColumn("change", kind)
    texts = [_text(side, values, there) for side, there in (("b", before > 0), ("a", after > 0))]
    return changes.select(
        "change",
        F.when(before == after, before).otherwise(F.abs(before - after)).alias("rows"),
        "columns",
        "rows_before",
        "rows_after",
        texts[0].alias("before"),
        texts[1].alias("after"),
    )


def _text(side: str, values: Sequence[str], there: Column) -> Column:
    """A row that differs, as JSON."""
    fields = [F.col(side)[name].alias(name) for name in values]
    return F.when(F.col("change").isNotNull() & there, F.to_json(F.struct("key.*", *fields)))


def _first(differing: DataFrame, kind: str) -> list[Sample]:
    rows = differing.filter(F.col("change") == kind).orderBy("before", "after").limit(SHOWN).collect()
    return [Sample(change=kind, before=row["before"], after=row["after"]) for row in rows]

"""User-defined aggregates over the rows of a window, as `.reduce()` calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rs_assets.topology.user_code.expression import Record


@dataclass(frozen=True, slots=True)
class Folded:
    """Runs an aggregate over rows: its arguments are the `fields` of a row, its value becomes the field `result`.

    A row is skipped if one of `fields` is null whose entry in `needs` is true, or if the field `only` is not true.
    """

    aggregate: Any
    fields: tuple[str, ...]
    needs: tuple[bool, ...]
    result: str
    only: str | None = None

    def create(self) -> Any:
        """The accumulator before the first row."""
        return self.aggregate.create()

    def accumulate(self, accumulator: Any, row: Record) -> Any:
        """The accumulator with one more row."""
        values = [row[name] for name in self.fields]
        missing = any(needed and value is None for needed, value in zip(self.needs, values, strict=True))
        if missing or (self.only is not None and not row[self.only]):
            return accumulator
        return self.aggregate.accumulate(accumulator, *values)

    def value(self, accumulator: Any) -> Record:
        """A record with the result."""
        return {self.result: self.aggregate.value(accumulator)}


@dataclass(frozen=True, slots=True)
class MergedFold(Folded):
    """The same for an aggregate with `merge`, whose accumulators are kept instead of rows."""

    def merge(self, one: Any, other: Any) -> Any:
        """The accumulator of the rows of both."""
        return self.aggregate.merge(one, other)

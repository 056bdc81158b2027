"""Aggregates of users' own over the rows of a window, as `.reduce()` calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rs_assets.topology.user_code.expression import Record


@dataclass(frozen=True, slots=True)
class Folded:
    """An accumulator over rows of an aggregate, whose arguments are the `fields` of a row and whose value is `result`.

    Rows are passed over where one of `fields` is null that `needs` has, and where the field `only` is not true.
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
        """The accumulator with one row more."""
        values = [row[name] for name in self.fields]
        missing = any(needed and value is None for needed, value in zip(self.needs, values, strict=True))
        if missing or (self.only is not None and not row[self.only]):
            return accumulator
        return self.aggregate.accumulate(accumulator, *values)

    def value(self, accumulator: Any) -> Record:
        """The field of the result."""
        return {self.result: self.aggregate.value(accumulator)}

"""The columns and the emit strategy of a window, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rs_assets.errors import TopologyError

# The most values that max_by keeps.
MOST_RANKED = 100_000

# When a window emits its row: once, when it closes; in each batch that changes it, as it is then; both; or at each
# record that changes it.
EmitStrategy = Literal["on_window_close", "on_window_update", "on_update_and_close", "on_record"]

AggregateFunction = Literal[
    "count", "sum", "avg", "min", "max", "distinct", "count_distinct", "count_distinct_large", "collect"
]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of a window row: `function` over `field` (None only for count), called `alias`."""

    function: AggregateFunction
    field: str | None
    alias: str


# The column of a window's row with its rows, for Python functions downstream; that with an accumulator of them.
ROWS, ACCUMULATOR = "rows of the window", "accumulator of the window"


def column_for(number: int, what: str = ROWS) -> str:
    """The column with the rows, or with the accumulator, for one of several functions.

    >>> column_for(1), column_for(2)
    ('rows of the window', 'rows of the window 2')
    """
    return what if number == 1 else f"{what} {number}"


@dataclass(frozen=True, slots=True)
class Rows:
    """The `fields` (none: all) of a window's rows that are kept for functions, which compute `made` from them.

    `each` are the fields (none: all) of each function's rows, which are ordered by event time and by these fields.
    """

    fields: tuple[str, ...]
    made: tuple[str, ...]
    each: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The fields of each function by the column that has its rows."""
        return {column_for(number): fields for number, fields in enumerate(self.each, 1)}


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first `n` rows of a window in the order of `by`, each with its number, called `rank`, and `fields`.

    Rows that are equal in `by` are ordered by `fields`, in the same direction; null is smaller than all values.
    """

    n: int
    by: tuple[str, ...]
    fields: tuple[str, ...] = ()
    descending: bool = True
    rank: str = "rank"

    def __post_init__(self) -> None:
        """Refuse a number of rows that Spark cannot keep, and a ranking without fields."""
        if not isinstance(self.n, int) or isinstance(self.n, bool) or not 0 < self.n <= MOST_RANKED:
            raise TopologyError(f"top_n takes a number of rows from 1 to {MOST_RANKED:,}, not {self.n!r}")
        if not self.by:
            raise TopologyError("top_n needs a field to rank by", remedy="top_n(3, by='ms')")

    @property
    def shown(self) -> tuple[str, ...]:
        """The fields of a ranked row, each once."""
        return tuple(dict.fromkeys([*self.by, *self.fields]))

"""What Spark asks of a user-defined source: where the next batch ends, and the rows of a range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import orjson
import pyarrow as pa

from rs_assets.errors import CheckpointError, ConfigurationError, RsError, SourceReadError

# How much of a foreign error's text is shown.
SHOWN = 300


class Position(NamedTuple):
    """How far a split was read: the number of its first row that was there, and of the next row to read."""

    first: int
    next: int


Offsets = Mapping[str, Position]
# How far a split was read, as the source counts.
At = TypeVar("At")
# What begins and ends the rows of one task.
Bound = TypeVar("Bound")
Bound_contra = TypeVar("Bound_contra", contravariant=True)


class SourcePlan(Protocol[At, Bound_contra]):
    """One use of a source in one process; it is pickled, so it holds no connection when it is made."""

    def freeze(self) -> None:
        """What is added from now on is left for the next run, as far as the source knows."""
        ...

    def next(self, start: Mapping[str, At], rows: int | None) -> Mapping[str, At]:
        """Where the next batch ends, of at most `rows` rows or so; `start` itself if there is nothing new."""
        ...

    def read(self, split: str, start: Bound_contra, end: Bound_contra) -> Iterator[pa.RecordBatch]:
        """The rows of a planned range; DataLossError if they are not those that were planned."""
        ...

    def committed(self, ends: Mapping[str, At]) -> None:
        """Spark has committed all rows before `ends`."""
        ...


# Rows have a number in their split.
Plan = SourcePlan[Position, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForm(Generic[At, Bound]):
    """How offsets are kept in Spark's log: `load` and `dump` are inverse; `ranges` are the rows between two of them.

    `load` takes JSON, what it stands for, or None for no offset yet; CheckpointError for anything else. `dump` always
    gives the same order. `ranges` has the splits with rows.
    """

    load: Callable[[Mapping[str, object] | str | None], Mapping[str, At]]
    dump: Callable[[Mapping[str, At]], dict[str, object]]
    ranges: Callable[[Mapping[str, At], Mapping[str, At]], Mapping[str, tuple[Bound, Bound]]]


def loaded(data: Mapping[str, object] | str | None) -> dict[str, Position]:
    """Offsets from Spark's log (None: none yet), by the splits' names; else CheckpointError.

    >>> loaded('{"b": [7, 9], "a": 1}'), loaded(None)
    ({'a': Position(first=0, next=1), 'b': Position(first=7, next=9)}, {})
    """
    if data is None:
        return {}
    try:
        body: Any = orjson.loads(data) if isinstance(data, str) else data
        return {str(split): _position(body[split]) for split in sorted(body)}
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{str(data)[:100]!r} is not an offset of a user-defined source") from error


def dumped(offsets: Offsets) -> dict[str, object]:
    """Offsets for Spark's log, always in the same order.

    >>> dumped({"b": Position(7, 9), "a": Position(0, 1)})
    {'a': 1, 'b': [7, 9]}
    """
    return {split: at.next if at.first == 0 else [*at] for split, at in sorted(offsets.items())}


def ranges(start: Offsets, end: Offsets) -> dict[str, tuple[int, int]]:
    """The range of each split that has rows between two offsets.

    >>> ranges({"a": Position(0, 1)}, {"a": Position(0, 3), "b": Position(7, 9)})
    {'a': (1, 3), 'b': (7, 9)}
    """
    found = {split: (start[split].next if split in start else at.first, at.next) for split, at in end.items()}
    return {split: (begin, last) for split, (begin, last) in found.items() if last > begin}


NUMBERED: Final = OffsetForm(load=loaded, dump=dumped, ranges=ranges)


@contextmanager
def called(source: object, method: str) -> Iterator[None]:
    """SourceReadError, which names the method, for what user code raises in the block."""
    try:
        yield
    except RsError:
        raise
    except Exception as error:
        raise SourceReadError(
            f"{type(source).__name__}.{method} has raised {type(error).__name__}: {str(error)[:SHOWN]}",
            remedy="see that the system of the source answers, then start again; nothing was committed",
        ) from error


def no_copy(error: Exception) -> ConfigurationError:
    """The error for a source that cannot be sent to another process."""
    return ConfigurationError(
        f"the source cannot be sent to Spark's Python processes: {type(error).__name__}: {str(error)[:SHOWN]}",
        remedy="keep only settings in the object, and connect within the methods that read",
    )


def _position(value: Any) -> Position:
    return Position(int(value[0]), int(value[1])) if isinstance(value, list) else Position(0, int(value))

"""Joins of a stream with a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rs_assets.common.node import Node
from rs_assets.errors import TopologyError
from rs_assets.operators.dimension.spec import Dimension
from rs_assets.records.columns import PREFIX
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText

DimJoinType = Literal["inner", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DimJoin(VersionedTable):
    """Each row with the rows of a dimension that are equal in the fields `on`; it keeps no state.

    `prefix` is put before the names of the dimension's fields, which otherwise replace fields of the stream.
    """

    on: tuple[tuple[str, str], ...]
    how: DimJoinType = "inner"
    condition: SqlText | ColumnBuilder | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid kind of join, dimension or prefix."""
        Node.__post_init__(self)
        if not isinstance(self.dimension, Dimension):
            raise self._refused(
                f"joins a {type(self.dimension).__name__}, which is not a dimension", "use Dimension.from_file(...)"
            )
        if self.how not in get_args(DimJoinType):
            raise self._refused(f"cannot join {self.how!r}", f"use one of: {', '.join(get_args(DimJoinType))}")
        if self.prefix is not None and not self.prefix:
            raise self._refused("has an empty prefix", "leave prefix= out, or write prefix='dim_'")
        if self.prefix is not None and self.prefix.casefold().startswith(PREFIX):
            raise self._refused(f"has the prefix {self.prefix!r}, which hides its fields", "take another one")

    @property
    def keys(self) -> tuple[str, ...]:
        """The key fields of the dimension."""
        return tuple(right for _, right in self.on)

    def detail(self) -> str:
        """The kind of join, its keys and the dimension."""
        keys = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        more = " if a condition holds" if self.condition is not None else ""
        return f"{self.how} on {keys}{more} with {self.dimension.text}"

    def identity(self) -> tuple[str, ...]:
        """The settings that decide which rows match; the location of the dimension is not one."""
        condition = self.condition.identity() if self.condition is not None else ""
        return (
            self.how,
            ",".join(f"{left}={right}" for left, right in self.on),
            *((f"if={condition}",) if condition else ()),
            *((f"prefix={self.prefix}",) if self.prefix else ()),
        )

    def _refused(self, why: str, remedy: str) -> TopologyError:
        return TopologyError(f"step {self.name!r} {why}", remedy=remedy, step=self.name)

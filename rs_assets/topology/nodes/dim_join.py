"""Joins of a stream with a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rs_assets.common.node import Node
from rs_assets.errors import TopologyError
from rs_assets.operators.dimension.keys import Containing, Key
from rs_assets.operators.dimension.spec import Dimension
from rs_assets.records.columns import PREFIX
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.user_code.expression import ColumnBuilder, SqlText

DimJoinType = Literal["inner", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DimJoin(VersionedTable):
    """Each row with the rows of a dimension that are equal in the fields `on`; it keeps no state.

    With `within`, a field of the stream and a key of the dimension, only rows whose network or interval contains it.
    `prefix` is put before the names of the dimension's fields, which otherwise replace fields of the stream.
    """

    on: tuple[tuple[str, str], ...]
    within: tuple[str, Containing] | None = None
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
        if self.prefix is None and self.within is not None and self.within[0] in self.within[1].fields:
            raise self._refused(f"would replace {self.within[0]!r}, which it looks up", "add prefix='dim_'")
        if self.prefix is not None and not self.prefix:
            raise self._refused("has an empty prefix", "leave prefix= out, or write prefix='dim_'")
        if self.prefix is not None and self.prefix.casefold().startswith(PREFIX):
            raise self._refused(f"has the prefix {self.prefix!r}, which hides its fields", "take another one")

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the dimension."""
        return (*(right for _, right in self.on), *((self.within[1],) if self.within else ()))

    @property
    def asked(self) -> tuple[str, ...]:
        """The fields of the stream that are looked up, in the order of `keys`."""
        return (*(left for left, _ in self.on), *((self.within[0],) if self.within else ()))

    def detail(self) -> str:
        """The kind of join, its keys and the dimension."""
        equal = (left if left == right else f"{left} = {right}" for left, right in self.on)
        keys = ", ".join([*equal, *(f"{field} in {key}" for field, key in filter(None, [self.within]))])
        more = " if a condition holds" if self.condition is not None else ""
        return f"{self.how} on {keys}{more} with {self.dimension.text}"

    def identity(self) -> tuple[str, ...]:
        """The settings that decide which rows match; the location of the dimension is not one."""
        condition = self.condition.identity() if self.condition is not None else ""
        return (
            self.how,
            ",".join(f"{left}={right}" for left, right in self.on),
            *((f"within={self.within[0]} in {self.within[1]}",) if self.within else ()),
            *((f"if={condition}",) if condition else ()),
            *((f"prefix={self.prefix}",) if self.prefix else ()),
        )

    @property
    def further(self) -> tuple[str, ...]:
        """The fields of the dimension, which rows get; those that only a load shows are not known."""
        return (self.dimension.schema,) if self.dimension.schema is not None else ()

    def _refused(self, why: str, remedy: str) -> TopologyError:
        return TopologyError(f"step {self.name!r} {why}", remedy=remedy, step=self.name)

"""Steps that join a stream with a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from rs_assets.operators.dimension.spec import Dimension
from rs_assets.operators.join.spec import pairs_of
from rs_assets.stream.join_stream import Keys
from rs_assets.topology.nodes.dim_join import DimJoin, DimJoinType
from rs_assets.topology.user_code.expression import native

if TYPE_CHECKING:
    from rs_assets.stream.draft import Draft
    from rs_assets.topology.nodes.base import Node


class DimJoinSteps:
    """The joins of a stream with dimensions; part of `DataStream`."""

    __slots__ = ()

    draft: Draft
    step: str

    def dim_join(
        self,
        dimension: Dimension,
        *,
        on: Keys,
        how: DimJoinType = "inner",
        condition: object = None,
        prefix: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Join each row with the rows of `dimension` that equal it in `on`, as they are when the row's batch begins.

        `on` is a field of both, several, or a mapping from fields of the stream to those of the dimension; they must
        have one type, or be whole numbers. A key that is null or an empty text equals nothing. Several rows of the
        dimension give several rows. `how`: "inner", or "left", which also keeps rows that find nothing. `condition`
        (SQL text or Column) must hold for a pair; it may name fields as `left.ms` and `right.ms`. Fields of the
        dimension take the place of those of the stream that have their names, or stand beside them behind `prefix`.

        No state is kept. Each load of the dimension is a version that never changes; which one a batch uses is noted
        before it is computed, and a batch that is computed again uses that one. A load that fails leaves the version
        before in use, and the run warns. The first load comes before the first batch: SourceReadError if it fails or
        gives no row, SchemaError if its rows do not fit the schema. A `name` tells its versions from those of others.

        >>> from rs_assets import Dimension, StreamBuilder
        >>> users = Dimension.from_file("/data/users.jsonl", schema="user string, tier string")
        >>> clicks = StreamBuilder.data_stream("shop", "tiers").from_file("clicks.jsonl", schema="user string")
        >>> print(clicks.dim_join(users, on="user", how="left", name="tiers").to_print().build().describe())
        shop.tiers  fingerprint ...
          file   file_source  [json clicks.jsonl]
          tiers  dim_join <- file  [left on user with json /data/users.jsonl]
          print  print_sink <- tiers
        """
        step = self.draft.auto_name("dim_join", name, after=self.step)
        node = DimJoin(
            name=step,
            inputs=(self.step,),
            dimension=dimension,
            on=pairs_of(on, step=step),
            how=how,
            condition=native(condition, step=step) if condition is not None else None,
            prefix=prefix,
        )
        return self._then(node)

    def dim_left_join(self, dimension: Dimension, *, on: Keys, **settings: Any) -> Self:
        """`dim_join(..., how="left")`: also rows that find nothing in the dimension."""
        return self.dim_join(dimension, on=on, how="left", **settings)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError

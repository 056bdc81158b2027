"""Joins of a stream with a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from rs_assets.operators.dimension.spec import Dimension
from rs_assets.operators.join.spec import pairs_of
from rs_assets.stream.join_stream import Keys
from rs_assets.topology.nodes.dim_join import DimJoin, DimJoinType
from rs_assets.topology.user_code.expression import native

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.draft import Draft


class DimJoinSteps:
    """The dimension joins of a stream; part of `DataStream`."""

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
        """Join each row with the rows of `dimension` that are equal in `on`, as the dimension is when the batch begins.

        Typical uses: enrich events with users, products or rates. See docs/dimensions.md.

        - `dimension` (Dimension): a table, file or database query that is loaded into memory.
        - `on` (str, sequence of str, or dict from stream to dimension fields): the types must be equal, or both whole
          numbers. Null and empty text match nothing. Several matching rows give several rows.
        - `how` ("inner" or "left", default "inner"): "left" keeps rows without a match.
        - `condition` (SQL text or Column, default None): must hold for a pair; fields may be written `left.ms` and
          `right.ms`.
        - `prefix` (str, default None): put before the names of the dimension's fields; without it they replace fields
          of the stream of the same name.
        - `name` (str, default `dim_join_1`, ...): the versions of the dimension are stored under it.

        No state is kept. Each load is an immutable version; the version of a batch is stored before the batch is
        computed, and a repeated batch uses the same one. After a failed load the previous version stays in use and the
        run warns. The first load comes before the first batch: SourceReadError if it fails or gives no row, SchemaError
        if its rows do not fit the schema.

        >>> from rs_assets import Dimension, StreamBuilder
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> clicks = StreamBuilder.data_stream("shop", "tiers").from_array([{"user": "ann"}, {"user": "bob"}])
        >>> with TemporaryDirectory() as folder:
        ...     users = Dimension.from_file(f"{folder}/users.jsonl", schema="user string, tier string")
        ...     _ = Path(folder, "users.jsonl").write_text('{"user": "ann", "tier": "gold"}')
        ...     clicks.dim_join(users, on="user", how="left").preview()
        [{'user': 'ann', 'tier': 'gold'}, {'user': 'bob', 'tier': None}]
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
        """`dim_join(..., how="left")`: also rows without a match in the dimension.

        - `dimension`, `on` and `settings`: as for `dim_join`.

        >>> from rs_assets import Dimension, StreamBuilder
        >>> users = Dimension.from_file("/data/users.jsonl", schema="user string, tier string")
        >>> clicks = StreamBuilder.data_stream("docs", "tiers").from_array([{"user": "ann"}])
        >>> print(clicks.dim_left_join(users, on="user", name="tiers").to_print().build().describe())
        docs.tiers  fingerprint ...
          array  array_source  [1 rows]
          tiers  dim_join <- array  [left on user with json /data/users.jsonl]
          print  print_sink <- tiers
        """
        return self.dim_join(dimension, on=on, how="left", **settings)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError

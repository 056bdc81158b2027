"""Joins of a stream with a dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rs_assets.errors import TopologyError
from rs_assets.operators.dimension.keys import Containing, Network, Range
from rs_assets.operators.dimension.spec import Dimension
from rs_assets.operators.join.spec import pairs_of
from rs_assets.stream.join_stream import Keys
from rs_assets.topology.nodes.dim_join import DimJoin, DimJoinType
from rs_assets.topology.user_code.expression import native

if TYPE_CHECKING:
    from rs_assets.common.node import Node
    from rs_assets.stream.draft import Draft

LookupKeys = Keys | Mapping[str, str | Network | Range]


class DimJoinSteps:
    """The dimension joins of a stream; part of `DataStream`."""

    __slots__ = ()

    draft: Draft
    step: str

    def dim_join(
        self,
        dimension: Dimension,
        *,
        on: LookupKeys,
        how: DimJoinType = "inner",
        condition: object = None,
        prefix: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Join each row with the rows of `dimension` that match in `on`, as the dimension is when the batch begins.

        Typical uses: enrich events with users, products or rates. See docs/dimensions.md.

        - `dimension` (Dimension): a table, file or database query that is loaded into memory.
        - `on` (str, sequence of str, or dict from stream to dimension fields): the types must be equal, or both whole
          numbers. Null and empty text match nothing. Several matching rows give several rows. One value of a dict may
          be `Network(field)` or `Range(low, high)`: the network or interval that contains the stream's field.
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
        equal, within = _parted(on, step=step)
        node = DimJoin(
            name=step,
            inputs=(self.step,),
            dimension=dimension,
            on=equal,
            within=within,
            how=how,
            condition=native(condition, step=step) if condition is not None else None,
            prefix=prefix,
        )
        return self._then(node)

    def dim_left_join(self, dimension: Dimension, *, on: LookupKeys, **settings: Any) -> Self:
        """`dim_join(..., how="left")`: also rows without a match in the dimension.

        - `dimension`, `on` and `settings`: as for `dim_join`.

        >>> from rs_assets import Dimension, StreamBuilder
        >>> users = Dimension.from_file("/data/users.jsonl", schema="user string, tier string")
        >>> clicks = StreamBuilder.data_stream("docs", "tiers").from_array([{"user": "ann"}])
        >>> print(clicks.dim_left_join(users, on="user", name="tiers").to_print().build().describe())
        docs.tiers  fingerprint ...
          array  array_source  [1 row]
          tiers  dim_join <- array  [left on user with json /data/users.jsonl]
          print  print_sink <- tiers
        """
        return self.dim_join(dimension, on=on, how="left", **settings)

    def _then(self, node: Node) -> Self:
        raise NotImplementedError


def _parted(on: LookupKeys, *, step: str) -> tuple[tuple[tuple[str, str], ...], tuple[str, Containing] | None]:
    """The pairs of fields that must be equal, and the field that a key of the dimension must contain."""
    if not isinstance(on, Mapping) or all(isinstance(key, str) for key in on.values()):
        return pairs_of(on, step=step), None  # type: ignore[arg-type]
    within = [(field, key) for field, key in on.items() if isinstance(key, Network | Range)]
    if len(within) > 1:
        raise TopologyError(
            f"step {step!r} has {len(within)} keys that contain values",
            remedy="look one of them up in a step of its own, or compare it in condition=",
            step=step,
        )
    equal = {field: key for field, key in on.items() if not isinstance(key, Network | Range)}
    return (pairs_of(equal, step=step) if equal else ()), (within[0] if within else None)

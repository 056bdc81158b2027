"""Steps that look into the versions of a table."""

from __future__ import annotations

from dataclasses import dataclass

from rs_assets.common.node import Node
from rs_assets.operators.dimension.keys import Key
from rs_assets.operators.dimension.spec import Dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedTable(Node):
    """A step that uses one version of `dimension` a batch; the version is recorded before the batch is computed."""

    dimension: Dimension

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys by which rows of the dimension are found."""
        raise NotImplementedError

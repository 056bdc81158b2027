"""The number of state partitions that a rescale may change to, and its report."""

from __future__ import annotations

from dataclasses import dataclass

from rs_assets.errors import ConfigurationError
from rs_assets.topology.topology import Topology

# More partitions than this are a mistake: each is a RocksDB with its own files and memory.
MOST_PARTITIONS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleReport:
    """The report of a rescale; `state_rows` are by query, equal before and after.

    `waited_s` is for how many seconds a running stream processed nothing; None for a stopped pipeline.
    """

    pipeline: str
    before: int
    after: int
    state_rows: dict[str, int]
    seconds: float
    waited_s: float | None = None


def check_partitions(topology: Topology, partitions: int) -> None:
    """ConfigurationError for an invalid number of partitions, no state, and state that cannot be redistributed."""
    if not isinstance(partitions, int) or isinstance(partitions, bool) or not 1 <= partitions <= MOST_PARTITIONS:
        raise ConfigurationError(f"{partitions!r} is not a number of partitions", remedy=f"use 1 to {MOST_PARTITIONS}")
    if not any(node.stateful for node in topology):
        raise ConfigurationError(
            f"{topology.name} has no state, so there is nothing to rescale",
            remedy="set the parallelism of Spark instead: RS_SPARK_MASTER='local[4]'",
            pipeline=topology.name,
        )
    fixed = [node.name for node in topology if node.stateful and not node.rescalable]
    if fixed:
        raise ConfigurationError(
            f"the state of {', '.join(fixed)} cannot be redistributed over other partitions",
            remedy="begin a new generation with another number (--new-generation)",
            pipeline=topology.name,
        )

"""Guesses before a start whether a run has little to do, so that Java need not compile for speed; loads no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.connectors.files.unread import unread_sizes
from rs_assets.connectors.memory.nodes import ArraySource
from rs_assets.connectors.nodes import Source
from rs_assets.topology.nodes.versioned import VersionedTable
from rs_assets.topology.topology import Topology

# The input and the state of a small run. With the first compiler alone a run over 13 MB of text takes a third less
# processor time. Where the faster code of the second one begins to pay was not measured: the bound is on the safe side.
SMALL_BYTES = 32 << 20
SMALL_ROWS = 200_000
# A file costs time of its own, also to look at.
SMALL_FILES = 1_000
# A row of the program, roughly.
ROW_BYTES = 200


def seems_small(topology: Topology, home: Home, *, anew: bool = False) -> bool:
    """Whether a run that starts now will probably read little input into little state; raises nothing.

    `anew`: it reads all input again. False if there is a source whose input cannot be seen at once, or a dimension,
    which may be large.
    """
    if any(isinstance(node, VersionedTable) for node in topology):
        return False
    try:
        stored = manifests.load(home.job(topology.namespace, topology.job))
        known = None if anew else stored
        rows_open = sum(facts.rows_open for facts in known.queries.values()) if known is not None else 0
        return rows_open <= SMALL_ROWS and _is_little(_unread(topology, home, known))
    except Exception:  # noqa: BLE001  the start says what is wrong
        return False


def _is_little(sizes: Iterator[int]) -> bool:
    """Whether these are few files with few bytes; stops looking where they are not."""
    return all(n < SMALL_FILES and size <= SMALL_BYTES for n, size in enumerate(accumulate(sizes)))


def _unread(topology: Topology, home: Home, stored: Manifest | None) -> Iterator[int]:
    """The bytes of each piece of input that a query will read."""
    for plan in plan_queries(topology):
        log = _log(topology, home, stored, plan) if stored is not None else None
        for name in plan.sources:
            node = topology[name]
            assert isinstance(node, Source)  # plans name sources
            if not node.follows:
                yield from _of_source(node, SourceLog(log, name) if log is not None else None)


def _log(topology: Topology, home: Home, stored: Manifest, plan: QueryPlan) -> CheckpointLog | None:
    # It loads Arrow, which would keep the first run from starting Java at once.
    from rs_assets.runtime.identity import log_of

    return log_of(stored, plan, home.job(topology.namespace, topology.job))


def _of_source(node: Source, log: SourceLog | None) -> Iterator[int]:
    if isinstance(node, FileSource):
        yield from unread_sizes(node, log)
    else:
        yield len(node.rows) * ROW_BYTES if isinstance(node, ArraySource) else SMALL_BYTES + 1

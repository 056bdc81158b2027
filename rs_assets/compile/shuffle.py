"""Shuffles: inside a query, or through a table or topic between two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.home import Home
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.operators.shuffle.base import ShufflePlace
from rs_assets.operators.shuffle.memory import shuffle, with_pieces
from rs_assets.operators.shuffle.table import TableShuffle
from rs_assets.operators.shuffle.topic import TopicShuffle
from rs_assets.records.columns import check_fields, hidden
from rs_assets.topology.nodes.shuffle import Shuffle, ShuffleRead, ShuffleWrite

DurableShuffle = ShuffleWrite | ShuffleRead
# No namespace has this name: the other folders hold tables.
TOPICS = ".topics"


def compile_shuffle(_context: CompileContext, node: Shuffle, inputs: tuple[Flow, ...]) -> Flow:
    """Spark's exchange inside the query."""
    df = inputs[0].df
    check_fields(df, node.keys, step=node.name)
    return Flow(shuffle(with_pieces(df), node.partitions, node.keys))


def compile_shuffle_write(context: CompileContext, node: ShuffleWrite, inputs: tuple[Flow, ...]) -> Flow:
    """The rows without hidden columns; the table or topic is created when the query begins."""
    df = inputs[0].df
    check_fields(df, node.keys, step=node.name)
    rows = df.drop(*hidden(df.columns))
    place = place_of(node, context.home)
    place.check(rows.schema, step=node.name)
    if context.streaming:
        # Drop a cached schema: the table may have been read before anything was written.
        begun = CheckpointLog(context.folder / "checkpoint").begun or place.untouched(rows.schema)
        place.resume() if begun else place.begin(rows.schema)
    return Flow(rows)


def compile_shuffle_read(context: CompileContext, node: ShuffleRead, _inputs: tuple[Flow, ...]) -> Flow:
    """The rows of the table or topic, distributed as configured; a topic is distributed already."""
    frame = context.record_filter.filter_bad_records(
        context.read(context, node), step=node.name, policy=node.bad_records, counted=True
    )
    return Flow(frame if node.strategy == "kafka" else shuffle(frame, node.partitions, node.keys))


def _table(node: DurableShuffle, home: Home) -> ShufflePlace:
    # Outside of a run, which knows the folder, there is nothing yet.
    path = Path(node.folder) if node.folder else home.shuffles / node.place.replace(".", "/")
    return TableShuffle(name=node.place, path=path)


def _topic(node: DurableShuffle, home: Home) -> ShufflePlace:
    assert node.cluster is not None  # the node checked it
    noted = home.shuffles / TOPICS / f"{node.place}.json"
    return TopicShuffle(topic=node.place, cluster=node.cluster, partitions=node.partitions, noted=noted, keys=node.keys)


PLACES: Mapping[str, Callable[[DurableShuffle, Home], ShufflePlace]] = MappingProxyType(
    {"delta": _table, "kafka": _topic}
)


def place_of(node: DurableShuffle, home: Home) -> ShufflePlace:
    """The table or topic of a durable shuffle."""
    return PLACES[node.strategy](node, home)

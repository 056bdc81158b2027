"""Shuffles: the number of partitions and the fields that rows are distributed by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from rs_assets.common.node import NO_EFFECT, Family, Node, positive
from rs_assets.common.plural import count_of
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.errors import TopologyError

# `memory` is Spark's exchange inside a query; the durable ones connect two queries.
DurableStrategy = Literal["delta", "kafka"]
Strategy = Literal["memory"] | DurableStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(Node):
    """Spreads the rows over `partitions`, by the `keys` or evenly, by Spark's exchange inside the query."""

    family: ClassVar[Family] = "shuffle"

    partitions: int
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a partition count that is not a positive int."""
        Node.__post_init__(self)
        if not positive(self.partitions):
            raise TopologyError(f"step {self.name!r}: a shuffle needs a positive number of partitions")

    def detail(self) -> str:
        """Partitions and keys."""
        return count_of(self.partitions, "partition") + (f" by {', '.join(self.keys)}" if self.keys else "")

    def identity(self) -> tuple[str, ...]:
        """The partition of a row changes no result."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleWrite(Sink):
    """The writing half of a durable shuffle: ends a query, whose rows go to `place`.

    `delta` is a table, `kafka` a topic of `cluster`. The place is named by namespace, job and step; a run appends the
    id of the pipeline to the name of a topic, and sets the `folder` of a table, next to the checkpoint of the query.
    """

    family: ClassVar[Family] = "shuffle"
    at_once: ClassVar[bool] = True

    place: str = field(metadata=NO_EFFECT)
    strategy: DurableStrategy
    partitions: int
    keys: tuple[str, ...] = ()
    cluster: KafkaCluster | None = None
    folder: str = field(default="", metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        """Refuse a partition count that is not a positive int, and a topic without brokers."""
        Sink.__post_init__(self)
        if not positive(self.partitions):
            raise TopologyError(f"step {self.name!r}: a shuffle needs a positive number of partitions")
        if (self.strategy == "kafka") != (self.cluster is not None):
            raise TopologyError(
                f"step {self.name!r}: the strategy 'kafka' needs bootstrap_servers, and only it",
                remedy="shuffle(4, strategy='kafka', bootstrap_servers='localhost:9092')",
            )

    def detail(self) -> str:
        """Strategy, partitions and keys."""
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        return f"to {self.strategy}, {count_of(self.partitions, 'partition')}{by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleRead(Source):
    """The reading half of a durable shuffle: begins a query with the rows that the step `after` has written."""

    family: ClassVar[Family] = "shuffle"

    after: str
    place: str = field(metadata=NO_EFFECT)
    strategy: DurableStrategy
    partitions: int
    keys: tuple[str, ...] = ()
    cluster: KafkaCluster | None = None
    folder: str = field(default="", metadata=NO_EFFECT)

    @property
    def follows(self) -> tuple[str, ...]:
        """The step that writes the rows read here."""
        return (self.after,)

    @property
    def bounded(self) -> bool:
        """It ends when the sources of the pipeline do."""
        return True

    def detail(self) -> str:
        """Where from."""
        return f"from {self.strategy}"

    def identity(self) -> tuple[str, ...]:
        """State does not depend on how the rows arrive."""
        return ()

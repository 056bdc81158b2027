"""The origins of Nexmark's events: the files of the generator, or topics of Kafka with the same lines."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipelines.nexmark.schemas import SCHEMAS, SIDE, SIDE_INPUT, Kind
from rs_assets import Dimension, KafkaCluster, Time
from rs_assets.common.home import Home

if TYPE_CHECKING:
    from rs_assets.stream.builder import DataStreamSource
    from rs_assets.stream.data_stream import DataStream

# How far events may be out of order, as in the benchmark.
WATER_MARK = Time.seconds(4)
# Twice the time in which a hundred auctions begin, at a thousand events a second, and some more.
LONGEST_AUCTION = Time.seconds(4)


class Origin(Protocol):
    """An origin of the events of each kind, and of the file that q13 looks up."""

    @property
    def side_input(self) -> Path:
        """The file: CSV with a header."""
        ...

    def read(self, begin: DataStreamSource, kind: Kind, name: str) -> DataStream:
        """The events of one kind, as the source `name` of a pipeline."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files below `folder`, with the side input in it.

    A batch reads at most `files_per_batch` of each kind (None: all there are).
    """

    folder: Path
    files_per_batch: int | None = None

    @property
    def side_input(self) -> Path:
        """The file in `folder`."""
        return self.folder / SIDE_INPUT

    def read(self, begin: DataStreamSource, kind: Kind, name: str) -> DataStream:
        """The events of one kind."""
        return begin.from_file(
            self.folder / kind, schema=SCHEMAS[kind], max_files_per_batch=self.files_per_batch, name=name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """A topic of each kind, filled by `python -m pipelines.nexmark.topics`; `side_input` is a file of the generator."""

    cluster: KafkaCluster | str
    side_input: Path

    def read(self, begin: DataStreamSource, kind: Kind, name: str) -> DataStream:
        """The events of one kind."""
        return begin.from_kafka(self.cluster, topic(kind), schema=SCHEMAS[kind], name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The events of one pipeline, each kind a stream.

    No auction is open for longer than `longest_auction`: winners are sought for that long.
    """

    begin: DataStreamSource
    origin: Origin
    longest_auction: timedelta = LONGEST_AUCTION

    def persons(self) -> DataStream:
        """Sellers and bidders."""
        return self.origin.read(self.begin, "persons", "persons")

    def auctions(self) -> DataStream:
        """Items for sale, with the start and the end of the auction."""
        return self.origin.read(self.begin, "auctions", "auctions")

    def bids(self, name: str = "bids") -> DataStream:
        """Bids; a pipeline that reads them twice gives the second source a different name."""
        return self.origin.read(self.begin, "bids", name)

    def side_input(self) -> Dimension:
        """The side input of q13, as it is when a batch begins."""
        return Dimension.from_file(self.origin.side_input, format="csv", schema=SIDE)


def topic(kind: Kind) -> str:
    """The topic of one kind of events."""
    return f"nexmark-{kind}"


def default_servers() -> str:
    """The brokers to use."""
    return os.environ.get("RS_KAFKA") or "localhost:9092"


def default_folder() -> Path:
    """The generator's folder: the one that RS_NEXMARK names, else `input/nexmark` in RS_HOME."""
    return Path(os.environ.get("RS_NEXMARK") or Home.default().root / "input" / "nexmark")


def default_origin() -> Origin:
    """The files of the generator, or with NEXMARK_SOURCE=kafka the topics of the brokers in RS_KAFKA."""
    if os.environ.get("NEXMARK_SOURCE") == "kafka":
        return Topics(cluster=default_servers(), side_input=default_folder() / SIDE_INPUT)
    return Files(folder=default_folder())

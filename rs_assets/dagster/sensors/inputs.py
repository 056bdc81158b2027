"""The current ends of a pipeline's sources, by split, also while nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from rs_assets.common.home import Home
from rs_assets.compile.readers import reader_of
from rs_assets.connectors.nodes import Source
from rs_assets.connectors.source import Ends, Inspectable, Lagging, Rewritable
from rs_assets.topology.topology import Topology

# A tick has a minute in all: brokers that do not answer are asked again at the next tick.
PATIENCE = timedelta(seconds=5)


def watched(topology: Topology) -> Sequence[Source]:
    """The sources whose splits can change or grow."""
    return [s for s in topology.sources if not s.bounded and isinstance(reader_of(s), Inspectable)]


def lasting(topology: Topology) -> Sequence[Source]:
    """Those of `watched` whose splits last, such as partitions and followed files; not folders of whole files.

    A whole file is read once: a new one is new input, and says nothing of how the input is spread.
    """
    return [source for source in watched(topology) if isinstance(reader_of(source), Lagging)]


def ends_of(sources: Sequence[Source], home: Home | None = None) -> dict[str, Ends]:
    """The splits of each source with their ends; SourceReadError if a broker does not answer.

    `home` has the tables that are given by name (None: the default home).
    """
    readers = [reader_of(source, home) for source in sources]
    return {reader.name: reader.ends(PATIENCE) for reader in readers if isinstance(reader, Inspectable)}


def states_of(sources: Sequence[Source], home: Home | None = None) -> dict[str, Mapping[str, object]]:
    """As `ends_of`; of splits that may have become others with the same ends what distinguishes them, too."""
    readers = [reader_of(source, home) for source in sources]
    return {
        reader.name: reader.states() if isinstance(reader, Rewritable) else reader.ends(PATIENCE)
        for reader in readers
        if isinstance(reader, Inspectable)
    }

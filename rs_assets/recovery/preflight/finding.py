"""What a look at a checkpoint found, and what it was told to expect there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rs_assets.connectors.sink import SinkChange

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with a checkpoint.

    `code` names the kind of fault (K1 to K20, "sources", "leftover"); `file` is the file or folder at fault; `meaning`
    says what would go wrong; `remedy` what to do; `repair` names the repair that mends it, None if nothing
    can mend it without loss.
    """

    code: str
    severity: Severity
    file: Path
    meaning: str
    remedy: str
    repair: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the pipeline knows about a query's checkpoint without looking into it.

    `sources` are the names that its offset log should have, `rs_control` among them for a window; `stateful` says that
    it keeps state, in `operators` steps and `partitions` partitions (0: not known yet); `query_id` is the id of its
    metadata file as it was recorded, None if it never was; `sinks` maps each sink to the last batch of this pipeline
    and `generation` that its own marker remembers, -1 for none; `sinks_seen` to the last batch that we noted down for
    it, -1 or absent for none; `sinks_changed` to what others did to its rows since. What `sinks_staying` hold is not
    replaced by a new generation.
    """

    query: str
    sources: tuple[str, ...]
    stateful: bool
    partitions: int
    query_id: str | None
    sinks: Mapping[str, int]
    generation: int
    operators: int = 1
    sinks_seen: Mapping[str, int] = field(default_factory=dict)
    sinks_changed: Mapping[str, Sequence[SinkChange]] = field(default_factory=dict)
    sinks_staying: frozenset[str] = frozenset()

    @property
    def furthest(self) -> int:
        """The last batch that any sink remembers, -1 for none.

        >>> Expected(
        ...     query="q", sources=(), stateful=False, partitions=0, query_id=None, sinks={"a": 3, "b": 7}, generation=1
        ... ).furthest
        7
        """
        return max(self.sinks.values(), default=-1)

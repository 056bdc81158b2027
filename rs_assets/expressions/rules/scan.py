"""All patterns of one field, looked for at once in each distinct text of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from rs_assets.expressions.rules.atoms import View
from rs_assets.expressions.rules.batch import Ints
from rs_assets.expressions.rules.portable import Portable

# Texts whose findings are remembered from batch to batch, and the share of known ones, in a batch of at least SAMPLE
# texts, below which nothing is.
REMEMBERED, WORTH, SAMPLE = 50_000, 0.3, 500


@functools.cache
def hyperscan() -> ModuleType | None:
    """Hyperscan, None where it is not installed."""
    try:
        import hyperscan as found
    except ImportError:
        return None
    return found


@dataclass(frozen=True, slots=True)
class Database:
    """The patterns that Hyperscan takes, serialised, and the numbers of the `slow` ones, which Python looks for."""

    stored: bytes | None
    slow: tuple[int, ...]


def database_of(patterns: Sequence[Portable]) -> Database:
    """One database of all patterns; without Hyperscan all are slow."""
    found = hyperscan()
    if found is None or not patterns:
        return Database(None, tuple(range(len(patterns))))
    every = range(len(patterns))
    try:
        return Database(found.dumpb(_compiled(found, patterns, every)), ())
    except found.HyperscanError:
        slow = tuple(_refused(found, patterns, every))
    taken = sorted({*every} - {*slow})
    return Database(found.dumpb(_compiled(found, patterns, taken)) if taken else None, slow)


def _compiled(module: Any, patterns: Sequence[Portable], numbers: Sequence[int]) -> Any:
    plain = module.HS_FLAG_SINGLEMATCH | module.HS_FLAG_DOTALL | module.HS_FLAG_UTF8 | module.HS_FLAG_ALLOWEMPTY
    made = module.Database(mode=module.HS_MODE_BLOCK)
    made.compile(
        expressions=[patterns[number].scan.encode() for number in numbers],
        ids=list(numbers),
        flags=[plain | (module.HS_FLAG_CASELESS if patterns[number].caseless else 0) for number in numbers],
    )
    return made


def _refused(module: Any, patterns: Sequence[Portable], numbers: Sequence[int]) -> list[int]:
    """Those that Hyperscan does not take, found by halving."""
    if not numbers:
        return []
    try:
        _compiled(module, patterns, numbers)
    except module.HyperscanError:
        half = len(numbers) // 2
        if not half:
            return list(numbers)
        return [*_refused(module, patterns, numbers[:half]), *_refused(module, patterns, numbers[half:])]
    return []


@dataclass(slots=True)
class Scan:
    """The patterns of a view. In a worker it opens its database at the first use; one thread uses it."""

    view: View
    patterns: tuple[Portable, ...]
    database: Database
    _scan: Callable[..., Any] | None = None
    _scratch: Any = None
    _known: dict[str, tuple[int, ...]] | None = field(default_factory=dict)
    _certain: list[bool] | None = None
    _python: dict[int, Any] = field(default_factory=dict)

    def __getstate__(self) -> tuple[View, tuple[Portable, ...], Database]:
        return self.view, self.patterns, self.database

    def __setstate__(self, state: tuple[View, tuple[Portable, ...], Database]) -> None:
        self.view, self.patterns, self.database = state
        self._scan = self._scratch = None
        self._known, self._certain, self._python = {}, None, {}

    def hits(self, distinct: pa.Array) -> tuple[Ints, Ints]:
        """Pairs of a text's number and a pattern that may be in it."""
        texts = distinct.to_pylist()
        known = self._known
        if known is None:
            return self._found(texts)
        new = [number for number, text in enumerate(texts) if text not in known]
        places, found = self._found([texts[number] for number in new])
        ends = np.searchsorted(places, np.arange(len(new) + 1)).tolist()
        numbers = found.tolist()
        for place, number in enumerate(new):
            known[texts[number]] = tuple(numbers[ends[place] : ends[place + 1]])
        each = [known[text] for text in texts]
        self._forget(len(texts), len(new))
        counts = np.fromiter(map(len, each), np.int64, len(each))
        flat = np.fromiter((number for some in each for number in some), np.int64, int(counts.sum()))
        return np.repeat(np.arange(len(each)), counts), flat

    def _forget(self, texts: int, new: int) -> None:
        """Remember nothing any more if texts do not repeat from batch to batch, and not too much otherwise."""
        assert self._known is not None  # asked before
        if texts >= SAMPLE and len(self._known) > new and texts - new < WORTH * texts:
            self._known = None
        elif len(self._known) > REMEMBERED:
            self._known = {}

    def _found(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """The same without what is remembered, in the order of the texts."""
        places: list[int] = []
        numbers: list[int] = []
        at = 0

        def met(number: int, *_: object) -> None:
            places.append(at)
            numbers.append(number)

        slow = [(number, self.pattern(number).search) for number in self.database.slow]
        if self.database.stored is not None and self._scan is None:
            self._open()
        scan, scratch = self._scan, self._scratch
        for at, text in enumerate(texts):  # noqa: B007  met reads it
            if scan is not None:
                scan(text.encode(), match_event_handler=met, scratch=scratch)
            for number, search in slow:
                if search(text):
                    met(number)
        return np.array(places, np.int64), np.array(numbers, np.int64)

    def _open(self) -> None:
        found = hyperscan()
        assert found is not None  # the database was made by it
        opened = found.loadb(self.database.stored, mode=found.HS_MODE_BLOCK)
        self._scratch = found.Scratch(opened)
        self._scan = opened.scan

    def holds(self, number: int, text: str) -> bool:
        """Whether a pattern that may be in a text is."""
        if self._certain is None:
            self._certain = [each.certain for each in self.patterns]
        return self._certain[number] or self.pattern(number).search(text) is not None

    def pattern(self, number: int) -> Any:
        """The pattern for Python."""
        found = self._python.get(number)
        if found is None:
            found = self._python[number] = self.patterns[number].compiled()
        return found

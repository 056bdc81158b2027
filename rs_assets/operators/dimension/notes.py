"""The dimension versions that each batch of a query uses: recorded on disk before a batch is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from rs_assets.common.files import write_atomically
from rs_assets.errors import CheckpointError

FILE = "dimensions.json"
# Versions by the name of the lookup step.
Versions = Mapping[str, str]


@dataclass(slots=True)
class DimensionNotes:
    """The records of the query in `folder`; an entry holds from its batch on, until the next one.

    Batches up to `again` are computed a second time, because the query was rolled back: they use their former versions,
    over their former rows: `plans` has the end of each source, by its stored name, in each of them.
    """

    folder: Path
    again: int = -1
    plans: dict[int, dict[str, str]] = field(default_factory=dict)
    _entries: dict[int, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> DimensionNotes:
        """The records in a query's folder, empty if there are none; CheckpointError if the file is damaged."""
        path = folder / FILE
        if not path.exists():
            return cls(folder)
        try:
            stored = orjson.loads(path.read_bytes())
            entries = {int(batch): {str(k): str(v) for k, v in noted.items()} for batch, noted in stored["entries"]}
            plans = {int(batch): dict(ends) for batch, ends in stored.get("plans", ())}
            return cls(folder, int(stored["again"]), plans, entries)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                "the record of the dimension versions that each batch used is damaged",
                remedy="restore the file from a copy; without it a batch that was cut short might change",
                file=path,
            ) from error

    def of(self, batch_id: int) -> Versions:
        """The versions in use at a batch, {} if none are recorded."""
        found = max((batch for batch in self._entries if batch <= batch_id), default=None)
        return {} if found is None else self._entries[found]

    def begun(self, batch_id: int) -> Versions:
        """The versions that came into use with exactly this batch."""
        before, now = self.of(batch_id - 1), self.of(batch_id)
        return {step: name for step, name in now.items() if before.get(step) != name}

    @property
    def named(self) -> frozenset[str]:
        """All versions that some batch may use, of all steps."""
        return frozenset(name for noted in self._entries.values() for name in noted.values())

    @property
    def steps(self) -> frozenset[str]:
        """The steps whose versions some batch may use."""
        return frozenset(step for noted in self._entries.values() for step in noted)

    def note(self, batch_id: int, versions: Versions, *, first: int = 0) -> None:
        """Record the versions of a batch and later ones; entries that only batches before `first` need are dropped.

        Batches that are still to be computed a second time keep theirs.
        """
        base = max((batch for batch in self._entries if batch <= first), default=-1)
        kept = {batch: noted for batch, noted in self._entries.items() if base <= batch < batch_id}
        again = {batch: noted for batch, noted in self._entries.items() if batch_id < batch <= self.again}
        self._entries = {**kept, batch_id: dict(versions), **again}
        self.save()

    def end_repeating(self) -> None:
        """From now on no batch is computed a second time."""
        self.again, self.plans = -1, {}
        self.save()

    def save(self) -> None:
        """Make the records durable."""
        stored = {"again": self.again, "entries": sorted(self._entries.items()), "plans": sorted(self.plans.items())}
        data = orjson.dumps(stored)
        write_atomically(self.folder / FILE, data)


def notes_of(job: Path) -> tuple[DimensionNotes, ...]:
    """The records of all queries, and of all generations, in the folder of a job; CheckpointError for damaged ones."""
    return tuple(DimensionNotes.load(path.parent) for path in job.glob(f"g*/*/{FILE}"))


def repeat(folder: Path, plans: Mapping[int, Mapping[str, str]]) -> None:
    """Let the query in `folder` use the former versions for the batches of `plans`, over their former rows."""
    if (folder / FILE).exists():
        notes = DimensionNotes.load(folder)
        # An earlier rollback may have left batches to be computed again.
        notes.plans |= {batch: dict(ends) for batch, ends in plans.items()}
        notes.again = max(notes.plans, default=-1)
        # The copy of a query may share its files with the original.
        (folder / FILE).unlink()
        notes.save()


def forget_repeating(folder: Path) -> None:
    """Let the query in `folder` read new input: the input of its earlier batches has been written again."""
    if (folder / FILE).exists():
        DimensionNotes.load(folder).end_repeating()

"""What was forgotten, place by place: what there was, what a scan found afterwards, and what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from rs_assets.common.plural import count_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a place has of the keys at one moment.

    `rows` are there now, `more` is what else names the keys: rows in files of earlier versions, entries of a log, whole
    savepoints. `said` says of what these are. `version` is that of a table.
    """

    rows: int = 0
    more: int = 0
    said: str = ""
    version: int | None = None


class Place(Protocol):
    """A place that may have rows of the keys."""

    @property
    def place(self) -> str:
        """Its kind: output, state, savepoints ..."""
        ...

    @property
    def name(self) -> str:
        """Its name, of the step or the table."""
        ...

    def check(self) -> None:
        """RsError if its rows cannot be removed; called for all places before the first of them changes."""
        ...

    def found(self) -> Finding:
        """A scan of it; nothing is changed."""
        ...

    def erase(self) -> None:
        """Remove what `found` finds; may be called again after a crash at any point."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenPlace:
    """A place: `rows` and `more` before, `left` of both afterwards (None with `plan`), and what there is to say.

    `ours` is false for a place that is not erased: a source, a system that has got rows. Then `said` says what to do.
    """

    place: str
    name: str
    rows: int = 0
    more: int = 0
    left: int | None = None
    said: str = ""
    version: int | None = None
    ours: bool = True

    def __str__(self) -> str:
        """In one line."""
        where = f"{self.place} {self.name}".strip()
        if not self.ours:
            return f"{where}: {self.said}"
        after = "" if self.left is None else f"; {self.left:,} left"
        version = f" in version {self.version}" if self.version is not None else ""
        return f"{where}: {self.said or 'nothing'}{after}{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What became of the keys in each place. `entry` is the number of the proof in the ledger, None with `plan`."""

    pipeline: str
    keys: int
    places: tuple[ForgottenPlace, ...]
    entry: int | None = None

    @property
    def complete(self) -> bool:
        """Whether a scan of all places that were erased has found nothing; False with `plan`."""
        return self.entry is not None and all(each.left == 0 for each in self.places if each.ours)

    @property
    def elsewhere(self) -> tuple[ForgottenPlace, ...]:
        """The places that have rows of the keys, or may have some, and that are not erased."""
        return tuple(each for each in self.places if not each.ours)

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {**asdict(self), "complete": self.complete}

    def __str__(self) -> str:
        """A line for each place, and one for the proof."""
        mine = [f"  {each}" for each in self.places if each.ours and (each.rows or each.more or each.left)]
        others = [f"  {each}" for each in self.elsewhere]
        keys = count_of(self.keys, "key")
        searched = f"{sum(each.ours for each in self.places):,} places were searched"
        done = f"{self.pipeline}: {keys} {'would be forgotten' if self.entry is None else 'forgotten'}; {searched}"
        left = sum(each.left or 0 for each in self.places)
        proof = (
            [] if self.entry is None else [f"found by a scan afterwards: {left:,}; entry {self.entry} of the ledger"]
        )
        return "\n".join(
            [done, *(mine or ["  nothing was found"]), *(["not erased:", *others] if others else []), *proof]
        )


def as_entry(places: tuple[ForgottenPlace, ...]) -> list[Mapping[str, Any]]:
    """The places for the ledger."""
    return [{name: value for name, value in asdict(each).items() if value is not None} for each in places]

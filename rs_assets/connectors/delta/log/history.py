"""Interprets the history of a Delta table: which version holds exactly the rows as of a checkpoint.

Each of our commits names its generation and batch. Each return (a rewind or a restore) names the generation that it
began, and the generation and batch that it went back to. So the table itself stores the lineage of generations. This
module works on entries of a history and opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rs_assets.connectors.delta.log.commit_info import (
    BACKFILLED,
    BACKFILLED_BATCH,
    FENCED,
    FORGOTTEN,
    FORGOTTEN_BATCH,
    REDRIVEN,
    REDRIVEN_BATCH,
    REWOUND,
    WRITER,
    noted,
)
from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark

# The version that means "no rows".
NO_ROWS = -1
# Operations that do not change rows.
HARMLESS = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "ADD COLUMN",
        "ADD COLUMNS",
        "CHANGE COLUMN",
        "ADD FEATURE",
        "UPGRADE PROTOCOL",
        "COMPUTE STATS",
        "UPDATE FIELD METADATA",
        "UPDATE TABLE METADATA",
    }
)
REMOVALS = frozenset({"DELETE", "TRUNCATE"})
# Operations after which no earlier row is left, or may be left.
REPLACEMENTS = ("REPLACE TABLE", "CREATE OR REPLACE", "CLONE", "FSCK", "DROP COLUMNS", "REPLACE COLUMNS")
NO_PREDICATE = frozenset({"", "[]", "true", "[true]", '["true"]'})

_OWN = frozenset({"batch", "return", "backfill", "redrive", "forget"})

Kind = Literal[
    "batch", "return", "backfill", "redrive", "forget", "restore", "added", "edited", "removed", "wiped", "harmless"
]

# Changes between two batches: where each names its writer, and the last batch before it, or of which it has rows.
KEPT: tuple[tuple[Kind, str, str], ...] = (
    ("backfill", BACKFILLED, BACKFILLED_BATCH),
    ("redrive", REDRIVEN, REDRIVEN_BATCH),
    ("forget", FORGOTTEN, FORGOTTEN_BATCH),
)


@dataclass(frozen=True, slots=True)
class Change:
    """One version of the table, from the point of view of the sink of one pipeline.

    `batch`, `return`, `backfill`, `redrive` and `forget` are this sink's own, the first two at `point`; a return also
    has the point that was `kept`, a backfill that of the last batch of which it has rows, a redrive and a removal of
    forgotten keys that of the last batch before it. `source` is the version whose rows a return or a
    restore took, NO_ROWS for none, None if the entry does not say. Changes of other
    writers are `restore`, `added` (rows), `edited` (rows of any writer), `removed` (some rows) and `wiped` (all earlier
    rows); `rows` says whether they brought their own rows. `replaces`: a batch replaced all earlier rows. `accepts`:
    the batch has no rows and a user accepted the table as it was for that batch.
    """

    version: int
    kind: Kind
    what: str
    point: Point | None = None
    kept: Point | None = None
    source: int | None = None
    replaces: bool = False
    accepts: bool = False
    rows: bool = False

    @property
    def is_own(self) -> bool:
        """Whether it is of this sink."""
        return self.kind in _OWN


def change_of(entry: Mapping[str, Any], mark: BatchMark) -> Change:
    """The change described by an entry of a history, from the point of view of the sink of `mark`."""
    version, operation = int(entry["version"]), str(entry.get("operation", "an unknown operation"))
    parameters: Mapping[str, Any] = entry.get("operationParameters") or {}
    metadata = noted(entry)
    begun = _point(metadata.get(REWOUND), metadata.get("rs.rewound_to"), mark)
    if begun is not None:
        kept = _point(metadata.get("rs.rewound_from"), metadata.get("rs.rewound_to"), mark)
        source = _source_of_return(version, operation, parameters)
        return Change(version, "return", operation, point=begun, kept=kept, source=source)
    point = _point(metadata.get("rs.writer"), metadata.get("rs.batch_id"), mark)
    if point is not None:
        accepts = "rs.accepted" in metadata
        return Change(version, "batch", operation, point=point, replaces=_overwrites(parameters), accepts=accepts)
    for kind, writer, last in KEPT:
        kept = _point(metadata.get(writer), metadata.get(last), mark)
        if kept is not None:
            return Change(version, kind, operation, kept=kept)
    if FORGOTTEN in metadata:
        return Change(version, "removed", "a removal of forgotten keys")
    return _of_others(version, operation, parameters, no_rows=REWOUND in metadata or FENCED in metadata)


def _of_others(version: int, operation: str, parameters: Mapping[str, Any], *, no_rows: bool) -> Change:
    if operation in HARMLESS or (no_rows and operation == "WRITE" and not _overwrites(parameters)):
        return Change(version, "harmless", operation)
    if operation == "RESTORE":
        return Change(version, "restore", operation, source=_number(parameters.get("version")))
    if operation in REMOVALS:
        whole = _predicate(parameters) in NO_PREDICATE
        return Change(version, "wiped" if whole else "removed", operation)
    if operation.startswith(REPLACEMENTS) or (_overwrites(parameters) and _predicate(parameters) in NO_PREDICATE):
        return Change(version, "wiped", operation, rows=True)
    edits = operation in {"UPDATE", "MERGE"} or _overwrites(parameters)
    return Change(version, "edited" if edits else "added", operation, rows=True)


class Others(NamedTuple):
    """The versions in which other writers brought rows: the newest one, and the earlier ones."""

    version: int
    before: Others | None

    def versions(self) -> set[int]:
        """All of them."""
        found: set[int] = set()
        node: Others | None = self
        while node is not None:
            found.add(node.version)
            node = node.before
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """The rows of a version.

    `made_by` is the version that wrote them. `ours` is the newest change of this sink in them, NO_ROWS if none.
    `others` are the versions of other writers whose rows are in them (rows from before the oldest known version count
    as that version). `damage` says why they do not match any checkpoint, "" if they do.
    """

    made_by: int
    ours: int = NO_ROWS
    others: Others | None = None
    damage: str = ""

    def strangers(self) -> set[int]:
        """The versions of `others`."""
        return self.others.versions() if self.others is not None else set()


EMPTY = Content(NO_ROWS)


class CannotReturn(Exception):
    """No known version holds the requested rows; `older` says that older entries of the history may help."""

    def __init__(self, what: str, remedy: str, *, older: bool = False) -> None:
        super().__init__(what)
        self.what, self.remedy, self.older = what, remedy, older


class History:
    """A contiguous part of a table's history, up to the newest version, as one sink sees it."""

    def __init__(self, entries: Iterable[Mapping[str, Any]], mark: BatchMark) -> None:
        """Take the entries in any order; ValueError if they have a gap, or are empty."""
        self.changes = sorted((change_of(entry, mark) for entry in entries), key=lambda change: change.version)
        self.contents: dict[int, Content] = {}
        if not self.changes or self.newest - self.oldest + 1 != len(self.changes):
            raise ValueError("a history with a gap")
        # The last version of each generation: its next change must follow it.
        left: dict[int, int] = {}
        for change in self.changes:
            self.contents[change.version] = self._after(change, left)
            if change.is_own:
                left[_generation(change)] = change.version

    @property
    def oldest(self) -> int:
        """The oldest version that is known."""
        return self.changes[0].version

    @property
    def newest(self) -> int:
        """The newest version of the table."""
        return self.changes[-1].version

    @property
    def last_own(self) -> Change | None:
        """The newest batch or return of this sink, None if there is none."""
        return next((change for change in reversed(self.changes) if change.point is not None), None)

    @property
    def last_change(self) -> Change | None:
        """The newest batch, return, backfill, redrive or removal of keys of this sink, None if there is none."""
        return next((change for change in reversed(self.changes) if change.is_own), None)

    def last_batch(self, generation: int) -> int:
        """The last batch of `generation` that is known to have been in the table, -1 for none."""
        points = [change.point for change in self.changes if change.point is not None]
        return max((point.batch for point in points if point.generation == generation), default=-1)

    def version_for(self, kept: Point) -> int:
        """The version with exactly the rows that the table had at the end of `kept`, NO_ROWS if it had none.

        CannotReturn if there is no such version, or if rows of other writers would be lost.
        """
        version = self._version_of(kept)
        now, then = self.contents[self.newest], self.contents.get(version, EMPTY)
        if then.damage:
            raise CannotReturn(
                f"the rows of batch {kept.batch} are no longer known: {then.damage}",
                "restore the table by hand, or begin a new generation (--new-generation)",
                older=self.oldest > 0,
            )
        strangers = sorted(now.strangers() - then.strangers())
        if strangers:
            raise self._strange(strangers[-1], kept)
        return version

    def same(self, version: int) -> bool:
        """Whether the newest version already has the rows of `version`."""
        return self.contents.get(version, EMPTY).made_by == self.contents[self.newest].made_by

    def alike(self, version: int) -> Sequence[int]:
        """The versions with exactly the rows of `version`: first that one, then the others from old to new."""
        made_by = self.contents.get(version, EMPTY).made_by
        others = (v for v, content in self.contents.items() if v != version and content.made_by == made_by)
        return (version, *others)

    def _version_of(self, kept: Point) -> int:
        begun = next(
            (c for c in reversed(self.changes) if c.kind == "return" and _generation(c) == kept.generation), None
        )
        if begun is not None and begun.point is not None and kept.batch < begun.point.batch:
            if begun.kept is None:
                raise CannotReturn(
                    f"the table's history does not say how generation {kept.generation} began",
                    f"go back to batch {begun.point.batch} or later, or begin a new generation (--new-generation)",
                )
            return self._version_of(Point(begun.kept.generation, kept.batch))
        # Forgotten keys are in none of the versions before their removal that can be read, whatever they are called.
        ends = ((c, c.point if c.kind == "batch" else c.kept if c.kind == "forget" else None) for c in self.changes)
        own = [change.version for change, point in ends if point is not None and _reached(point, kept)]
        if own:
            return self._backfilled(own[-1], kept)
        return self._backfilled(begun.version, kept) if begun is not None else self._start_of(kept)

    def _backfilled(self, version: int, kept: Point) -> int:
        """The last backfill or redrive after a batch and before the next one, if none has rows of batches after `kept`.

        A redrive is taken whatever others did before it: its dead letters count as redriven as long as its batch does.
        """
        last = version
        for change in self.changes[version - self.oldest + 1 :]:
            if change.point is not None:
                break
            unchanged = self.contents[change.version - 1].made_by == self.contents[last].made_by
            takes = change.kind == "redrive" or (change.kind == "backfill" and unchanged)
            if takes and change.kept is not None and _reached(change.kept, kept):
                last = change.version
        return last

    def _start_of(self, kept: Point) -> int:
        """The version before the first batch of a generation that began empty."""
        if self.oldest > 0:
            raise CannotReturn(
                f"the history of the table only reaches back to version {self.oldest},"
                f" and batch {kept.batch} of generation {kept.generation} is older",
                self._reachable(),
                older=True,
            )
        own = [change for change in self.changes if change.point is not None]
        if not own:
            return self.newest
        later = [change.version for change in own if _generation(change) >= kept.generation]
        # A generation that begins from scratch replaces the rows of earlier ones.
        return later[0] - 1 if len(later) == len(own) else NO_ROWS

    def _reachable(self) -> str:
        first = next((change.point for change in self.changes if change.point is not None), None)
        afresh = "begin a new generation (--new-generation)"
        if first is None:
            return afresh
        return f"go back to batch {first.batch} of generation {first.generation} or later, or {afresh}"

    def _strange(self, version: int, kept: Point) -> CannotReturn:
        if version < self.oldest:
            what = f"rows that other writers wrote up to version {version} may be lost"
            return CannotReturn(what, self._reachable(), older=True)
        return CannotReturn(
            f"another writer wrote version {version} of the table after batch {kept.batch}",
            "restore the table by hand, or give each pipeline a table of its own",
        )

    def _after(self, change: Change, left: Mapping[int, int]) -> Content:
        """The rows after `change`; `left` maps each generation to the last version that it wrote."""
        before = self.contents.get(change.version - 1) or self._of_version(change.version - 1)
        version = change.version
        if change.kind == "harmless":
            return before
        if change.is_own and change.kind != "return":
            return self._after_own(change, before, left)
        if change.kind == "return":
            return replace(self._of_version(change.source), ours=version)
        if change.kind == "restore":
            return self._of_version(change.source)
        if change.kind == "wiped":
            # A writer that emptied the table before our first batch removed no rows of ours.
            damage = _described(change) if before.ours != NO_ROWS or before.damage else ""
            return Content(version, others=Others(version, None) if change.rows else None, damage=damage)
        return replace(before, made_by=version, others=Others(version, before.others) if change.rows else before.others)

    def _after_own(self, change: Change, before: Content, left: Mapping[int, int]) -> Content:
        """The rows after a batch, a backfill, a redrive or a removal of keys."""
        if change.replaces:
            return Content(change.version, ours=change.version)
        if change.accepts:
            return replace(before, ours=change.version, damage="")
        stood = left.get(_generation(change))
        damage = before.damage
        if not damage and stood is not None and before.ours != stood:
            damage = f"another writer changed the table between its versions {stood} and {change.version}"
        return Content(change.version, ours=change.version, others=before.others, damage=damage)

    def _of_version(self, version: int | None) -> Content:
        if version is None:
            return Content(NO_ROWS - 1, damage="a RESTORE does not say to which version")
        if version < 0:
            return EMPTY
        known = self.contents.get(version)
        # For a version that is no longer in the history the rows of other writers are unknown.
        return known or Content(version, ours=version, others=Others(version, None))


def _described(change: Change) -> str:
    return f"{change.what} by another writer in version {change.version}"


def _generation(change: Change) -> int:
    """That in which a change of this sink was made, 0 for those of others."""
    # A return has both: it begins the generation of its point.
    at = change.point or change.kept
    return at.generation if at is not None else 0


def _reached(point: Point, kept: Point) -> bool:
    return point.generation == kept.generation and point.batch <= kept.batch


def _point(writer: object, batch: object, mark: BatchMark) -> Point | None:
    """Generation and batch that `writer` and `batch` name, None if they do not belong to the sink of `mark`."""
    match = WRITER.fullmatch(str(writer))
    number = _number(batch)
    if match is None or number is None or (match[1], match[3]) != (mark.pipeline_id, mark.sink):
        return None
    return Point(int(match[2]), number)


def _source_of_return(version: int, operation: str, parameters: Mapping[str, Any]) -> int | None:
    if operation == "RESTORE":
        return _number(parameters.get("version"))
    return NO_ROWS if operation in REMOVALS or _overwrites(parameters) else version - 1


def _overwrites(parameters: Mapping[str, Any]) -> bool:
    return str(parameters.get("mode", "")).lower() == "overwrite"


def _predicate(parameters: Mapping[str, Any]) -> str:
    return str(parameters.get("predicate") or "").replace(" ", "").lower()


def _number(text: object) -> int | None:
    try:
        return int(str(text))
    except ValueError:
        return None


def strange_changes(history: History) -> Sequence[Change]:
    """Changes by other writers to rows of this sink since its newest change; oldest first.

    Excluded are a RESTORE to the version that is current anyway, and rows that others added.
    """
    own = history.last_change
    if own is None:
        return ()
    later = [change for change in history.changes if change.version > own.version]
    now = history.contents[history.newest]
    if now.made_by == history.contents[own.version].made_by:
        return ()
    if now.ours != own.version:
        had = max(change.version for change in history.changes if history.contents[change.version].ours == own.version)
        return [change for change in later if change.version > had and change.kind in {"wiped", "restore"}]
    return [change for change in later if change.kind in {"removed", "edited"}]

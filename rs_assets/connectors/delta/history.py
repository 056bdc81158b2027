"""What the history of a Delta table says about its rows: which version holds exactly what a checkpoint stands for.

Each commit of ours names its generation and batch; each return (a rewind or a restore) names the generation that it
began, and the generation and batch that it went back to. So the lineage of generations stands in the table itself. This
module works on entries of a history and opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rs_assets.connectors.delta.commit_info import FENCED, REWOUND, WRITER, noted
from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark

# The version that stands for "no rows".
NO_ROWS = -1
# Operations that leave the rows as they are.
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
# Operations after which no row of before is left, or nobody knows which.
REPLACEMENTS = ("REPLACE TABLE", "CREATE OR REPLACE", "CLONE", "FSCK", "DROP COLUMNS", "REPLACE COLUMNS")
NO_PREDICATE = frozenset({"", "[]", "true", "[true]", '["true"]'})

Kind = Literal["batch", "return", "restore", "added", "edited", "removed", "wiped", "harmless"]


@dataclass(frozen=True, slots=True)
class Change:
    """One version of the table, as the sink of one pipeline sees it.

    `batch` and `return` are this sink's own, at `point`; a return also says which point was `kept`. `source` is the
    version whose rows a return or a restore took, NO_ROWS for none, None if the entry does not say. Of others are
    `restore`, `added` (rows), `edited` (rows of anybody), `removed` (some rows) and `wiped` (all rows of before);
    `rows` says whether they brought rows of their own. `replaces` says that a batch replaced all rows of before,
    `accepts` that it has no rows and a person took the table as it was for that batch.
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


def change_of(entry: Mapping[str, Any], mark: BatchMark) -> Change:
    """The change that an entry of a history tells of, as the sink of `mark` sees it."""
    version, operation = int(entry["version"]), str(entry.get("operation", "an unknown operation"))
    parameters: Mapping[str, Any] = entry.get("operationParameters") or {}
    told = noted(entry)
    begun = _point(told.get(REWOUND), told.get("rs.rewound_to"), mark)
    if begun is not None:
        kept = _point(told.get("rs.rewound_from"), told.get("rs.rewound_to"), mark)
        source = _source_of_return(version, operation, parameters)
        return Change(version, "return", operation, point=begun, kept=kept, source=source)
    point = _point(told.get("rs.writer"), told.get("rs.batch_id"), mark)
    if point is not None:
        accepts = "rs.accepted" in told
        return Change(version, "batch", operation, point=point, replaces=_overwrites(parameters), accepts=accepts)
    return _of_others(version, operation, parameters, no_rows=REWOUND in told or FENCED in told)


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
    """The versions by which others brought rows: the newest one, and those before it."""

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

    `made_by` is the version that made them; `ours` the newest batch or return of this sink in them, NO_ROWS for none;
    `others` the versions whose rows of others are in them (what others had in a version that the history has no more
    counts as that version). `damage` says why they are not what any checkpoint stands for, "" if they are.
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
    """No version is known that holds what is asked for; `older` says that older entries of the history may tell."""

    def __init__(self, what: str, remedy: str, *, older: bool = False) -> None:
        super().__init__(what)
        self.what, self.remedy, self.older = what, remedy, older


class History:
    """A part of a table's history without a gap, up to the newest version, as one sink sees it."""

    def __init__(self, entries: Iterable[Mapping[str, Any]], mark: BatchMark) -> None:
        """Take the entries in any order; ValueError if they have a gap, or are none."""
        self.changes = sorted((change_of(entry, mark) for entry in entries), key=lambda change: change.version)
        self.contents: dict[int, Content] = {}
        if not self.changes or self.newest - self.oldest + 1 != len(self.changes):
            raise ValueError("a history with a gap")
        # What each generation left last: its next batch must stand on it.
        left: dict[int, int] = {}
        for change in self.changes:
            self.contents[change.version] = self._after(change, left)
            if change.point is not None:
                left[change.point.generation] = change.version

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

    def last_batch(self, generation: int) -> int:
        """The last batch of `generation` that is known to have been in the table, -1 for none."""
        points = [change.point for change in self.changes if change.point is not None]
        return max((point.batch for point in points if point.generation == generation), default=-1)

    def version_for(self, kept: Point) -> int:
        """The version with exactly the rows that the table had at the end of `kept`, NO_ROWS if it had none.

        CannotReturn if there is no such version, or if rows of others would be lost on the way there.
        """
        version = self._version_of(kept)
        now, then = self.contents[self.newest], self.contents.get(version, EMPTY)
        if then.damage:
            raise CannotReturn(
                f"the rows of batch {kept.batch} are not known any more: {then.damage}",
                "restore the table by hand, or begin a new generation (--new-generation)",
                older=self.oldest > 0,
            )
        strangers = sorted(now.strangers() - then.strangers())
        if strangers:
            raise self._strange(strangers[-1], kept)
        return version

    def same(self, version: int) -> bool:
        """Whether the newest version has the rows of `version` already."""
        return self.contents.get(version, EMPTY).made_by == self.contents[self.newest].made_by

    def alike(self, version: int) -> Sequence[int]:
        """The versions with exactly the rows of `version`, it first, then the others from the oldest to the newest."""
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
                    f"the table does not say what generation {kept.generation} began with",
                    f"go back to batch {begun.point.batch} or later, or begin a new generation (--new-generation)",
                )
            return self._version_of(Point(begun.kept.generation, kept.batch))
        own = [c.version for c in self.changes if c.kind == "batch" and c.point is not None and _reached(c.point, kept)]
        if own:
            return own[-1]
        return begun.version if begun is not None else self._start_of(kept)

    def _start_of(self, kept: Point) -> int:
        """The version before the first batch of a generation that began with nothing."""
        if self.oldest > 0:
            raise CannotReturn(
                f"the history of the table reaches back to version {self.oldest} only,"
                f" and batch {kept.batch} of generation {kept.generation} lies before that",
                self._reachable(),
                older=True,
            )
        own = [change for change in self.changes if change.point is not None]
        if not own:
            return self.newest
        later = [change.version for change in own if _generation(change) >= kept.generation]
        # A generation that begins afresh replaces the rows of those before.
        return later[0] - 1 if len(later) == len(own) else NO_ROWS

    def _reachable(self) -> str:
        first = next((change.point for change in self.changes if change.point is not None), None)
        afresh = "begin a new generation (--new-generation)"
        if first is None:
            return afresh
        return f"go back to batch {first.batch} of generation {first.generation} or later, or {afresh}"

    def _strange(self, version: int, kept: Point) -> CannotReturn:
        if version < self.oldest:
            what = f"rows that others wrote in version {version} or before may be lost"
            return CannotReturn(what, self._reachable(), older=True)
        return CannotReturn(
            f"somebody else wrote version {version} of the table after batch {kept.batch}",
            "restore the table by hand, or give each pipeline a table of its own",
        )

    def _after(self, change: Change, left: Mapping[int, int]) -> Content:
        """The rows behind `change`; `left` is the version that each generation wrote last."""
        before = self.contents.get(change.version - 1) or self._of_version(change.version - 1)
        version = change.version
        if change.kind == "harmless":
            return before
        if change.kind == "batch":
            return self._after_batch(change, before, left)
        if change.kind == "return":
            return replace(self._of_version(change.source), ours=version)
        if change.kind == "restore":
            return self._of_version(change.source)
        if change.kind == "wiped":
            # Whoever cleared the table before we wrote to it took nothing of ours.
            damage = _told(change) if before.ours != NO_ROWS or before.damage else ""
            return Content(version, others=Others(version, None) if change.rows else None, damage=damage)
        return replace(before, made_by=version, others=Others(version, before.others) if change.rows else before.others)

    def _after_batch(self, change: Change, before: Content, left: Mapping[int, int]) -> Content:
        if change.replaces:
            return Content(change.version, ours=change.version)
        if change.accepts:
            return replace(before, ours=change.version, damage="")
        stood = left.get(_generation(change))
        damage = before.damage
        if not damage and stood is not None and before.ours != stood:
            damage = f"others changed the table between its versions {stood} and {change.version}"
        return Content(change.version, ours=change.version, others=before.others, damage=damage)

    def _of_version(self, version: int | None) -> Content:
        if version is None:
            return Content(NO_ROWS - 1, damage="a RESTORE does not say to which version")
        if version < 0:
            return EMPTY
        known = self.contents.get(version)
        # Of a version that the history does not have any more nobody knows what others wrote into it.
        return known or Content(version, ours=version, others=Others(version, None))


def _told(change: Change) -> str:
    return f"{change.what} by others in version {change.version}"


def _generation(change: Change) -> int:
    return change.point.generation if change.point is not None else 0


def _reached(point: Point, kept: Point) -> bool:
    return point.generation == kept.generation and point.batch <= kept.batch


def _point(writer: object, batch: object, mark: BatchMark) -> Point | None:
    """Generation and batch that `writer` and `batch` name, None if they are not of the sink of `mark`."""
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
    """What others did to rows of this sink since its newest batch or return; oldest first.

    A RESTORE to the version that is there anyway is none, and neither are rows that others added.
    """
    own = history.last_own
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

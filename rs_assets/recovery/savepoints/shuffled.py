"""A savepoint of queries that pass rows to others through tables: no reader in it is ahead of its writer.

Readers are copied first, so each writer is at least as far. But a batch reaches the table before it is committed: a
reader that has read it already is copied again, up to the previous batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.errors import CheckpointError
from rs_assets.operators.shuffle.cut import end_of, needed_files, newest_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A table that the query `writer` writes as the sink `sink` and `reader` reads as `source`; stored names.

    `checkpoint` is that of the reader.
    """

    table: Path
    sink: str
    checkpoint: Path
    writer: str
    reader: str
    source: str


class Saved(Protocol):
    """A query that was copied, up to its batch `last`."""

    @property
    def last(self) -> int:
        """Its last batch, -1 for none."""
        ...


Copy = TypeVar("Copy", bound=Saved)


def readers_first(folders: Iterable[Path], links: Iterable[Link]) -> tuple[Path, ...]:
    """The folders of queries, each before those whose rows it reads."""
    waiting, order, links = list(folders), list[Path](), tuple(links)
    while waiting:
        fed = {link.writer for link in links for folder in waiting if folder.name == link.reader}
        ready = [folder for folder in waiting if folder.name not in fed]
        order += ready
        waiting = [folder for folder in waiting if folder not in ready]
    return tuple(order)


def copied_in_order(
    folders: Iterable[Path], links: Iterable[Link], copy: Callable[[Path, int | None], Copy]
) -> Mapping[str, Copy]:
    """Each query by name, as `copy` has copied its folder up to a batch (None: its last one)."""
    links = tuple(links)
    order = readers_first(folders, links)
    done = {folder.name: copy(folder, None) for folder in order}
    for folder in reversed(order):
        last = done[folder.name].last
        read = [link for link in links if link.reader == folder.name and last >= 0]
        until = min((_within(link, done) for link in read), default=last)
        if until < last:
            done[folder.name] = copy(folder, _begun(folder, until))
    return done


def tables_of(links: Iterable[Link], done: Mapping[str, Saved]) -> Iterator[Path]:
    """The files of all tables that the copied queries need to continue."""
    found: set[Path] = set()
    for link in links:
        written, read = _last(done, link.writer), _last(done, link.reader)
        if max(written, read) >= 0:
            log, end = CheckpointLog(link.checkpoint), end_of(link.table, written)
            found.update(needed_files(link.table, log, link.source, batch=read, end=end))
    yield from sorted(found)


def _within(link: Link, done: Mapping[str, Saved]) -> int:
    end = end_of(link.table, _last(done, link.writer))
    return newest_within(CheckpointLog(link.checkpoint), link.source, end, last=_last(done, link.reader))


def _last(done: Mapping[str, Saved], query: str) -> int:
    """The last batch of a query, -1 for one that has not begun."""
    return done[query].last if query in done else -1


def _begun(folder: Path, until: int) -> int:
    if until < 0:
        raise CheckpointError(
            f"the first batch of {folder.name} has read rows of a batch that is not committed yet",
            remedy="try again when that is committed; if the pipeline is stopped, run it first",
            file=folder,
        )
    return until

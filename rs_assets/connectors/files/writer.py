"""The sink of files: one folder a batch, published by one rename."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql import DataFrame

from rs_assets.common.files import write_atomically
from rs_assets.common.plural import count_of
from rs_assets.connectors.files.form import JSON, FileForm
from rs_assets.connectors.files.rewind import AFRESH, Folders, Return, note_return, noted_returns, planned
from rs_assets.connectors.files.written import rows_in, write_files
from rs_assets.connectors.generations import Point
from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.sink import BatchMark, LastWriter, Staged
from rs_assets.errors import SinkError

# The folder of a batch: its generation and its number.
FOLDER = re.compile(r"batch=g([0-9]{4,})-b([0-9]{12,})")
# A file in the folder of each batch that names its writer; readers ignore it.
OWNER = "_rs_writer"
# Another file names the start that wrote it.
WROTE = ".rs_start"


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes `path/batch=<generation and id>/part-*.json`; Spark, DuckDB and others read `path` as a whole.

    Times have microseconds and nulls are written. Folders of partitions are in that of the batch. Requires the atomic
    rename of a local or mounted file system, which object stores lack.
    """

    name: str
    path: str
    form: FileForm = JSON
    progress: ProgressGuard = field(default_factory=ProgressGuard, compare=False, repr=False)

    def location(self) -> str:
        """The folder of all batches."""
        return self.path

    def committed(self, mark: BatchMark) -> bool:
        """Whether the folder of this batch exists; SinkError if another writer owns it, or an earlier one is gone."""
        self._hold(mark)
        target = self._target(mark)
        if not target.exists():
            return False
        self._check_owner(target, mark)
        mark.check(self._wrote(target, mark), where=self.path)
        return True

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim stored with the newest batch."""
        newest = self._newest()
        return LastWriter() if newest is None else self._wrote(newest, mark)

    def raise_fence(self, mark: BatchMark) -> None:
        """Store the token with the newest batch, if that is of this sink."""
        newest = self._newest()
        if newest is not None and (wrote := _noted(newest)).get("fence") == mark.fence:
            write_atomically(newest / WROTE, orjson.dumps({**wrote, "token": mark.token}))

    def last_committed(self, mark: BatchMark) -> int | None:
        """The greatest batch that has a folder, or that a return went back to; most empty batches leave none.

        SinkError if it belongs to another writer, or has files of another form.
        """
        known = self._folders(mark)
        last = max((point.batch for point in known.batches if point.generation == mark.generation), default=-1)
        if last >= 0:
            newest = self._target(replace(mark, batch_id=last))
            self._check_owner(newest, mark)
            self._check_form(newest)
        self.progress.advance(mark, last, step=self.name, place=self.path)
        return known.last_batch(mark.generation)

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Write the batch into a hidden folder of this sink and home, and record its content."""
        # A copy of the home, which writes at the same moment, has another one: each must not remove the other's files.
        home = mark.claim.home if mark.claim is not None else ""
        sink = hashlib.sha256(f"{mark.pipeline_id}/{mark.sink}/{home}".encode()).hexdigest()[:8]
        hidden = Path(self.path) / f".{mark.folder}-{sink}.tmp"
        shutil.rmtree(hidden, ignore_errors=True)
        with self._errors():
            files = write_files(batch, hidden, self.form, step=self.name)
        return Staged(lambda: self._publish(hidden, files, mark))

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:  # noqa: ARG002  the protocol's form
        """SinkError if folders that belong to `kept` were removed, belong to another writer, or cannot be moved."""
        known = self._folders(kept)
        if known.batches and not os.access(self.path, os.W_OK | os.X_OK):
            raise self._not_moved("permission denied")
        for point in known.batches:
            self._check_owner(self._folder(point), kept)
        planned(known, kept, had, self.path)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Remove the folders that do not belong to `kept`, and move the others to the new generation."""
        self.check_rewind(kept, begun, had)
        known = self._folders(kept)
        last = planned(known, kept, had, self.path)
        later = sorted(point for point in known.batches if not known.stays(point, last))
        begun.check(self.last_writer(begun), where=self.path)
        made = Return(
            writer=kept.fence,
            begun=begun.generation,
            generation=kept.generation,
            batch=kept.batch_id,
            undone=min((point.batch for point in later), default=None),
        )
        try:
            note_return(Path(self.path), kept, made)
            for point in reversed(later):
                shutil.rmtree(self._folder(point))
            stays = sorted(set(known.batches) - set(later))
            for point in stays[-1:]:
                self._note(self._folder(point), begun, form=_form_of(self._folder(point)))
            for point in stays:
                self._folder(point).rename(self._folder(point._replace(generation=begun.generation)))
        except OSError as error:
            raise self._not_moved(error.strerror or str(error)) from error
        return f"{count_of(len(later), 'batch')} removed"

    def _not_moved(self, why: str) -> SinkError:
        return SinkError(
            f"the folders of batches cannot be moved or removed: {why}",
            remedy="let this user write to the folder and its subfolders, then go back once more",
            step=self.name,
            folder=self.path,
        )

    def _folders(self, mark: BatchMark) -> Folders:
        """The folders and returns; SinkError if the record of returns is damaged."""
        found = [FOLDER.fullmatch(folder.name) for folder in Path(self.path).glob("batch=g*-b*")]
        returns = [each for each in noted_returns(Path(self.path), mark) if each.writer == mark.fence]
        return Folders([Point(int(match[1]), int(match[2])) for match in found if match], returns)

    def _newest(self) -> Path | None:
        return max(Path(self.path).glob("batch=g*-b*"), default=None)

    def _folder(self, point: Point) -> Path:
        return Path(self.path) / f"batch=g{point.generation:04d}-b{point.batch:012d}"

    def _target(self, mark: BatchMark) -> Path:
        return Path(self.path) / f"batch={mark.folder}"

    def _publish(self, hidden: Path, files: Mapping[Path, int], mark: BatchMark) -> int:
        with self._errors():
            if (target := self._target(mark)).exists():
                mark.check(self._wrote(target, mark), where=self.path)
            gone = [file for file, size in files.items() if not file.exists() or file.stat().st_size != size]
            if gone:
                raise SinkError(
                    f"another process has removed or changed {len(gone)} of {count_of(len(files), 'staged file')}",
                    remedy="start again: the batch is computed again",
                    step=self.name,
                    file=gone[0],
                )
            rows = {file: found for file in files if (found := rows_in(file, self.form))}
            there = [*Path(self.path).iterdir()]
            # The folders of earlier generations.
            earlier = [f for f in there if f.name < f"batch=g{mark.generation:04d}" and f.match("batch=g*-b*")]
            if rows or earlier:
                self._move(hidden, rows, mark, earlier)
                # What another home has staged of this batch, as one that crashed before it was moved.
                for other in (f for f in there if f != hidden and f.match(f".{mark.folder}-*.tmp")):
                    shutil.rmtree(other, ignore_errors=True)
                self.progress.advance(mark, mark.batch_id, step=self.name, place=self.path)
            else:
                shutil.rmtree(hidden)
        return sum(rows.values())

    def _move(self, hidden: Path, kept: Container[Path], mark: BatchMark, earlier: Sequence[Path]) -> None:
        for folder in earlier:
            self._check_owner(folder, mark)
        for file in [file for file in hidden.rglob("*") if file.is_file() and file not in kept]:
            file.unlink()
        (hidden / OWNER).write_text(_owner(mark))
        self._note(hidden, mark, form=self.form.text)
        hidden.rename(self._target(mark))
        # A new generation writes everything again, so the folders of earlier ones are removed.
        for folder in earlier:
            shutil.rmtree(folder)

    def _wrote(self, folder: Path, mark: BatchMark) -> LastWriter:
        """The writer of a batch; earlier releases did not store it."""
        wrote = _noted(folder)
        same_id, same_name = wrote.get("fence") == mark.fence, wrote.get("claimed") == mark.claimed
        return LastWriter(
            token=wrote.get("token", 0) if same_id else 0,
            claim=wrote.get("claim", 0) if same_name else 0,
            pipeline_id=wrote.get("pipeline_id", ""),
            home=wrote.get("home", ""),
        )

    def _note(self, folder: Path, mark: BatchMark, *, form: str) -> None:
        """Store which start writes a batch, and the form of its files."""
        content: dict[str, Any] = {
            "pipeline_id": mark.pipeline_id,
            "fence": mark.fence,
            "token": mark.token,
            "form": form,
        }
        if mark.claim is not None:
            content |= {"claimed": mark.claimed, "claim": mark.claim.number, "home": mark.claim.home}
        write_atomically(folder / WROTE, orjson.dumps(content))

    def _hold(self, mark: BatchMark) -> None:
        last = self.progress.last(mark)
        if last >= 0 and not self._target(replace(mark, batch_id=last)).exists():
            self.progress.advance(mark, -1, step=self.name, place=self.path)

    def _check_owner(self, folder: Path, mark: BatchMark) -> None:
        """SinkError if another pipeline or sink wrote `folder`; earlier releases did not store the writer."""
        try:
            owner = (folder / OWNER).read_text()
        except FileNotFoundError:
            return
        if owner != _owner(mark):
            raise SinkError(
                f"the folder has batches of the sink {owner}, this is {_owner(mark)}",
                remedy="write to a folder of its own, or move the existing files away; if the step was renamed, declare"
                " it: .build(renamed={'old': 'new'})",
                step=self.name,
                folder=folder,
            )

    def _check_form(self, folder: Path) -> None:
        """SinkError if the files of `folder` have another form: a reader of all files would misread some."""
        if (was := _form_of(folder)) != self.form.text:
            raise SinkError(
                f"the folder has files of the form {was!r}, this is {self.form.text!r}",
                remedy=f"write to a folder of its own, or {AFRESH}",
                step=self.name,
                folder=self.path,
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkError(
                f"the batch's folder cannot be written or moved: {error}",
                remedy="check the folder and start again: the batch is computed again",
                step=self.name,
                folder=self.path,
            ) from error


def _noted(folder: Path) -> dict[str, Any]:
    """The start that wrote a batch; {} if it is unknown."""
    try:
        wrote: dict[str, Any] = orjson.loads((folder / WROTE).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return wrote


def _form_of(folder: Path) -> str:
    """The form of the files of a batch; earlier releases wrote JSON lines only."""
    return str(_noted(folder).get("form", JSON.text))


def _owner(mark: BatchMark) -> str:
    return f"{mark.pipeline_id}/{mark.sink}"

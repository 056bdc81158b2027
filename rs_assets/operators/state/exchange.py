"""State in an object store, where the machines of a cluster that share no folder write and read it.

The checkpoint of a query is in the home of the driver, and so is a copy of its state; only the driver reads that. What
the machines use is the *exchange*: a folder of one run in an object store. Spark finds it by a file system that joins
both: the state of the checkpoint is there, all else is on the disk.

The driver copies new state home before each batch, and all of it at the end. A run that was killed leaves a note of its
exchange, and the next start copies the rest. Since each run begins an exchange of its own, whatever a driver that was
overtaken still lets be written is read by none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pyarrow import fs
from pyspark.sql import SparkSession

from rs_assets.common.files import write_atomically
from rs_assets.common.folder import Address, make_folder
from rs_assets.common.scratch import own_folder
from rs_assets.connectors.delta.log.store import files_of, read_file, write_file
from rs_assets.errors import CheckpointError
from rs_assets.spark.object_store import prepare_reading

CHECKPOINT, STATE, METADATA = "checkpoint", "state", "_metadata"
# Hidden, so that no copy of the folder has it: the exchange belongs to one home.
NOTE = ".exchange.json"
# Where Spark has noted files of an exchange, and of the disk.
_JOINED = re.compile(rb"viewfs://rs-[0-9a-f]{16}(?=/)")
_ON_DISK = re.compile(rb"file:(?://)?(?=/)")
# Characters that Java may escape in the path of a URI.
_ENCODED = re.compile(r"[^\w/.~!$&'()*+,;=:@-]")


@dataclass(slots=True, kw_only=True)
class Exchange:
    """The state of one query in one run: `query` is its folder in the home, `place` the folder of the run."""

    query: Path
    place: Address
    # What is there, by name: size and time of change. Files that were never seen there are not removed here.
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    _begun: bool = False

    @property
    def location(self) -> str:
        """The checkpoint as Spark is given it."""
        return f"{self._scheme}{self.query / CHECKPOINT}"

    def settings(self) -> Mapping[str, str]:
        """Hadoop's settings that join both places."""
        prefix = f"fs.viewfs.mounttable.{self._name}"
        place = str(self.place / STATE)
        return {
            f"{prefix}.link.{self.query / CHECKPOINT / STATE}": f"s3a://{place.partition('://')[2]}",
            f"{prefix}.linkFallback": "file:///",
        }

    def begin(self) -> None:
        """Bring the state of this home there, and note it; CheckpointError if that fails.

        When a query starts again, its state is there; but it may compute its batch otherwise than before.
        """
        if self._begun:
            self._seen = dict.fromkeys(self._seen, (-1, -1))
            return
        with _reaching(self.place, "written"):
            for file in _files(self.query / CHECKPOINT / STATE):
                content = file.read_bytes()
                if METADATA in file.parts:
                    content = _ON_DISK.sub(self._scheme.encode(), content)
                write_file(str(self.place), self._named(file), content)
            self._seen = dict(self._listed())
        make_folder(self.query)
        write_atomically(self.query / NOTE, orjson.dumps({"place": str(self.place)}))
        self._begun = True

    def fetch(self) -> None:
        """Bring home what the machines have written and removed since the last time, if it has begun.

        CheckpointError if that fails.
        """
        if not self._begun:
            return
        with _reaching(self.place, "read"):
            there = dict(self._listed())
            # A snapshot names its tables, so it comes after them, and goes before them.
            for name in sorted(there.keys(), key=_tables_first):
                if self._seen.get(name) != there[name]:
                    self._bring(name)
            for name in sorted(self._seen.keys() - there.keys(), key=_tables_first, reverse=True):
                _replace(self._local(name), None)
        self._seen = there

    def end(self) -> None:
        """Bring the rest home and clear the exchange: the home is complete. CheckpointError if that fails."""
        if not self._begun:
            return
        self.fetch()
        self._begun = False
        (self.query / NOTE).unlink(missing_ok=True)
        files = files_of(str(self.place))
        with suppress(OSError):
            for name in self._seen:
                files.delete_file(name)

    @property
    def _name(self) -> str:
        """The name of the joined file system: Spark keeps one for each, as it was when it was first used."""
        return f"rs-{hashlib.sha256(f'{self.query} {self.place}'.encode()).hexdigest()[:16]}"

    @property
    def _scheme(self) -> str:
        return f"viewfs://{self._name}"

    def _listed(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """The files there that are complete."""
        chosen = fs.FileSelector(STATE, recursive=True, allow_not_found=True)
        for found in files_of(str(self.place)).get_file_info(chosen):
            name = found.path.rpartition("/")[2]
            if found.type == fs.FileType.File and not name.startswith("."):
                yield found.path, (found.size, found.mtime_ns or 0)

    def _bring(self, name: str) -> None:
        # Spark may have removed it since.
        with suppress(FileNotFoundError):
            content = read_file(str(self.place), name)
            _replace(self._local(name), _JOINED.sub(b"file:", content) if f"/{METADATA}/" in name else content)

    def _local(self, name: str) -> Path:
        return self.query / CHECKPOINT / name

    def _named(self, file: Path) -> str:
        return file.relative_to(self.query / CHECKPOINT).as_posix()


def left_over(query: Path) -> Exchange | None:
    """The exchange of a run of this query that was killed, None if it has ended; CheckpointError if it is damaged."""
    try:
        found = orjson.loads((query / NOTE).read_bytes())
        return Exchange(query=query, place=Address(found["place"]), _begun=True)
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise CheckpointError(
            "the note of the state in the object store is damaged",
            remedy="restore a savepoint, or begin a new generation (--new-generation)",
            file=query / NOTE,
        ) from error


def joined(spark: SparkSession, exchange: Exchange) -> str:
    """The checkpoint for Spark, which can reach it from now on; ConfigurationError without the jars for S3."""
    prepare_reading(spark, str(exchange.place))
    for name, value in exchange.settings().items():
        spark.conf.set(name, value)
    return exchange.location


def location_of(spark: SparkSession, checkpoint: Path) -> str:
    """The checkpoint of a query for a reader of its state: on the disk, or joined with the exchange of its run."""
    left = left_over(checkpoint.parent)
    return readable(checkpoint) if left is None else joined(spark, left)


def readable(checkpoint: Path) -> str:
    """The path of a checkpoint for Spark's readers of state.

    They take a path for a part of a URI, so they do not find `/data/my home`: it gets a link without blanks.
    """
    if not _ENCODED.search(str(checkpoint)):
        return str(checkpoint)
    link = own_folder().folder / f"{CHECKPOINT}-{hashlib.sha256(str(checkpoint).encode()).hexdigest()[:16]}"
    with suppress(FileExistsError):
        link.symlink_to(checkpoint.absolute())
    return str(link)


def name_as_on_disk(checkpoint: Path, place: str) -> None:
    """Replace the `readable` path of a checkpoint in what Spark has noted of its state; the link is temporary."""
    if place == str(checkpoint):
        return
    for facts in sorted(checkpoint.glob(f"{STATE}/*/{METADATA}/*/*")):
        content = facts.read_bytes()
        if f"{place}/".encode() in content:
            _replace(facts, content.replace(place.encode(), str(checkpoint).encode()))


def queries_left(job: Path) -> list[Path]:
    """The folders of queries in a job's folder whose state is not all at home: a run goes on, or was killed."""
    return sorted(note.parent for note in job.glob(f"g*/*/{NOTE}"))


def fetch_left(query: Path) -> None:
    """Bring home the state of a run that goes on or was killed, which keeps its exchange; CheckpointError as above."""
    left = left_over(query)
    if left is not None:
        left.fetch()


def settle(query: Path) -> None:
    """Complete the home after a run that was killed; nothing after another one. CheckpointError if that fails."""
    left = left_over(query)
    if left is not None:
        left.end()


def _files(folder: Path) -> Iterator[Path]:
    """The files of state, tables before the snapshots that name them; without checksums and temporary files."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    yield from sorted((path for path in found if path.suffix != ".tmp"), key=lambda path: _tables_first(path.name))


def _tables_first(name: str) -> tuple[bool, str]:
    return name.endswith(".zip"), name


def _replace(file: Path, content: bytes | None) -> None:
    """Replace a file of the home, or remove it, with Hadoop's checksum of its old content."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    if content is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content)


@contextmanager
def _reaching(place: Address, done: str) -> Iterator[None]:
    """Convert errors of the store and of the disk in the block."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the state in the object store cannot be {done}: {str(error).partition(chr(10))[0][:200]}",
            remedy="check the store and its permissions (RS_STATE), then start again",
            place=str(place),
        ) from error

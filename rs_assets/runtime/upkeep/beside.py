"""Writes the state of a running query in another number of partitions, next to its checkpoint, and swaps it in later.

1. `copy` copies the checkpoint by links, and `write` lets Spark rewrite a copy. Meanwhile `gather` keeps the changes of
   the state, which Spark removes after a while.
2. `follow` brings the rewritten state to the last batch by these changes; `compare` looks whether it is the same.
3. `swap_in` gives that state to the checkpoint of the stopped query, as a batch that reads nothing.

The files of that batch are those that Spark's own rewrite leaves, in the same order: its plan, state, its commit. So
after a crash in between, the next start lets Spark rewrite the state as if there were no copy.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rs_assets.checkpoint.log import PARTITIONS, CheckpointLog
from rs_assets.common.files import sync, write_atomically
from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError
from rs_assets.operators.state.exchange import readable
from rs_assets.recovery.preflight.files import folder_numbers
from rs_assets.recovery.preflight.snapshot import tables_of
from rs_assets.recovery.preflight.state import DEFAULT_STORE
from rs_assets.recovery.rewinding import numbers
from rs_assets.recovery.savepoints.listing import CHECKPOINT, list_query
from rs_assets.runtime.upkeep.repartition import StateSum, rewrite, state_sum
from rs_assets.spark.processor.session import processors_in

# The folder in that of the job; savepoints and uploads do not have it.
FOLDER = "rescaling"
STATE, METADATA = "state", "_metadata/v2"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGED = "org.apache.spark.sql.rsassets.ChangedState"
# How often a checkpoint is copied again because Spark has removed old files meanwhile.
ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The state of a query after its batch `batch`, in `partitions` partitions, in the checkpoint `to`.

    `log` is that of the query, whose state has `before` partitions, and `read` a copy of it with all changes since the
    batch `first`. The snapshots in `to` have the number `version`.
    """

    log: CheckpointLog
    read: CheckpointLog
    to: CheckpointLog
    before: int
    partitions: int
    first: int
    batch: int
    version: int

    def snapshots(self) -> list[Path]:
        """The snapshot of each store of each partition; CheckpointError if one is missing."""
        found = [
            snapshot
            for operator in folder_numbers(self.to.folder / STATE)
            for partition in range(self.partitions)
            for snapshot in (self.to.folder / STATE / str(operator) / str(partition)).rglob(f"{self.version}.zip")
        ]
        stores = {(operator, store) for operator, store, _ in map(self.place_of, found)}
        if not stores or len(found) != len(stores) * self.partitions:
            raise CheckpointError(
                f"{count_of(len(found), 'store')} of the rescaled state were written,"
                f" of {count_of(self.partitions, 'partition')}",
                remedy="stop the stream, then rescale it",
                file=self.to.folder,
            )
        return found

    def place_of(self, snapshot: Path) -> tuple[str, str, str]:
        """The operator, store and partition of a snapshot."""
        operator, partition, *store = snapshot.relative_to(self.to.folder / STATE).parts[:-1]
        return operator, store[0] if store else DEFAULT_STORE, partition


def place_of(job: Path, query: Path) -> Path:
    """The folder of the copy of a query's checkpoint."""
    return job / FOLDER / query.relative_to(job)


def remove(job: Path) -> None:
    """Remove the copies of a job, of which a killed run may have left some."""
    shutil.rmtree(job / FOLDER, ignore_errors=True)


def copy(job: Path, query: Path, before: int, partitions: int) -> Beside:
    """Copy the checkpoint of the query in the folder `query`, which may run, up to its last committed batch.

    Its state has `before` partitions. CheckpointError before the first batch, and if files vanish each time.
    """
    job, query = job.absolute(), query.absolute()
    place = place_of(job, query)
    read, to = (CheckpointLog(place / name) for name in ("read", "to"))
    problem: str | None = "no batch is committed"
    for _ in range(ROUNDS):
        shutil.rmtree(place, ignore_errors=True)
        listed = list_query(job, query, stateful=True)
        copied = {file.path for file in listed.files if _copied(job, listed.checkpoint, file.path, read, to)}
        problem = listed.problem(copied)
        if problem is None:
            break
    if problem is not None:
        raise CheckpointError(f"the checkpoint cannot be copied: {problem}", remedy="try again", file=query)
    for log in (read, to):
        # A first run does not log the number, for which Spark's reader asks.
        log.pin_partitions(before)
    first = read.last_committed()
    return Beside(
        log=CheckpointLog(query / CHECKPOINT), read=read, to=to, before=before, partitions=partitions,
        first=first, batch=first, version=first + 1,
    )  # fmt: skip


def _copied(job: Path, checkpoint: str, path: str, *to: CheckpointLog) -> bool:
    """Whether a file of a checkpoint is in all copies now."""
    if not path.startswith(f"{checkpoint}/"):
        return False
    return all(_linked(job / path, log.folder / path.removeprefix(f"{checkpoint}/")) for log in to)


def write(spark: SparkSession, beside: Beside) -> Beside:
    """Let Spark rewrite the state of the copy; CheckpointError if it fails."""
    rewrite(spark, beside.log.stored_name, beside.to, beside.partitions)
    # The state after a batch has the number of the next one, and the rewrite is a batch of its own.
    return replace(beside, version=beside.first + 2)


def gather(beside: Beside) -> None:
    """Keep the changes of the state that the copy does not have yet."""
    for changes in (beside.log.folder / STATE).rglob("*.changelog"):
        kept = beside.read.folder / changes.relative_to(beside.log.folder)
        if not kept.exists():
            _linked(changes, kept)


def _linked(file: Path, to: Path) -> bool:
    """Whether `file` is at `to` as well now; False if it has vanished."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        try:
            os.link(file, to)
        except FileNotFoundError:
            return False
        except FileExistsError:
            return True
        except OSError:
            # Not every file system has links.
            shutil.copy2(file, to)
    except FileNotFoundError:
        return False
    return True


def follow(spark: SparkSession, beside: Beside) -> Beside:
    """Bring the copy to the last committed batch of its query, which may run. If Spark fails, the copy is of no use."""
    until = beside.log.last_committed()
    if until == beside.batch:
        return beside
    read, to = beside.read, beside.to
    gather(beside)
    _linked(beside.log.folder / "commits" / str(until), read.folder / "commits" / str(until))
    read.plan(until, beside.log.planned_with(until, {PARTITIONS: str(beside.before)}))
    for snapshot in beside.snapshots():
        _rename(snapshot, f"{until + 1}.zip")
    settings = {PARTITIONS: str(beside.partitions)}
    to.plan(until + 1, read.planned_with(until, {**settings, PROVIDER: CHANGED}))
    # Spark 4.2.0 initializes a prerequisite of the rewrite only when its streams are first accessed.
    _ = spark.streams.active
    session: Any = spark._jsparkSession  # noqa: SLF001  there is no public way
    places = readable(read.folder), readable(to.folder)
    processors_in(spark).RescaledState.follow(session, *places, beside.batch, until, beside.partitions)
    to.plan(until + 1, read.planned_with(until, settings))
    _linked(read.folder / "commits" / str(until), to.folder / "commits" / str(until + 1))
    return replace(beside, batch=until, version=until + 2)


def compare(spark: SparkSession, beside: Beside) -> StateSum:
    """The sum of the state in the copy; CheckpointError if it is not that of the query at the same batch."""
    before, after = state_sum(spark, beside.read), state_sum(spark, beside.to)
    if before != after:
        raise CheckpointError(
            f"the rescaled state has {count_of(after.rows, 'row')}, and the state {before.rows}",
            remedy="stop the stream, then rescale it",
            file=beside.to.folder,
        )
    return after


def _rename(snapshot: Path, name: str) -> None:
    if snapshot.name != name:
        # Without a checksum Spark does not check.
        snapshot.with_name(f".{snapshot.name}.crc").unlink(missing_ok=True)
        snapshot.rename(snapshot.with_name(name))


def swap_in(beside: Beside) -> None:
    """Make the copy the state of its query, which is stopped, with no batch but those that the copy has.

    CheckpointError, with nothing changed, if it is not.
    """
    log, to = beside.log, beside.to
    if log.last_committed() != beside.batch or log.offsets(beside.batch + 1) is not None:
        raise CheckpointError("the query has gone on", remedy="stop it first", file=log.folder)
    described = [*_described(beside)]
    # Before a start does it with the new number.
    log.pin_partitions(beside.before)
    number = log.begin_rewrite(beside.partitions)
    for snapshot in beside.snapshots():
        _give(snapshot, log.folder / snapshot.relative_to(to.folder).parent, number + 1)
    for folder, content in described:
        write_atomically(folder / str(number), content)
    log.end_rewrite(number)


def _described(beside: Beside) -> Iterator[tuple[Path, bytes]]:
    """What Spark has noted of each operator with the new number of partitions, and the folder where it goes."""
    for operator in folder_numbers(beside.to.folder / STATE):
        there, here = (log.folder / STATE / str(operator) / METADATA for log in (beside.to, beside.log))
        newest = max(numbers(there), default=None)
        if newest is None:
            continue
        if max(numbers(here), default=-1) > beside.first:
            raise CheckpointError("the query has other state since it was copied", remedy="try again", file=here)
        yield here, (there / str(newest)).read_bytes()


def _give(snapshot: Path, folder: Path, version: int) -> None:
    """Put a snapshot and its tables into the folder of a store, the tables first."""
    tables = _tables(snapshot)
    names = [f"SSTs/{table['dfsSstFileName']}" for table in tables.get("sstFiles") or ()]
    names += [f"logs/{log['dfsLogFileName']}" for log in tables.get("logFiles") or ()]
    for name in names:
        if not (folder / name).exists():
            _linked(snapshot.parent / name, folder / name)
            # Spark takes a table that is older than those in use, and in no snapshot that it knows, for a leftover.
            os.utime(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{version}.zip"
    (folder / f".{name}.crc").unlink(missing_ok=True)
    hidden = folder / f".{name}.tmp"
    hidden.unlink(missing_ok=True)
    _linked(snapshot, hidden)
    hidden.replace(folder / name)
    sync(folder)


def _tables(snapshot: Path) -> dict[str, Any]:
    with zipfile.ZipFile(snapshot) as archive:
        return tables_of(archive)

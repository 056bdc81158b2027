"""The operations whose crash points are recorded, in the order in which one program does them.

`python -m tests.torture.operations <root> [--shuffled] [<operation>...]` is that program: it does all of them, or those
that are named, in an empty folder; `--shuffled` puts a durable shuffle before the window, `--uploaded` uploads each
checkpoint, `--parted` makes each window a partition by event time. Between two of them the input grows. `recorded`
tells the recorder where one begins and ends.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rs_assets.dagster.runs.compaction import compact_everything
from rs_assets.recovery.savepoints import Savepoint
from rs_assets.runtime.run.rescale import rescale
from rs_assets.runtime.run.rescale_requests import rescale_running
from rs_assets.runtime.run.running import RunningPipeline
from rs_assets.runtime.upkeep import savepoints
from rs_assets.spark.driver import SparkDriver
from tests.torture.history import process_all
from tests.torture.model import STRICT
from tests.torture.site import FIRST_HOUR, REFUSED, SMALL, Code, Site

# What is done, and what was done before that needs no recording; both get the site.
Deed = Callable[[Site], object]
# Enough for windows to close with each growth.
ROWS = 14
JOB, FORK = "town", "forked"
SHUFFLED, UPLOADED, PARTED = "--shuffled", "--uploaded", "--parted"
# Those after which a whole home may be lost, if it is uploaded.
OF_UPLOADS = ("first start", "batch", "stop", "live rescale", "recover", "finish")
# Those of a pipeline whose windows are partitions, the condition of the code that is promoted, and the code before.
OF_PARTITIONS = ("first start", "batch", "backfill", "redrive", "promote", "forget")
PROMOTED, FORMER = "n % 7 <> 3", Code()
# The records of this page are forgotten.
FORGOTTEN = "p1"
# The pipeline that was started and is to be stopped.
RUNNING: list[RunningPipeline] = []


def _nothing(site: Site) -> None:
    """Nothing has to be done first."""


def _run(site: Site) -> None:
    site.pipeline().run(site.options)


def _grow(site: Site) -> None:
    site.grow("a", ROWS)


def _grow_and_run(site: Site) -> None:
    _grow(site)
    _run(site)


def _start(site: Site) -> None:
    """Start, and wait for what is there to be processed."""
    _grow(site)
    RUNNING.append(site.pipeline().start(site.options))
    process_all(RUNNING[0])


def _stop(site: Site) -> None:
    RUNNING.pop().stop()


def _savepoint(site: Site) -> Savepoint:
    return savepoints.savepoint(site.pipeline().topology, site.options)


def _rewind(site: Site) -> None:
    # With a shuffle the query that writes it, so that both go.
    step, batch = ("a", 1) if site.shuffled else ("window", 5)
    savepoints.rewind(site.pipeline().topology, batch, site.options, step=step)


def _restore(site: Site) -> None:
    savepoints.restore(site.pipeline().topology, site.options, savepoint_id=oldest(site).id)


def _restore_newest(site: Site) -> None:
    savepoints.restore(site.pipeline().topology, site.options)


def _fork(site: Site) -> None:
    topology = site.pipeline(FORK).topology
    savepoints.fork(topology, ("shop", JOB), site.options, savepoint_id=oldest(site).id)


def _rescale(site: Site) -> None:
    rescale(site.pipeline().topology, 2, site.options)


def _rescale_live(site: Site) -> None:
    """As the command does it in another process, whose request and its answer are files, too."""
    running = RUNNING.pop()
    outcome = rescale_running(site.pipeline().topology, site.options, 3, reason="a crash point")
    assert outcome is not None, "the stream does not run"
    assert outcome.report is not None, str(outcome.refused)
    running.stop()


def backfill(site: Site) -> None:
    """Replace the rows of the first partition by those of the code that will be promoted; the former one goes on."""
    site.code = replace(FORMER, kept=PROMOTED)
    try:
        site.pipeline().backfill(FIRST_HOUR, replace(site.options, keep_state=True))
    finally:
        site.code = FORMER


def _refuse_some(site: Site) -> None:
    """Too strict code makes dead letters."""
    site.code = replace(FORMER, usual=STRICT)
    _grow_and_run(site)
    site.code = FORMER


def redrive(site: Site) -> None:
    """Redrive the dead letters of the strict code through the code of before."""
    site.code = FORMER
    site.pipeline().redrive(site.options, where=REFUSED)


def promote(site: Site) -> None:
    """Promote the code with the other condition, and replace the rows of all partitions that have closed."""
    site.code = replace(FORMER, kept=PROMOTED)
    pipeline = site.pipeline()
    pipeline.promote(pipeline.topology.code, replace(site.options, keep_state=True), rewrite_from=FIRST_HOUR)


def _former_first(site: Site) -> None:
    """Before the switch the former code is that of the pipeline, and goes on."""
    site.code = FORMER
    _grow_and_run(site)
    promote(site)


def _begin_anew(site: Site) -> None:
    """What is forgotten is in a savepoint, too, and in an earlier generation."""
    site.code = FORMER
    _grow(site)
    site.pipeline().run(replace(site.options, new_generation=True))
    _savepoint(site)


def forget(site: Site) -> None:
    """Forget the records of a page that were read until now."""
    done = site.pipeline().forget({"page": [FORGOTTEN]}, site.options, savepoints="remove")
    assert done.complete, str(done)


def _compact(site: Site) -> None:
    compact_everything([site.pipeline()], site.options.home)


def _lose(site: Site) -> None:
    if site.uploaded:
        _grow(site)
        site.lose(site.home)
        return
    _savepoint(site)
    _grow(site)
    shutil.rmtree(site.options.home.job("shop", JOB))


def _finish(site: Site) -> None:
    site.pipeline().run(site.options, finish=True)


def _remove_first(site: Site) -> None:
    """A new generation does not read the records of the first file, whose rows are in the tables."""
    _grow(site)
    # The operation before has ended the input.
    begin(site)
    min(site.place("a").iterdir()).unlink()


def begin(site: Site) -> None:
    """Begin a new generation."""
    site.pipeline().run(replace(site.options, new_generation=True))


@dataclass(frozen=True, slots=True)
class Operation:
    """What is recorded, and what goes before it unrecorded.

    `again` is what people do when a crash has cut it short and the next start is refused.
    """

    deed: Deed
    first: Deed = _nothing
    again: Deed | None = None


OPERATIONS: Mapping[str, Operation] = {
    "first start": Operation(_run, first=_grow),
    "batch": Operation(_run, first=_grow),
    "stop": Operation(_stop, first=_start),
    "savepoint": Operation(_savepoint),
    "restore": Operation(_restore, first=_grow_and_run, again=_restore),
    "fork": Operation(_fork, first=_run, again=_fork),
    "rewind": Operation(_rewind, first=_grow_and_run, again=_rewind),
    "compact": Operation(_compact),
    "rescale": Operation(_rescale, again=_rescale),
    "live rescale": Operation(_rescale_live, first=_start),
    "recover": Operation(_run, first=_lose, again=_restore_newest),
    "finish": Operation(_finish, first=_grow),
    "new generation": Operation(begin, first=_remove_first, again=begin),
    "backfill": Operation(backfill, first=_grow_and_run),
    "redrive": Operation(redrive, first=_refuse_some),
    "promote": Operation(promote, first=_grow_and_run, again=_former_first),
    "forget": Operation(forget, first=_begin_anew, again=forget),
}


def oldest(site: Site) -> Savepoint:
    """The savepoint that was taken first."""
    return savepoints.savepoints_of(site.options).savepoints("shop", JOB)[-1]


@contextmanager
def recorded(operation: str) -> Iterator[None]:
    """Changes of files in the block belong to `operation`."""
    _mark("begin", operation)
    yield
    _mark("end", operation)


def _mark(what: str, operation: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["RS_TORTURE_SOCKET"])
        connection.send(f"mark\n{what}\n{operation}\n".encode())
        assert connection.recv(1), "the recorder has failed"


def _all_of(site: Site) -> tuple[str, ...]:
    if site.uploaded:
        return OF_UPLOADS
    return OF_PARTITIONS if site.parted else tuple(name for name in OPERATIONS if name not in OF_PARTITIONS[2:])


def main(root: str, *chosen: str) -> None:
    """Do the chosen operations, none for all, one after the other."""
    driver = SparkDriver.shared(SMALL)
    # Spark's own start is not part of any operation.
    driver.call(lambda spark: spark.range(1).count())
    site = Site(Path(root), driver, shuffled=SHUFFLED in chosen, uploaded=UPLOADED in chosen, parted=PARTED in chosen)
    site.make()
    named = [name for name in chosen if name not in (SHUFFLED, UPLOADED, PARTED)]
    for name in named or _all_of(site):
        operation = OPERATIONS[name]
        operation.first(site)
        with recorded(name):
            operation.deed(site)
        print(name, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

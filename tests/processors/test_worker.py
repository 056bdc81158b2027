"""The worker of a function with state: killed, hanging, printing, raising. The state is as if nothing had happened."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from rs_assets.errors import RsError, StepError
from tests.processors.conftest import source

CLICKS = "user string, page string, ms bigint"
COUNT = {"keys": "user", "state": "n bigint", "schema": "user string, n bigint", "buckets": 2}
BATCHES = [[{"user": user, "page": "/", "ms": ms} for user in ("ann", "bo")] for ms in range(3)]
COUNTED = [[("ann", n), ("bo", n)] for n in (1, 2, 3)]


def counted(key, state, rows):
    now = {"n": (state["n"] if state else 0) + len(rows)}
    return now, [{"user": key["user"], **now}]


def flat(told):
    return [sorted((row["user"], row["n"]) for row in rows) for rows in told]


def first_time(path):
    """Whether this is the first call with `path`, in any process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@pytest.mark.parametrize("how", ["killed", "exited", "printed"])
def test_a_worker_that_dies_or_prints_changes_no_result(follow, tmp_path, how):
    mark = str(tmp_path / "mark")

    def broken(key, state, rows):
        if rows[0]["ms"] == 1 and first_time(mark):
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "exited":
                os._exit(3)
        print("RS" * 1000, flush=True)
        os.system("echo from a child; cat")
        sys.stdout.buffer.write(b"\x00" * 13)
        return counted(key, state, rows)

    assert flat(follow(source(CLICKS).process_values(broken, **COUNT), BATCHES)) == COUNTED
    assert Path(mark).exists()


def test_a_worker_that_dies_twice_with_the_same_rows_ends_the_run(follow):
    def fatal(key, state, rows):
        os._exit(7)

    with pytest.raises(StepError, match="ended twice with the same rows, with exit code 7"):
        follow(source(CLICKS).process_values(fatal, **COUNT), BATCHES)


def test_a_worker_that_hangs_is_ended_after_its_timeout(follow):
    def hanging(key, state, rows):
        if rows[0]["ms"] == 1:
            time.sleep(600)
        return counted(key, state, rows)

    began = time.monotonic()
    with pytest.raises(StepError, match="took longer than 0:00:02"):
        follow(source(CLICKS).process_values(hanging, **COUNT, timeout=timedelta(seconds=2)), BATCHES)
    assert time.monotonic() - began < 300


def test_a_function_that_raises_at_its_second_call_leaves_no_half_batch(driver, tmp_path):
    from rs_assets.testing import PipelineDriver

    mark = str(tmp_path / "mark")

    def once(key, state, rows):
        if rows[0]["ms"] == 1 and key["user"] == "bo" and first_time(mark):
            raise ValueError("only once")
        return counted(key, state, rows)

    stream = source(CLICKS).process_values(once, **{**COUNT, "buckets": 1})
    with PipelineDriver(stream.to_print().build(), spark=driver) as pipeline:
        told, failures = [], []
        for rows in BATCHES:
            pipeline.push(rows)
            try:
                pipeline.step()
            except RsError as error:
                failures.append(str(error))
                pipeline.restart()
                pipeline.step()
            told.append(pipeline.take())
    assert flat(told) == COUNTED
    assert ["raised ValueError: only once" in failure for failure in failures] == [True]

"""Rescaling a stream that runs: the same output as without, whatever changes meanwhile and wherever it is cut short."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from rs_assets import StreamBuilder, Time
from rs_assets.catalog.catalog import Catalog
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.run import live_rescale
from rs_assets.runtime.upkeep import beside
from rs_assets.runtime.upkeep import repartition as module
from rs_assets.runtime.upkeep.repartition import state_sum
from tests.recovery.join_world import ROWS, JoinWorld
from tests.recovery.test_rescale import PARTS, SCHEMA, WINDOWS, folder, pipeline, rows
from tests.torture.history import process_all


@pytest.fixture
def quick(options):
    return replace(options, interval=timedelta(milliseconds=20))


@pytest.fixture
def unaided(monkeypatch):
    """The state comes from next to the query, and is not rewritten by Spark while the stream waits."""

    def refused(*_):
        raise AssertionError("the whole state was rewritten")

    monkeypatch.setattr(JobSession, "finish_rescale", refused)


@pytest.fixture
def meanwhile(monkeypatch):
    """What is done when the checkpoint was copied, and what before the copy follows for the last time."""
    deeds = []
    copy, compared = beside.copy, live_rescale._compared

    def then(do):
        def doing(*args):
            found = do(*args)
            if deeds:
                deeds.pop(0)()
            return found

        return doing

    monkeypatch.setattr(beside, "copy", then(copy))
    monkeypatch.setattr(live_rescale, "_compared", then(compared))
    return deeds


def put(running, channel, part):
    channel.put(*part)
    process_all(running)


@pytest.mark.parametrize(
    "kind",
    [
        "tumbling",
        "totals",
        "merging",
        *(pytest.param(k, marks=pytest.mark.long) for k in ("days", "session", "counted")),
    ],
)
@pytest.mark.usefixtures("unaided")
def test_rescale_of_a_running_stream_leaves_its_output_as_without(quick, meanwhile, kind):
    scaled, plain = MemoryChannel(schema=SCHEMA), MemoryChannel(schema=SCHEMA)
    job, other = pipeline(scaled, WINDOWS[kind]), pipeline(plain, WINDOWS[kind], job="plain")
    with job.start(quick) as running:
        put(running, scaled, PARTS[0])
        meanwhile += [lambda part=part: put(running, scaled, part) for part in (PARTS[1][:20], PARTS[1][20:])]
        report = running.rescale(5)
        assert (report.before, report.after) == (2, 5)
        assert sum(report.state_rows.values()) > 0
        put(running, scaled, PARTS[2])
        # Nothing changes meanwhile.
        assert running.rescale(3).before == 5
        put(running, scaled, PARTS[3])
    for part in PARTS:
        plain.put(*part)
        other.run(quick)
    job.run(quick, finish=True)
    other.run(quick, finish=True)
    assert rows(quick) == rows(quick, "plain")
    assert manifests.load(folder(quick)).partitions == 3
    assert not (folder(quick) / beside.FOLDER).exists()


class LiveJoin(JoinWorld):
    """The join, while it runs."""

    def grow(self, count):
        self.append(**{name: every[self.read : self.read + count] for name, every in ROWS.items()})
        self.read += count


@pytest.mark.usefixtures("unaided")
def test_rescale_of_a_running_join_takes_the_rows_that_wait_along(quick, tmp_path, meanwhile):
    world = LiveJoin(quick, tmp_path)
    with world.pipeline().start(quick) as running:

        def grow():
            world.grow(15)
            process_all(running)

        grow()
        meanwhile += [grow, grow]
        assert running.rescale(3).after == 3
        # The batches before keep the number of their state.
        assert world.log_of_query().partitions(0) == 2
        grow()
        assert running.rescale(1).before == 3
        grow()
    world.run(finish=True)
    assert world.result() == world.expected()


def test_rescaled_state_of_a_running_stream_has_the_rows_of_the_state_before(quick, monkeypatch, meanwhile):
    channel, sums = MemoryChannel(schema=SCHEMA), []
    swap_in = beside.swap_in

    def summed(copy):
        def both(spark):
            copy.log.pin_partitions(copy.before)
            sums.append(state_sum(spark, copy.log))
            swap_in(copy)
            sums.append(state_sum(spark, copy.log))

        quick.driver.call(both)

    monkeypatch.setattr(beside, "swap_in", summed)
    with pipeline(channel, WINDOWS["totals"]).start(quick) as running:
        put(running, channel, PARTS[0])
        meanwhile.append(lambda: put(running, channel, PARTS[2]))
        running.rescale(4)
    assert sums[0] == sums[1]
    assert sums[0].rows > 0
    known = Catalog(quick.home.catalog).there("system_messages", ("batch_id",), pipeline="shop.scaled", from_batch=0)
    log = CheckpointLog(folder(quick) / "g0001" / "window" / "checkpoint")
    assert [log.partitions(batch) for batch in (0, log.last_committed())] == [2, 4]
    assert {(batch,) for batch in log.committed_batches()} <= set(known)


MOMENTS = {
    "planned": (CheckpointLog, "begin_rewrite", True),
    "some state": (beside, "_give", True),
    "before the commit": (CheckpointLog, "end_rewrite", False),
    "behind the commit": (CheckpointLog, "end_rewrite", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_live_rescale_that_is_cut_short_is_finished_by_the_next_start(quick, monkeypatch, meanwhile, moment):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    running = job.start(quick)
    put(running, channel, PARTS[0])
    meanwhile.append(lambda: put(running, channel, PARTS[1]))
    with monkeypatch.context() as crash:
        place, name, done = MOMENTS[moment]
        whole = getattr(place, name)

        def cut(*args):
            if done:
                whole(*args)
            raise KeyboardInterrupt

        crash.setattr(place, name, cut)
        with pytest.raises(KeyboardInterrupt):
            running.rescale(5)
    assert manifests.load(folder(quick)).rescaling == 5
    channel.put(*PARTS[2])
    job.run(quick, finish=True)
    manifest = manifests.load(folder(quick))
    assert (manifest.partitions, manifest.rescaling) == (5, 0)
    assert not (folder(quick) / beside.FOLDER).exists()
    assert sum(row["rows"] for row in rows(quick)) == 120


def test_copy_that_cannot_be_swapped_in_is_given_up_and_the_state_is_rewritten_while_the_stream_waits(
    quick, monkeypatch
):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    with job.start(quick) as running:
        put(running, channel, PARTS[0])

        def fail(*_):
            raise CheckpointError("the query has gone on")

        monkeypatch.setattr(beside, "swap_in", fail)
        assert running.rescale(5).after == 5
        assert any(live_rescale.REWRITTEN in warning for warning in running.session.report().warnings)
        put(running, channel, PARTS[1])
    job.run(quick, finish=True)
    assert manifests.load(folder(quick)).partitions == 5
    assert sum(row["rows"] for row in rows(quick)) == 80


def test_live_rescale_that_fails_before_the_swap_leaves_the_stream_running(quick, monkeypatch):
    channel = MemoryChannel(schema=SCHEMA)

    sums = iter([module.StateSum(7, 1), module.StateSum(6, 1)])
    with pipeline(channel, WINDOWS["tumbling"]).start(quick) as running:
        put(running, channel, PARTS[0])
        monkeypatch.setattr(beside, "state_sum", lambda *_: next(sums))
        with pytest.raises(CheckpointError, match="has 6 rows, and the state 7"):
            running.rescale(5)
        put(running, channel, PARTS[1])
        assert running.active
        assert manifests.load(folder(quick)).partitions == 2


def test_invalid_number_for_a_running_stream_is_refused_and_it_runs_on(quick):
    channel = MemoryChannel(schema=SCHEMA)
    with pipeline(channel, WINDOWS["tumbling"]).start(quick) as running:
        with pytest.raises(ConfigurationError, match="is not a number of partitions"):
            running.rescale(0)
        put(running, channel, PARTS[0])


def test_stream_that_was_stopped_is_rescaled_as_a_stopped_pipeline(quick):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, WINDOWS["tumbling"])
    running = job.start(quick)
    put(running, channel, PARTS[0])
    running.stop()
    with pytest.raises(PipelineBusyError, match="was stopped meanwhile") as refused:
        running.rescale(3)
    assert refused.value.remedy == "nothing has changed; rescale the stopped pipeline"
    assert job.rescale(3, quick).after == 3


def test_stream_counts_as_active_while_its_queries_are_exchanged(quick):
    channel, ended = MemoryChannel(schema=SCHEMA), []
    with pipeline(channel, WINDOWS["tumbling"]).start(quick) as running:
        put(running, channel, PARTS[0])
        waiting = threading.Thread(target=lambda: ended.append(running.await_termination(timeout_s=600)))
        with running.swapping():
            quick.driver.call(lambda _: running.session.stop_queries())
            waiting.start()
            waiting.join(timeout=0.5)
            assert not ended
            live_rescale._go_on(running.session)
        put(running, channel, PARTS[1])
        assert not ended
    waiting.join()


def test_stream_without_a_batch_is_rescaled_at_its_first_one(quick):
    channel = MemoryChannel(schema=SCHEMA)
    stream = StreamBuilder.data_stream("shop", "scaled").from_memory(channel, name="input")
    once = stream.distinct("key", within=Time.minutes(9), time_field="ts").to_delta("scaled").build()
    with once.start(quick) as running:
        assert running.rescale(3).state_rows == {}
        put(running, channel, PARTS[0])
    assert manifests.load(folder(quick)).partitions == 3


def test_a_stop_cancels_the_copy_of_the_state_and_a_look_at_the_stream_does_not_wait_for_it(quick, monkeypatch):
    channel, writes, ended = MemoryChannel(schema=SCHEMA), threading.Event(), []
    job = pipeline(channel, WINDOWS["tumbling"])

    def endless(spark, _):
        writes.set()
        spark.range(1 << 50).selectExpr("sum(id)").collect()

    def rescale(running):
        with pytest.raises(PipelineBusyError, match="was stopped meanwhile"):
            running.rescale(3)
        ended.append(not (folder(quick) / beside.FOLDER).exists())

    running = job.start(quick)
    put(running, channel, PARTS[0])
    with monkeypatch.context() as patch:
        patch.setattr(beside, "write", endless)
        thread = threading.Thread(target=rescale, args=(running,))
        thread.start()
        writes.wait()
        assert running.status()["rows_in"] == len(PARTS[0])
        running.stop()
        # The copies are gone before the lease is.
        thread.join(timeout=120)
    assert ended == [True]
    assert job.rescale(3, quick).after == 3

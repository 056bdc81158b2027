"""Promote: the code that was tried goes on, and closed partitions get its rows, also after a crash in between."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from rs_assets.catalog import requests
from rs_assets.catalog.desired_state import request_run
from rs_assets.catalog.lease import held_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.connectors.delta.backfill import Replacement
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError, SinkError, TopologyChangedError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded import promote
from rs_assets.runtime.recorded.promote import Promoted
from tests.runtime.test_backfill import ELEVEN, TEN, Log, _at, hour, kept, log, rows, windows
from tests.runtime.test_compare import files, summed

__all__ = ["log"]
TWELVE = "2026-01-05-12:00"


def keys(done: Promoted) -> tuple[str, ...]:
    return tuple(each.partition for each in done.rewritten)


def codes(options: RunOptions) -> set[str]:
    """The code of the next batch of each query."""
    stored = manifests.load(options.home.job("fill", "hits"))
    assert stored is not None
    return {facts.codes[-1][1] for facts in stored.queries.values()}


def test_a_crash_between_two_partitions_is_completed_by_the_next_call(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    former, current = kept(log, "id < 4"), kept(log, "id <> 2")
    with pytest.raises(CheckpointError, match="no batch of another code"):
        current.promote(current.topology.code, options)
    for records in ([(1, "10:05"), (2, "10:07")], [(2, "11:15"), (3, "11:20")], [(1, "12:30"), (2, "12:31")]):
        log.put(*records)
    former.run(options)
    tried = current.compare(options)
    with pytest.raises(ConfigurationError, match=f"and {tried.code} was tried"):
        former.promote(tried.code, options)
    home = files(options)
    planned = current.promote(tried.code, options, rewrite_from=TEN, plan=True)
    assert (keys(planned), planned.left, planned.switched) == ((TEN, ELEVEN), (TWELVE,), True)
    assert str(planned).startswith(f"code {tried.code} would compute file from batch 3 on; before: ")
    with pytest.raises(ConfigurationError, match="judge must be one of all, as_then, as_now"):
        current.promote(tried.code, options, judge="none")  # type: ignore[arg-type]
    assert files(options) == home
    write = Replacement.write

    def crash(self: Replacement, *given: Any, **named: Any) -> tuple[int, int]:
        if self.value.hour == 11:  # type: ignore[union-attr]
            raise SinkError("the disk is full", remedy="make room")
        return write(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Replacement, "write", crash)
        with pytest.raises(SinkError, match="the disk is full") as failed:
            current.promote(tried.code, options, rewrite_from=TEN)
    assert "make room; the code is promoted" in failed.value.remedy
    assert codes(options) == {tried.code}
    assert rows(options, "id") == Counter({(1,): 2, (2,): 2, (3,): 1})
    done = current.promote(tried.code, options, rewrite_from=TEN)
    assert (keys(done), done.already, done.left, done.switched) == ((ELEVEN,), (TEN,), (TWELVE,), False)
    # The rows of noon are those of both codes, until it has closed.
    log.put((2, "12:40"), (4, "13:30"))
    current.run(options)
    assert rows(options, "id") == Counter({(1,): 2, (2,): 1, (3,): 1, (4,): 1})
    done = current.promote(tried.code, options, rewrite_from=TEN)
    # At one only the current code was there.
    assert (keys(done), done.already, done.left) == ((TWELVE,), (TEN, ELEVEN), ())
    assert rows(options, "id") == Counter({(1,): 2, (3,): 1, (4,): 1})


def test_late_records_that_a_backfill_has_taken_are_rewritten_as_they_were_tried(log: Log, options: RunOptions) -> None:
    for records in ([(1, "10:05"), (2, "10:07")], [(1, "11:15")], [(1, "10:06"), (1, "12:30")]):
        log.put(*records)
        summed(log).run(options)
    summed(log).backfill(TEN, options)
    log.put((1, "10:08"), (1, "13:30"))
    summed(log).run(options)
    current = summed(log, "id <> 2")
    tried = current.compare(options)
    current.promote(tried.code, replace(options, keep_state=True), rewrite_from=TEN)
    taken = [record for record in log.records if record[0] != 2 and record != (1, _at("10:08"))]
    found = rows(options, "id", "start_time", "n")
    assert hour(found, 10) == hour(windows(taken), 10)
    assert current.compare(options).empty


def test_state_of_another_code_needs_a_decision_before_anything_is_changed(log: Log, options: RunOptions) -> None:
    for records in ([(1, "10:05"), (2, "10:07")], [(1, "11:15"), (2, "11:16")], [(1, "12:30")]):
        log.put(*records)
    summed(log).run(options)
    current = summed(log, "id <> 2")
    code, home = current.compare(options).code, files(options)
    with pytest.raises(TopologyChangedError, match="--keep-state"):
        current.promote(code, options, rewrite_from=TEN)
    forgetting = replace(options, reset_steps=("windows",))
    with pytest.raises(ConfigurationError, match="replaces all rows") as refused:
        current.promote(code, forgetting, rewrite_from=TEN)
    assert refused.value.remedy == "leave out which partitions to rewrite"
    assert files(options) == home
    done = current.promote(code, replace(options, keep_state=True), rewrite_from=TEN)
    assert (keys(done), done.left) == ((TEN, ELEVEN), (TWELVE,))
    with pytest.raises(ConfigurationError, match="computes the next batch already"):
        current.promote(code, forgetting)
    # It goes on without a decision; what was open has the rows of its code.
    log.put((2, "12:40"), (1, "13:30"), (1, "14:30"))
    current.run(options)
    done = current.promote(code, options, rewrite_from=TEN)
    assert (keys(done), done.already, done.left) == ((TWELVE,), (TEN, ELEVEN), ())
    found = rows(options, "id", "start_time", "n")
    wanted = windows([record for record in log.records if record[0] != 2])
    assert [hour(found, at) for at in (10, 11, 12)] == [hour(wanted, at) for at in (10, 11, 12)]


@pytest.mark.long
def test_a_step_that_is_reset_reads_all_input_by_the_promoted_code(log: Log, options: RunOptions) -> None:
    for records in ([(1, "10:05"), (2, "10:07")], [(1, "12:30")]):
        log.put(*records)
    summed(log).run(options)
    current = summed(log, "id <> 2")
    done = current.promote(current.topology.code, replace(options, reset_steps=("windows",)))
    assert (done.batches, done.rewritten) == ({"windows": 0}, ())
    current.run(options, finish=True)
    wanted = windows([record for record in log.records if record[0] != 2])
    assert rows(options, "id", "start_time", "n") == wanted


def test_a_run_is_asked_to_stop_and_a_stream_to_go_on(
    log: Log, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.put((1, "10:05"))
    kept(log, "id < 4").run(options)
    current, folder = kept(log, "id <> 2"), options.home.job("fill", "hits")
    code = current.topology.code
    stream = held_lease(options.home.leases, pipeline="fill.hits", run_id="stream", ttl=options.lease_ttl)
    with stream:
        with pytest.raises(PipelineBusyError, match="runs in this process"):
            current.promote(code, options)
        request_run(folder, "stream")
        monkeypatch.setattr(promote, "_here", lambda _: False)
        monkeypatch.setattr(promote, "STOP_S", 0.0)
        with pytest.raises(PipelineBusyError, match="did not stop within 0 s"):
            current.promote(code, options)
    assert codes(options) != {code}
    assert requests.asked(folder, "stop") is None
    requests.clear(folder, "resume")
    stream = held_lease(options.home.leases, pipeline="fill.hits", run_id="stream", ttl=options.lease_ttl)
    stream.__enter__()

    def ends(*_: object) -> None:
        asked = requests.asked(folder, "stop")
        assert asked is not None
        assert asked["reason"] == "promote"
        stream.__exit__(None, None, None)

    monkeypatch.setattr(promote, "_wait_until_free", ends)
    done = current.promote(code, options)
    assert (done.stopped, codes(options)) == ("stream", {code})
    assert "run stream was stopped" in str(done)
    assert requests.asked(folder, "stop") is None
    assert requests.asked(folder, "resume") is not None


def test_a_promotion_that_was_undone_by_a_rewind_is_made_again(log: Log, options: RunOptions) -> None:
    former, current = summed(log, "id < 100"), summed(log, "id <> 2")
    keeping = replace(options, keep_state=True)
    for records in ([(1, "10:05"), (2, "10:07")], [(2, "11:15")], [(1, "12:30"), (2, "12:31")]):
        log.put(*records)
    former.run(options)
    code = current.compare(options).code
    current.promote(code, keeping)
    log.put((1, "13:40"), (2, "13:41"))
    current.run(options)
    former.rewind(1, options)
    assert codes(options) == {former.topology.code}
    # The state is that of the former code again, and the first batch is another one.
    done = current.promote(code, keeping)
    assert (done.switched, done.batches, done.former) == (True, {"windows": 2}, former.topology.code)
    with pytest.raises(TopologyChangedError, match="another version of the pipeline"):
        former.run(options)
    current.run(options)
    assert codes(options) == {code}


def test_what_a_promotion_of_an_earlier_generation_has_noted_does_not_count(log: Log, options: RunOptions) -> None:
    former, current = kept(log, "id < 4"), kept(log, "id <> 2")
    for records in ([(1, "10:05"), (2, "10:07")], [(2, "11:15"), (3, "11:20")]):
        log.put(*records)
    former.run(options)
    code = current.compare(options).code
    current.promote(code, options, rewrite_from=TEN)
    # Another generation, in which the current code begins with the same batch, and later in the input.
    (one, two) = sorted(log.folder.iterdir())
    one.write_bytes(one.read_bytes() + two.read_bytes())
    two.unlink()
    log.put((2, "12:30"), (1, "13:31"))
    former.run(replace(options, new_generation=True))
    log.put((1, "14:10"))
    current.run(options)
    assert rows(options, "id")[(2,)] == 3
    done = current.promote(code, options, rewrite_from=TEN)
    assert (done.switched, done.batches) == (False, {"file": 2})
    assert keys(done) == (TEN, ELEVEN, TWELVE, "2026-01-05-13:00")
    assert rows(options, "id")[(2,)] == 0

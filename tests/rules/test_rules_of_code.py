"""Rules of the program are code: batches that are computed again are judged by those of the current code."""

import pytest

from rs_assets import Rules, Time
from rs_assets.errors import SourceReadError
from rs_assets.runtime.batch.dimensions import BatchVersions
from tests.runtime.test_backfill import ELEVEN, TEN, Log, hourly, rows
from tests.runtime.test_promote import TWELVE


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "in")


def judged(log, **conditions):
    stream = log.stream().match(Rules.of(conditions), form="per_match", name="judge")
    return stream.to_delta("hits", partitions=hourly("ts", settle=Time.minutes(0))).build()


def found(options):
    return sorted(rows(options, "id", "rule", "rule_version").elements())


def test_try_promote_and_backfill_judge_by_the_rules_of_the_current_code(log, options):
    for records in ([(1, "10:05"), (2, "10:07")], [(3, "11:15")], [(1, "12:30")]):
        log.put(*records)
    former, current = judged(log, odd="(id,=,1)|(id,=,3)"), judged(log, even="(id,=,2)", last="(id,=,3)")
    former.run(options)
    assert found(options) == [(1, "odd", 1), (1, "odd", 1), (3, "odd", 1)]
    tried = current.compare(options)
    assert (tried.only_before, tried.only_after, tried.changed) == (2, 2, 0)
    done = current.promote(tried.code, options, rewrite_from=TEN)
    assert done.left == (TWELVE,)
    assert found(options) == [(1, "odd", 1), (2, "even", 2), (3, "last", 2)]
    log.put((2, "12:31"), (1, "13:30"))
    current.run(options)
    # The version has the number that a run gives it.
    assert found(options) == [(1, "odd", 1), (2, "even", 2), (2, "even", 2), (3, "last", 2)]
    assert current.compare(options, partition=TEN, to=ELEVEN).empty
    assert all(proof.equal for proof in current.prove(options, partition=TEN, to=ELEVEN))
    # Back to the former rules, whose version is still in the home.
    former.backfill(TEN, options)
    assert found(options) == [(1, "odd", 1), (1, "odd", 1), (2, "even", 2), (3, "last", 2)]


def test_batches_that_are_read_again_after_a_rewind_are_judged_by_the_rules_of_the_current_code(log, options):
    former, current = judged(log, odd="(id,=,1)|(id,=,3)"), judged(log, even="(id,=,2)", last="(id,=,3)")
    for records in ([(1, "10:05"), (2, "10:07")], [(3, "11:15"), (2, "11:16")], [(1, "12:30"), (2, "12:31")]):
        log.put(*records)
        former.run(options)
    former.rewind(0, options)
    current.run(options)
    assert found(options) == [(1, "odd", 1), (2, "even", 2), (2, "even", 2), (3, "last", 2)]


@pytest.mark.parametrize("batch", [1, 2])
def test_so_are_those_of_which_one_is_killed_before_it_is_judged(log, options, monkeypatch, batch):
    """Spark has planned it; what is noted for it is what its start began with."""
    codes = [judged(log, one="(id,=,1)"), judged(log, two="(id,=,2)"), judged(log, three="(id,=,3)")]
    for code, hour in zip(codes, (10, 11, 12), strict=True):
        log.put((1, f"{hour}:05"), (2, f"{hour}:06"), (3, f"{hour}:07"))
        code.run(options)
    codes[0].rewind(0, options)
    pin = BatchVersions.pin

    def killed(versions, batch_id, **asked):
        if batch_id == batch:
            raise SourceReadError("killed", remedy="start again")
        return pin(versions, batch_id, **asked)

    with monkeypatch.context() as patched:
        patched.setattr(BatchVersions, "pin", killed)
        with pytest.raises(SourceReadError, match="killed"):
            codes[0].run(options)
    codes[0].run(options)
    assert [(key, rule) for key, rule, _ in found(options)] == [(1, "one")] * 3

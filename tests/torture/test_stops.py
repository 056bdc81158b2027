"""A few of the cases of `make torture ARGS=stops`: a stop is a wish in each phase, and a kill is none."""

import pytest

from tests.torture.stop_origins import STARTS
from tests.torture.stops import NOT_REACHED, PHASES, WAYS, Case, done, every_stop, planned


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("phase", "way"),
    [("is checked", "SIGHUP"), ("starts a query", "SIGINT"), ("computes a batch", "Terminate")],
)
def test_recovery_of_a_stream_that_was_stopped_in_a_phase_leaves_it(tmp_path, driver, phase, way):
    assert done(Case(1, phase, way, behind=False), tmp_path) == ""


@pytest.mark.timeout(600)
def test_recovery_of_a_stream_that_was_killed_starts_it_again(tmp_path):
    assert done(Case(1, "is checked", "SIGKILL", behind=True), tmp_path) == ""


def test_planned_stops_of_a_seed_are_the_same_for_ever_and_cover_all_phases_ways_and_origins():
    count = len(list(every_stop()))
    plan = list(planned(3, count, kills=5))
    assert plan == list(planned(3, count, kills=5))
    stops = [case for case in plan if not case.kills]
    assert {case.phase for case in stops} == set(PHASES)
    assert {case.way for case in stops} == set(WAYS)
    assert {case.origin for case in stops} == set(STARTS)
    assert (len(set(stops)), len(plan)) == (count, count + 5)


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_has_a_function_of_the_product(phase):
    owner, name = PHASES[phase]
    assert callable(getattr(owner, name))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("number", "way", "origin"),
    [
        # A stream that is deployed has a name that no code of this process has.
        (101, "SIGTERM", "a standby"),
        (102, "Terminate", "recovery"),
        (103, "deploy --stop", "deployments"),
        (104, "eviction", "Dagster"),
    ],
)
def test_recovery_of_a_stream_that_others_have_started_heeds_its_stop(tmp_path, driver, number, way, origin):
    assert done(Case(number, "starts a query", way, behind=False, origin=origin), tmp_path) == ""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", list(planned(7, 20, kills=4)), ids=str)
def test_recovery_of_streams_that_were_stopped_or_killed_at_a_seeds_moments_is_right(tmp_path, driver, case):
    # A machine that is too busy may not reach the moment at once.
    tries = (done(case, tmp_path / name) for name in ("first", "second"))
    assert next((found for found in tries if found != NOT_REACHED), NOT_REACHED) == ""

"""From some crash points, those that once led to wrong results or refusals, a pipeline goes on; and a short history."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.torture.histories import done, planned
from tests.torture.operations import PARTED, SHUFFLED, UPLOADED
from tests.torture.recorder import Crash, Point, ShimError, compile_shim, record
from tests.torture.recover import distinct, evenly, outcomes
from tests.torture.site import Site

# Tens of starts, one after the other.
pytestmark = pytest.mark.timeout(3600)

TOWN = "home/checkpoints/shop/town"
# A start that recovers finds the first ones done, so these are all recorded in one go.
RECORDED = ("first start", "recover")
POINTS = (
    # The plan of the very first batch is being written.
    Point("first start", "create", f"{TOWN}/g0001/window/checkpoint/offsets/..0.*.tmp.crc", 1, "behind"),
    # The pipeline has no manifest yet.
    Point("first start", "create", f"{TOWN}/.manifest.json.*.tmp", 1, "behind"),
    # Folders are exchanged by a recovery, and then given the number of their generation.
    Point("recover", "rename", f"{TOWN}/g0001", 1, "behind"),
    Point("recover", "rename", f"{TOWN}/g0002/window", 1, "behind"),
)


def test_a_pipeline_goes_on_from_crash_points_that_were_once_too_much(driver, tmp_path):
    try:
        compile_shim(tmp_path)
    except ShimError as error:
        pytest.skip(str(error))
    recording = record(tmp_path, *RECORDED)
    found = {crash.point: crash for crash in recording.crashes}
    assert set(POINTS) <= found.keys()
    site = Site(recording.root, driver)
    for outcome in outcomes(site, recording, [(found[point], 1) for point in POINTS]):
        assert (outcome.wrong, outcome.refused) == ("", ()), outcome.crash.point


@pytest.mark.long
def test_a_pipeline_with_a_shuffle_goes_on_from_crash_points_of_its_ways_back(driver, tmp_path):
    """Some of them, evenly; `make torture ARGS='crashes --shuffled'` goes on from all."""
    try:
        compile_shim(tmp_path)
    except ShimError as error:
        pytest.skip(str(error))
    ways = ("savepoint", "restore", "rewind")
    recording = record(tmp_path, SHUFFLED, "first start", "batch", "batch", *ways)
    site = Site(recording.root, driver, shuffled=True)
    for outcome in outcomes(site, recording, evenly(distinct(recording.of(*ways)))[:15]):
        assert outcome.wrong == "", outcome.crash.point


@pytest.mark.long
def test_a_pipeline_that_loses_its_home_at_a_crash_point_continues_from_its_uploads(driver, tmp_path):
    """Some of them, evenly; `make torture ARGS='crashes --uploaded'` goes on from all."""
    try:
        compile_shim(tmp_path)
    except ShimError as error:
        pytest.skip(str(error))
    recording = record(tmp_path, UPLOADED)
    site = Site(recording.root, driver, uploaded=True)
    for outcome in outcomes(site, recording, evenly(distinct(recording.crashes))[:25], lost=True):
        assert (outcome.wrong, outcome.refused) == ("", ()), outcome.crash.point


@pytest.mark.long
def test_a_pipeline_goes_on_from_crash_points_of_a_live_rescale_that_was_requested(driver, tmp_path):
    """Some of them, evenly, most of them outside of the copies; `--operation 'live rescale'` goes on from all."""
    try:
        compile_shim(tmp_path)
    except ShimError as error:
        pytest.skip(str(error))
    recording = record(tmp_path, "first start", "live rescale")
    assert any("rescale.taken" in crash.point.path for crash in recording.of("live rescale"))
    trees = evenly(distinct(recording.of("live rescale")))
    copies = [each for each in trees if "/rescaling/" in each[0].point.path]
    others = [each for each in trees if each not in copies]
    site = Site(recording.root, driver)
    for outcome in outcomes(site, recording, [*others[:20], *copies[:4]]):
        assert (outcome.wrong, outcome.refused) == ("", ()), outcome.crash.point


@pytest.mark.long
def test_a_pipeline_goes_on_from_crash_points_of_what_reads_recorded_batches_again(driver, tmp_path):
    """Some of them, evenly: backfills, redrives, promotions and keys that are forgotten; `crashes --parted` has all."""
    try:
        compile_shim(tmp_path)
    except ShimError as error:
        pytest.skip(str(error))
    recording, again = record(tmp_path, PARTED), ("backfill", "redrive", "promote", "forget")
    for operation in again:
        assert recording.of(operation), operation
    site = Site(recording.root, driver, parted=True)
    for outcome in outcomes(site, recording, evenly(distinct(recording.of(*again)))[:40]):
        assert outcome.wrong == "", outcome.crash.point


@pytest.mark.long
def test_a_pipeline_goes_on_from_crash_points_of_a_new_generation(driver, tmp_path):
    """Some of them, evenly; `--operation 'new generation'` goes on from all."""
    try:
        compile_shim(tmp_path)
    except ShimError as error:
        pytest.skip(str(error))
    recording = record(tmp_path, "first start", "batch", "new generation")
    site = Site(recording.root, driver)
    for outcome in outcomes(site, recording, evenly(distinct(recording.of("new generation")))[:20]):
        assert (outcome.wrong, outcome.refused) == ("", ()), outcome.crash.point


@pytest.mark.canary
def test_a_short_history_of_what_people_do_is_right(driver, tmp_path):
    result = done(3, planned(3, 8), tmp_path / "site", driver)
    assert not result.finding, "\n".join(result.told)


def test_every_beginning_of_the_order_is_spread_evenly_over_operations_and_points():
    numbers = {"long": 300, "short": 30}
    trees = [
        (Crash(Point(name, "write", f"{n:03}", 1, "before"), {}), 1) for name, of in numbers.items() for n in range(of)
    ]
    order = [crash.point for crash, _ in evenly(trees)]
    assert sorted(order) == sorted(crash.point for crash, _ in trees)
    begun = order[:110]
    assert sum(point.operation == "short" for point in begun) == 10
    places = sorted(int(point.path) for point in begun if point.operation == "long")
    assert max(b - a for a, b in pairwise(places)) <= 4

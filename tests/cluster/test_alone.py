"""Machines that share nothing but S3: a standalone cluster and its drivers, lost and paused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rs_assets.spark.object_store import S3
from tests.cluster.alone import SCENARIOS, drawn
from tests.cluster.machines import NAMESPACES, possible

RUN_S = 800
SEEDS = range(20)


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", [*SCENARIOS, *map(str, SEEDS)])
def test_the_output_is_that_of_one_machine(tmp_path: Path, scenario: str) -> None:
    """Of a scenario, or of the loss that a seed draws, at its moment."""
    if not possible():
        pytest.skip("needs namespaces that a user may make: unshare --user --net, and ip")
    if not S3.complete:
        pytest.skip(f"needs the jars for S3: {S3.remedy}")
    done = subprocess.run(
        [*NAMESPACES, sys.executable, "-W", "ignore", "-m", "tests.cluster.alone", str(tmp_path), scenario],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    # Nothing was written where a machine would find it but for its own disk.
    assert json.loads(done.stdout.splitlines()[-1]) == {"missing": 0, "more": 0, "on the common path": []}


def test_the_seeds_draw_each_loss_at_many_moments() -> None:
    losses = [drawn(seed) for seed in SEEDS]
    assert {name for name, _ in losses} == set(SCENARIOS) - {"undisturbed"}
    assert len(set(losses)) == len(losses)
    # Also before a driver has written its first rows.
    assert any(moment.versions == 0 for _, moment in losses)

"""The wheel, and the project that `rs-assets init` writes: its own packages are called as in most Dagster projects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Run by the interpreter of the project: what lies first on its path is found first.
LOOK = "import pipelines, resources, rs_assets; print(*(p.__file__ for p in (pipelines, resources, rs_assets)))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_one_package(wheel):
    with zipfile.ZipFile(wheel) as content:
        tops = {name.partition("/")[0] for name in content.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rs_assets"}


def output(*command: str, folder: Path, world: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=world, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.slow
def test_a_new_project_works_at_once(wheel, tmp_path):
    """From an empty folder, with the wheel only; commands do the same in every folder of the project."""
    site, project = tmp_path / "site", tmp_path / "my-shop"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site)
    world = {**os.environ, "PYTHONPATH": str(site), "RS_SPARK_MASTER": "local[2]"}
    for name in ("RS_HOME", "DAGSTER_HOME"):
        world.pop(name, None)
    cli = ("-m", "rs_assets.cli.main")
    assert "wrote 10 files" in output(*cli, "init", "my-shop", folder=tmp_path, world=world)
    listed = "my_shop.revenue_by_country  orders -> hours -> revenue  bounded\n"
    assert output(*cli, "list", folder=project / "data", world=world) == listed
    world["PYTHONPATH"] = f"{project}:{site}"
    assert output("-c", LOOK, folder=project, world=world).split() == [
        str(project / "pipelines" / "__init__.py"),
        str(project / "resources" / "__init__.py"),
        str(site / "rs_assets" / "__init__.py"),
    ]
    output("-m", "dagster", "definitions", "validate", "-w", "workspace.yaml", folder=project, world=world)
    run = (*cli, "run", "revenue_by_country", "--plain", "--json")
    report = json.loads(output(*run, folder=project / "data", world=world))
    assert (report["rows_in"], report["rows_dead"]) == (300, 2)
    assert (project / ".rs" / "tables" / "my_shop" / "revenue_by_country" / "_delta_log").is_dir()
    output("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=project, world=world)

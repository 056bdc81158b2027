"""The wheel in a project whose own packages are called `pipelines` and `resources`, as in most Dagster projects."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIPELINE = """
from resources import TABLE
from rs_assets import StreamBuilder

rows = [{"page": "/"}, {"page": "/a"}, {"page": "/"}]
pipeline = StreamBuilder.data_stream("shop", "hello").from_array(rows).to_delta(TABLE).build()
"""
DEFINITIONS = """
from pipelines.hello import pipeline
from rs_assets import SparkResource, build_definitions

defs = build_definitions([pipeline], resources={"spark": SparkResource.configure_at_launch(memory="700m")})
"""
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


@pytest.mark.slow
def test_a_project_keeps_its_own_packages(wheel, tmp_path):
    project, site = tmp_path / "project", tmp_path / "site"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site)
    files = {
        "pipelines/__init__.py": "",
        "pipelines/hello.py": PIPELINE,
        "pipelines/definitions.py": DEFINITIONS,
        "resources/__init__.py": 'TABLE = "hello"\n',
        "pyproject.toml": '[tool.rs_assets]\npipelines = ["pipelines.hello"]\n',
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    world = {**os.environ, "PYTHONPATH": f"{project}:{site}", "RS_HOME": str(tmp_path / "rs")}
    world |= {"DAGSTER_HOME": str(tmp_path / "dagster"), "RS_SPARK_MASTER": "local[2]"}
    (tmp_path / "dagster").mkdir()

    def out(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=project, env=world, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert out("-c", LOOK).split() == [
        str(project / "pipelines" / "__init__.py"),
        str(project / "resources" / "__init__.py"),
        str(site / "rs_assets" / "__init__.py"),
    ]
    out("-m", "dagster", "definitions", "validate", "-m", "pipelines.definitions")
    assert '"rows_in": 3' in out("-m", "rs_assets.cli.main", "run", "hello", "--plain", "--json")

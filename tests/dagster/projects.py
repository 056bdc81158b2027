"""Projects of somebody's own, and the command line in them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from rs_assets.cli.main import main
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.spark.driver import SparkDriver


def make_project(folder: Path, monkeypatch: pytest.MonkeyPatch, *, module: str, code: str) -> Path:
    """A project whose pipelines are in `module`, as the current folder and on the path of modules."""
    (folder / "pyproject.toml").write_text(f'[tool.rs_assets]\npipelines = ["{module}"]\n')
    (folder / f"{module}.py").write_text(code)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, module, raising=False)
    return folder


def imported_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch, driver: SparkDriver, *, module: str, code: str
) -> ModuleType:
    """The module of such a project; its commands and Dagster's resource use `driver`."""
    make_project(folder, monkeypatch, module=module, code=code)
    monkeypatch.delenv("RS_HOME", raising=False)
    monkeypatch.setattr(SparkDriver, "shared", lambda *_: driver)
    monkeypatch.setattr(SparkResource, "driver", driver)
    return importlib.import_module(module)


def call(*arguments: str) -> tuple[int, str]:
    """The exit code and the output of a command."""
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output

"""Finding a project's pipelines: in the modules that pyproject.toml or the command line names."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from rs_assets.errors import ConfigurationError
from rs_assets.pipeline.stream.pipeline import Pipeline


def find_pipelines(modules: Sequence[str] = (), *, folder: Path | None = None) -> tuple[Pipeline, ...]:
    """The pipelines at the top of `modules`, else of those in `[tool.rs_assets] pipelines` of pyproject.toml."""
    folder = folder or Path.cwd()
    names = list(modules) or _configured(folder)
    if not names:
        raise ConfigurationError(
            "no pipelines are configured",
            remedy='name a module: -m package.module, or [tool.rs_assets] pipelines = ["package.module"]',
            folder=folder,
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    found = {pipeline.name: pipeline for name in names for pipeline in _in_module(name)}
    return tuple(found.values())


def pick(pipelines: Sequence[Pipeline], name: str) -> Pipeline:
    """The pipeline called `name`, with or without its namespace; ConfigurationError lists what there is."""
    hits = [p for p in pipelines if name in (p.name, p.topology.job)]
    if len(hits) == 1:
        return hits[0]
    there = ", ".join(p.name for p in pipelines) or "none"
    what = f"several pipelines are called {name!r}" if hits else f"there is no pipeline {name!r}"
    raise ConfigurationError(what, remedy=f"use one of: {there}")


def _configured(folder: Path) -> list[str]:
    path = folder / "pyproject.toml"
    if not path.exists():
        return []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"pyproject.toml does not parse: {error}", file=path) from error
    return list(content.get("tool", {}).get("rs_assets", {}).get("pipelines", []))


def _in_module(name: str) -> list[Pipeline]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not name.startswith(error.name):
            raise
        raise ConfigurationError(
            f"there is no module {name!r}", remedy="name it as in an import statement; run from the project's folder"
        ) from error
    return [value for value in vars(module).values() if isinstance(value, Pipeline)]

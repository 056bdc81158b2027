"""Finding a project's pipelines in the modules of pyproject.toml or the command line."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rs_assets.common.home import Home
from rs_assets.common.project import project_folder
from rs_assets.dagster.module_hints import how_to_list
from rs_assets.errors import ConfigurationError, RsError
from rs_assets.stream.pipeline import Pipeline
from rs_assets.stream.unbuilt import is_unbuilt


def find_pipelines(modules: Sequence[str] = (), *, folder: Path | None = None) -> tuple[Pipeline, ...]:
    """The pipelines at the top level of `modules`, by default of `[tool.rs_assets] pipelines` in pyproject.toml.

    A module may have them one by one or in a list or tuple. `folder` is that of pyproject.toml, by default the project
    of the working directory.
    """
    folder = folder or project_folder()
    names = list(modules) or _configured(folder)
    if not names:
        raise ConfigurationError(
            "no pipelines are configured",
            remedy="go to the project's folder; or name a module: -m package.module, or in pyproject.toml"
            ' [tool.rs_assets] pipelines = ["package.module"]; or begin a project: rs-assets init my_project',
            folder=folder,
        )
    _see(folder)
    found = {pipeline.name: pipeline for name in names for pipeline in _in_module(name)}
    return tuple(found.values())


def pipelines_of_code(modules: Sequence[str], home: Home) -> tuple[Pipeline, ...]:
    """The same; none where no modules are named or configured and pipelines are deployed in `home` instead."""
    from rs_assets.connectors.delta.log.store import is_table

    if not modules and not _configured(project_folder()) and is_table(str(home.deployments)):
        return ()
    return find_pipelines(modules)


def split_modules(modules: Sequence[str]) -> tuple[list[str], list[str]]:
    """The modules that Dagster loads itself, and those with pipelines only."""
    _see(project_folder())
    own = [name for name in modules if any(type(v).__name__ in _LOADED for v in vars(_imported(name)).values())]
    return own, [name for name in modules if name not in own]


def pick(pipelines: Sequence[Pipeline], name: str) -> Pipeline:
    """The pipeline called `name`: `shop.clicks`, `clicks`, or `shop_clicks` as in Dagster.

    ConfigurationError lists the known pipelines, and says how to list the module of another one.
    """
    hits = [p for p in pipelines if name in (p.name, p.topology.job, p.topology.label)]
    if len(hits) == 1:
        return hits[0]
    there = ", ".join(p.name for p in pipelines) or "none"
    if hits:
        raise ConfigurationError(f"several pipelines are called {name!r}", remedy=f"use one of: {there}")
    folder = project_folder()
    remedy = f"use one of: {there}\n  if its module is not listed: {how_to_list(folder, _configured(folder), name)}"
    raise ConfigurationError(f"there is no pipeline {name!r}", remedy=remedy)


def _see(folder: Path) -> None:
    """Make modules importable from a project's folder and from the working directory."""
    for place in {str(folder): None, str(Path.cwd()): None}:
        if place not in sys.path:
            sys.path.insert(0, place)


def _configured(folder: Path) -> list[str]:
    path = folder / "pyproject.toml"
    if not path.exists():
        return []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"pyproject.toml does not parse: {error}", file=path) from error
    named = content.get("tool", {}).get("rs_assets", {}).get("pipelines", [])
    if isinstance(named, str):
        raise ConfigurationError(
            "pipelines in pyproject.toml must be a list", remedy=f'pipelines = ["{named}"]', file=path
        )
    return list(named)


def _in_module(name: str) -> list[Pipeline]:
    values = vars(_imported(name))
    found = [pipeline for value in values.values() for pipeline in _pipelines_in(value)]
    for variable, value in values.items():
        if is_unbuilt(value, alone=not found):
            raise ConfigurationError(
                f"{variable!r} in the module {name!r} is a {type(value).__name__} without a pipeline",
                remedy=f"end it with a sink and .build(): {variable} = ....to_delta('table').build()",
            )
    return found


def _pipelines_in(value: object) -> list[Pipeline]:
    """A pipeline, or those of a list or tuple; Dagster's own objects are tuples, too, and are not searched."""
    values = value if isinstance(value, list) or type(value) is tuple else [value]
    return [each for each in values if isinstance(each, Pipeline)]


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except RsError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise ConfigurationError(
                f"there is no module {name!r}",
                remedy="name it as in an import statement; run from the project's folder",
            ) from error
        raise _raised(name, error) from error
    except Exception as error:
        raise _raised(name, error) from error


def _raised(name: str, error: Exception) -> ConfigurationError:
    """The exception of the module's own code and its line, without the frames of the import system."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((*_FOREIGN, "<"))]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else None
    if frames and f"{os.sep}pyspark{os.sep}" in frames[-1].filename and isinstance(error, _NO_SPARK):
        return ConfigurationError(
            f"the module {name!r} makes a Column of Spark, which needs a running Spark",
            remedy="from rs_assets import F instead: its Columns need none; or column(lambda: F.col('ms') > 1)",
            line=where,
        )
    return ConfigurationError(
        f"the module {name!r} raised {type(error).__name__}: {error}", remedy="mend it there", line=where
    )


# Classes that Dagster looks for in a module.
_LOADED = frozenset(
    {"Definitions", "LazyDefinitions", "RepositoryDefinition", "AssetsDefinition", "JobDefinition", "GraphDefinition"}
)
# Folders of frames that are not the user's.
_FOREIGN = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), str(Path(__file__).parents[1])})
# Errors of pyspark without a running Spark.
_NO_SPARK = (AssertionError, RuntimeError)

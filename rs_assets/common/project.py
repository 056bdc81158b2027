"""The folder of the user's project, which relative paths are meant from."""

from __future__ import annotations

import os
from pathlib import Path

# What makes the folder of a pyproject.toml a project of ours.
TABLE = "[tool.rs_assets]"


def project_folder(start: Path | None = None) -> Path:
    """The nearest folder at or above `start` whose pyproject.toml has a table [tool.rs_assets]; else `start` itself.

    `start` is the working directory by default. So a command does the same in every folder of a project.
    """
    start = (start or Path.cwd()).absolute()
    return next((folder for folder in (start, *start.parents) if _is_project(folder)), start)


def anchored(path: str) -> str:
    """`path` as an absolute one, meant from the project's folder; links are not looked at.

    >>> anchored("/data/../logs")
    '/logs'
    """
    # Like Hadoop it takes `a/../b` for `b`.
    return os.path.abspath(path if path.startswith("/") else project_folder() / path)  # noqa: PTH100


def _is_project(folder: Path) -> bool:
    try:
        return TABLE in (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False

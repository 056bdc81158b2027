"""The user's project folder, against which relative paths are resolved."""

from __future__ import annotations

import os
from pathlib import Path

# The table in pyproject.toml that makes its folder a project of ours.
TABLE = "[tool.rs_assets]"


def project_folder(start: Path | None = None) -> Path:
    """The nearest folder at or above `start` whose pyproject.toml has a table [tool.rs_assets]; else `start` itself.

    `start` defaults to the working directory. A command therefore does the same in every folder of a project.
    """
    start = (start or Path.cwd()).absolute()
    return next((folder for folder in (start, *start.parents) if _is_project(folder)), start)


def anchored(path: str) -> str:
    """`path` as an absolute path, resolved against the project's folder; symbolic links are not followed.

    A path that begins with `~/` is below the home folder of the user.

    >>> anchored("/data/../logs"), anchored("~/logs") == str(Path.home() / "logs")
    ('/logs', True)
    """
    place = os.path.expanduser(path) if path.startswith("~/") else path  # noqa: PTH111  a Path drops a last slash
    # Like Hadoop it reads `a/../b` as `b`.
    return os.path.abspath(place if place.startswith("/") else project_folder() / place)  # noqa: PTH100


def _is_project(folder: Path) -> bool:
    try:
        return TABLE in (folder / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False

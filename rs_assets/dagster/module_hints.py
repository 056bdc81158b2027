"""Hints for pipelines in modules that pyproject.toml does not list."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

from rs_assets.common.project import TABLE

# A file that makes pipelines contains this word.
OURS = "rs_assets"
# A folder with this file is a virtual environment.
ENVIRONMENT = "pyvenv.cfg"
# Folders that are searched for a hint: without a project it may be a whole home directory.
MOST_FOLDERS = 500


def how_to_list(folder: Path, listed: Sequence[str], name: str) -> str:
    """The line of the pyproject.toml in `folder` that lists the pipeline `name`, with its module if it is found.

    `listed` are the modules that are listed now.
    """
    module = next(_naming(folder, listed, name), "package.module")
    line = f"pipelines = {json.dumps([*listed, module])}"
    return f"in {folder / 'pyproject.toml'} write under {TABLE}: {line}; or, for once: -m {module}"


def _naming(folder: Path, listed: Collection[str], name: str) -> Iterator[str]:
    """The modules below `folder`, except `listed`, whose text contains the name of the pipeline in quotes."""
    job = name.rpartition(".")[2]
    for file in _python_files(folder):
        parts = file.relative_to(folder).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = file.read_text(encoding="utf-8", errors="replace")
        if OURS in text and (f'"{job}"' in text or f"'{job}'" in text) and module not in {*listed, ""}:
            yield module


def _python_files(folder: Path) -> Iterator[Path]:
    """The importable files below `folder`, in the order of their paths."""
    for place, folders, files in islice(os.walk(folder), MOST_FOLDERS):
        folders[:] = sorted(f for f in folders if f.isidentifier() and not Path(place, f, ENVIRONMENT).exists())
        for file in sorted(files):
            path = Path(place, file)
            if path.suffix == ".py" and path.stem.isidentifier() and path.is_file():
                yield path

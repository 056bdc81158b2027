"""What a machine and a project need, and how to get what is missing."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rs_assets.common.extras import EXTRAS, install_command, is_installed
from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.common.project import TABLE, project_folder
from rs_assets.errors import RsError

OLDEST, NEWEST = (3, 11), (3, 13)
# Spark spills and writes checkpoints; with less a larger run would fail.
LEAST_FREE_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A check with its result, and a remedy if something is wrong."""

    what: str
    found: str
    remedy: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.remedy


def findings() -> Iterator[Finding]:
    """All checks, in the order in which they are needed. Nothing is changed."""
    for what, look in LOOKS.items():
        try:
            yield look(what)
        except RsError as error:
            yield Finding(what, error.what, error.remedy or "see the text")


def _python(what: str) -> Finding:
    found = sys.version.split()[0]
    good = OLDEST <= sys.version_info[:2] <= NEWEST
    return Finding(what, found, "" if good else "make a virtual environment with Python 3.11 to 3.13")


def _packages(what: str) -> Finding:
    """Whether the packages are the required ones."""
    from packaging.requirements import Requirement

    wrong, needed = [], []
    for text in metadata.requires("rs-assets") or ():
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate():
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            said = f"{wanted.name} is missing"
        else:
            if wanted.specifier.contains(version, prereleases=True):
                continue
            said = f"{wanted.name} is {version}, not {wanted.specifier}"
        wrong.append(said)
        wanted.marker = None
        needed.append(shlex.quote(str(wanted)))
    if wrong:
        return Finding(what, "; ".join(wrong), f"python -m pip install {' '.join(needed)}")
    # A missing extra is not a fault: its users get an error that names it.
    extras = (name if is_installed(name) else f"no {name} ({install_command(name)})" for name in EXTRAS)
    core = f"pyspark {metadata.version('pyspark')}, dagster {metadata.version('dagster')}"
    return Finding(what, f"{core}; extras: {', '.join(extras)}")


def _java(what: str) -> Finding:
    from rs_assets.spark.java import java_home

    return Finding(what, str(java_home()))


def _jars(what: str) -> Finding:
    from rs_assets.spark.jars import SPARK

    SPARK.verify()
    return Finding(what, f"{len(SPARK.jars)} in {SPARK.folder()}")


def _s3(what: str) -> Finding:
    """The jars for reading from S3; nothing is wrong without them."""
    from rs_assets.spark.object_store import FETCH, S3

    if not S3.complete:
        return Finding(what, f"can be written; Spark reads it with more jars ({FETCH})")
    S3.verify()
    return Finding(what, f"can be written and read; {count_of(len(S3.jars), 'jar')} in {S3.folder()}")


def _project(what: str) -> Finding:
    folder = project_folder()
    path = folder / "pyproject.toml"
    if not path.is_file() or TABLE not in path.read_text(encoding="utf-8"):
        return Finding(what, f"no pyproject.toml with {TABLE} in {folder} or above", "rs-assets init my_project")
    return Finding(what, str(path))


def _pipelines(what: str) -> Finding:
    from rs_assets.dagster.discovery import find_pipelines

    return Finding(what, ", ".join(pipeline.name for pipeline in find_pipelines()) or "none")


def _rs_home(what: str) -> Finding:
    return _writable(what, Home.default().root)


def _dagster_home(what: str) -> Finding:
    named = os.environ.get("DAGSTER_HOME")
    return _writable(what, Path(named).absolute() if named else project_folder() / ".dagster")


def _disk(what: str) -> Finding:
    free = shutil.disk_usage(_nearest(Home.default().root)).free
    remedy = "" if free >= LEAST_FREE_BYTES else "free some space, or set RS_HOME to a folder on a larger disk"
    return Finding(what, f"{free / 1e9:.1f} GB free", remedy)


def _writable(what: str, folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=_nearest(folder)):
            return Finding(what, str(folder))
    except OSError as error:
        remedy = f"set {what} to a folder of yours: export {what}=..."
        return Finding(what, f"{folder} cannot be written to: {error.strerror}", remedy)


def _nearest(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())


LOOKS: dict[str, Callable[[str], Finding]] = {
    "Python": _python,
    "packages": _packages,
    "Java": _java,
    "jars": _jars,
    "S3": _s3,
    "project": _project,
    "pipelines": _pipelines,
    "RS_HOME": _rs_home,
    "DAGSTER_HOME": _dagster_home,
    "disk": _disk,
}

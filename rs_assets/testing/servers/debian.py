"""Servers for tests from Debian's packages, which are only unpacked: that needs no rights of root."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FETCH_TIMEOUT_S: Final = 300
SAID_CHARS: Final = 500


def unpack(needed: Sequence[str], into: Path, *, libraries: Sequence[str] = ()) -> str:
    """Fetch packages by apt and unpack them as the folder `into`, in place of what is there; why that failed, or "".

    `libraries` are packages that not every release of Debian has: those that cannot be fetched are left out.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "this system has no packages of Debian"
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=into.parent) as staging:
        packages, unpacked = Path(staging) / "packages", Path(staging) / "root"
        packages.mkdir()
        why = _download(needed, libraries, packages)
        for package in packages.glob("*.deb"):
            why = why or _failure(["dpkg-deb", "-x", str(package), str(unpacked)], packages)
        if not why:
            shutil.rmtree(into, ignore_errors=True)
            unpacked.replace(into)
        return why


def _download(needed: Sequence[str], libraries: Sequence[str], into: Path) -> str:
    """Download into a folder; with lists of apt's own kind there, if the machine has none."""
    get = ["apt-get", "-qq"]
    if _failure([*get, "download", *needed], into):
        for name in ("lists/partial", "cache/archives/partial"):
            (into / name).mkdir(parents=True)
        get += [f"-oDir::State::lists={into}/lists", f"-oDir::Cache={into}/cache"]
        why = _failure([*get, "update"], into) or _failure([*get, "download", *needed], into)
        if why:
            return why
    for name in libraries:
        _failure([*get, "download", name], into)
    return ""


def _failure(command: Sequence[str], where: Path) -> str:
    """Why a command failed, or ""."""
    done = _run(command, where)
    return f"{command[0]} has failed: {done.stderr.strip()[-SAID_CHARS:]}" if done.returncode else ""


def _run(command: Sequence[str], where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT_S)

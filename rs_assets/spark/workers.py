"""The Python that Spark starts its workers with.

Spark puts an archive of PySpark's sources first on the path of each worker. It has no compiled modules: each of the six
processes of a small run compiles what it imports. That takes 0.7 s of processor time, the installed package 0.15 s.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Removes the archives from the path, and becomes the Python that RS_WORKER_PYTHON names.
SCRIPT: Final = Path(__file__).with_name("worker.sh")
PYTHON, WORKER = "PYSPARK_PYTHON", "RS_WORKER_PYTHON"
# A Spark of the user's own, and a Java that is there already: neither is known to have the same PySpark.
OTHERS = ("SPARK_HOME", "PYSPARK_GATEWAY_PORT")


def worker_environment(environment: Mapping[str, str], *, one_process: bool) -> dict[str, str]:
    """The variables that choose the Python of workers: this one, with the same packages.

    In `one_process` workers import PySpark as it is installed. They do not if PySpark is outside of the folders of
    packages, or `environment` has a Spark of the user's own. The workers of a cluster may have no such script. What a
    user sets as PYSPARK_PYTHON goes first.

    >>> worker_environment({"PYSPARK_PYTHON": "/opt/python"}, one_process=True)
    {}
    """
    # A parent process, or an earlier session of this one, may have chosen the script.
    if environment.get(PYTHON, str(SCRIPT)) != str(SCRIPT):
        return {}
    if one_process and os.access(SCRIPT, os.X_OK) and _is_installed() and not any(map(environment.get, OTHERS)):
        return {PYTHON: str(SCRIPT), WORKER: sys.executable}
    return {PYTHON: sys.executable}


def _is_installed() -> bool:
    """Whether each Python of this environment finds PySpark without a path of its own."""
    import pyspark

    folders = {Path(folder).resolve() for folder in (*site.getsitepackages(), site.getusersitepackages())}
    return Path(pyspark.__file__).resolve().parents[1] in folders

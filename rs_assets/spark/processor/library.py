"""The jar of the processors, compiled by the Scala compiler that comes with pyspark; run as a module, this makes it.

It is compiled once for the installed Spark: its name has a digest of the sources and the version. No JDK is needed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from rs_assets.common.scratch import held_folder
from rs_assets.errors import ConfigurationError
from rs_assets.spark.jars import SPARK, jars_of_pyspark
from rs_assets.spark.java import java_home

SOURCES = Path(__file__).with_name("scala")
# The compile class path besides Spark's own jars.
CLIENTS = ("kafka-clients", "protobuf-java")
# It takes 6 s on an idle core.
COMPILE_TIMEOUT_S = 300
_SHOWN_LINES = 20


def library() -> Path:
    """The jar, compiled if it is not there yet (6 to 30 s); ConfigurationError if it cannot be written."""
    jar = _place()
    return jar if jar.is_file() else _compiled(jar)


def session_jars() -> tuple[Path, ...]:
    """The jars of a session besides Spark's own, in class path order; ConfigurationError as for each of them."""
    return (*SPARK.paths(), library())


@cache
def _place() -> Path:
    """The path of the jar for these sources, next to Spark's other jars; it may not exist."""
    content = hashlib.sha256()
    for source in _sources():
        content.update(source.read_bytes())
    for jar in _clients():
        content.update(jar.name.encode())
    return SPARK.folder() / f"rs-processors-spark-{version('pyspark')}-{content.hexdigest()[:12]}.jar"


def _sources() -> list[Path]:
    return sorted(SOURCES.glob("*.scala"))


def _clients() -> list[Path]:
    """The jars of the Kafka client and of Protobuf, which may not exist."""
    return [SPARK.folder() / jar.file for jar in SPARK.jars if jar.name in CLIENTS]


def _compiled(jar: Path) -> Path:
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        with held_folder(".compile-", jar.parent) as folder:
            made = folder / jar.name
            _compile(made)
            # Other processes may compile at the same time: each moves a complete jar into place.
            made.replace(jar)
    except OSError as error:
        raise ConfigurationError(
            f"the jar of the processors cannot be written: {error.strerror}",
            remedy=f"make the folder writable, or name another in {SPARK.variable}",
            folder=str(jar.parent),
        ) from error
    return jar


def _compile(jar: Path) -> None:
    against = os.pathsep.join(map(str, (*jars_of_pyspark("*.jar"), *_clients())))
    command = [
        *(str(java_home() / "bin" / "java"), "-Xss4m", "-cp", against),
        *("scala.tools.nsc.Main", "-usejavacp", "-nowarn", "-d", str(jar), *map(str, _sources())),
    ]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"the processors were not compiled within {COMPILE_TIMEOUT_S} s", remedy="try again on an idle machine"
        ) from error
    if run.returncode != 0:
        shown = "\n    ".join((run.stdout + run.stderr).strip().splitlines()[:_SHOWN_LINES])
        raise ConfigurationError(
            f"the processors do not compile against pyspark {version('pyspark')}:\n    {shown}",
            remedy="install the version of pyspark that this package requires",
        )


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{library()}\n")
    except ConfigurationError as refusal:
        sys.exit(f"error: {refusal}")

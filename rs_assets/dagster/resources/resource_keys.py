"""The keys of the library's resources: prefixed, so that a project's own may be called `spark` or `run`."""

from __future__ import annotations

FAMILIES = ("spark", "source", "shuffle", "window", "join", "sink", "run")


def key_of(family: str) -> str:
    """The key under which the resource of `family` stands in Dagster, in the Launchpad too.

    >>> key_of("spark")
    'rs_spark'
    """
    return f"rs_{family}"


RUN = key_of("run")
# Ops name it as their parameter.
RUNTIME = key_of("runtime")
# The io manager that hands frames on inside one process.
IN_PROCESS = key_of("mem")

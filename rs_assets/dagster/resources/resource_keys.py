"""The keys of the library's resources: prefixed, so that a project's own may be called `spark` or `run`."""

from __future__ import annotations

# The families of operators, and what a run needs besides.
OPERATORS = ("source", "step", "shuffle", "window", "join", "table", "processor", "sink")
FAMILIES = ("spark", *OPERATORS, "run")


def key_of(family: str) -> str:
    """The key of the resource of `family` in Dagster and in the Launchpad.

    >>> key_of("spark")
    'rs_spark'
    """
    return f"rs_{family}"


RUN = key_of("run")
# The name of a parameter of the ops.
RUNTIME = key_of("runtime")
# The io manager that passes frames between ops of one process.
IN_PROCESS = key_of("mem")

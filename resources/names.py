"""What a namespace, job, step, field or table may be called."""

from __future__ import annotations

import re

from resources.errors import TopologyError

# Names become folders, table columns and asset keys, so one narrow rule serves them all.
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def checked_name(name: object, *, what: str) -> str:
    """Return `name` if it is a legal name for `what` (a word for the message), else raise TopologyError.

    >>> checked_name("clicks_per_page", what="job")
    'clicks_per_page'
    >>> checked_name("../up", what="job")
    Traceback (most recent call last):
    resources.errors.TopologyError: '../up' is not a legal name for a job
      remedy: use 1 to 63 of a-z, 0-9 and _, beginning with a letter
    """
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise TopologyError(
        f"{name!r} is not a legal name for a {what}",
        remedy="use 1 to 63 of a-z, 0-9 and _, beginning with a letter",
    )

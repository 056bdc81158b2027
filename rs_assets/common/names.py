"""What a namespace, job, step, field or table may be called, and what a path may hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rs_assets.errors import ConfigurationError, TopologyError

# Names become folders, table columns and asset keys, so one narrow rule serves them all.
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# Delta takes these for parts of a URI (then a table has no history, or lies elsewhere), Spark for patterns of names.
UNUSABLE = re.compile(r"[\x00-\x1f\x7f#?%*\[\]{}\\^|]")
# A team, or something that mail can be sent to: what Dagster takes.
OWNER = re.compile(r"team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")


def checked_name(name: object, *, what: str) -> str:
    """Return `name` if it is a legal name for `what` (a word for the message), else raise TopologyError.

    >>> checked_name("clicks_per_page", what="job")
    'clicks_per_page'
    >>> checked_name("../up", what="job")
    Traceback (most recent call last):
    rs_assets.errors.TopologyError: '../up' is not a legal name for a job
      remedy: use 1 to 63 of a-z, 0-9 and _, beginning with a letter
    """
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise TopologyError(
        f"{name!r} is not a legal name for a {what}",
        remedy="use 1 to 63 of a-z, 0-9 and _, beginning with a letter",
    )


def checked_path(path: str, *, what: str) -> str:
    r"""Return the path of a folder for tables; ConfigurationError with the character that is at fault, if one is.

    >>> checked_path("/data/r s", what="RS_HOME")
    '/data/r s'
    >>> checked_path("/data/a#1", what="RS_HOME")
    Traceback (most recent call last):
    rs_assets.errors.ConfigurationError: RS_HOME '/data/a#1' holds '#', which Delta and Spark read as something else
      remedy: use a path without # ? % * [ ] { } \ ^ | and control characters
    """
    found = UNUSABLE.search(path)
    if found is None:
        return path
    raise ConfigurationError(
        f"{what} {path!r} holds {found[0]!r}, which Delta and Spark read as something else",
        remedy="use a path without # ? % * [ ] { } \\ ^ | and control characters",
    )


def checked_owners(owners: Sequence[str]) -> tuple[str, ...]:
    """Return the owners of a pipeline; TopologyError names the first that is neither a team nor an e-mail address.

    >>> checked_owners(["team:orders", "ada@example.org"])
    ('team:orders', 'ada@example.org')
    >>> checked_owners(["orders"])
    Traceback (most recent call last):
    rs_assets.errors.TopologyError: 'orders' is no owner
      remedy: use an e-mail address, or a team such as 'team:orders'
    """
    named = (owners,) if isinstance(owners, str) else tuple(owners)
    for owner in named:
        if not isinstance(owner, str) or not OWNER.fullmatch(owner):
            team = owner if isinstance(owner, str) and owner.isidentifier() else "orders"
            raise TopologyError(
                f"{owner!r} is no owner", remedy=f"use an e-mail address, or a team such as 'team:{team}'"
            )
    return named

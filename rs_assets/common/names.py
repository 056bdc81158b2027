"""Rules for names of namespaces, jobs, steps, fields and tables, and for paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rs_assets.errors import ConfigurationError, TopologyError

# Names become folders, table columns and asset keys, so one narrow rule applies to all of them.
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# Delta reads these as parts of a URI (the table then has no history, or lies elsewhere), Spark as glob patterns.
UNUSABLE = re.compile(r"[\x00-\x1f\x7f#?%*\[\]{}\\^|]")
# The most bytes that file systems take for the name of a file or folder.
LONGEST_PART = 255
# A team or an e-mail address: what Dagster accepts as an owner.
OWNER = re.compile(r"team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")


def checked_name(name: object, *, what: str) -> str:
    """Return `name` if it is a legal name for `what` (a word for the message), else raise TopologyError.

    >>> checked_name("clicks_per_page", what="job")
    'clicks_per_page'
    >>> checked_name("../up", what="job")
    Traceback (most recent call last):
    rs_assets.errors.TopologyError: '../up' is not a legal name for a job
      remedy: use 1 to 63 of a-z, 0-9 and _, starting with a-z
    """
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise TopologyError(
        f"{name!r} is not a legal name for a {what}",
        remedy="use 1 to 63 of a-z, 0-9 and _, starting with a-z",
    )


def checked_path(path: str, *, what: str) -> str:
    r"""Return the path of a folder for tables; ConfigurationError with the first character that is not allowed.

    >>> checked_path("/data/r s", what="RS_HOME")
    '/data/r s'
    >>> checked_path("/data/a#1", what="RS_HOME")
    Traceback (most recent call last):
    rs_assets.errors.ConfigurationError: RS_HOME '/data/a#1' holds '#', which Delta and Spark read as something else
      remedy: use a path without # ? % * [ ] { } \ ^ | and control characters
    """
    found = UNUSABLE.search(path)
    if found is None:
        return _of_short_names(path, what=what)
    raise ConfigurationError(
        f"{what} {path!r} holds {found[0]!r}, which Delta and Spark read as something else",
        remedy="use a path without # ? % * [ ] { } \\ ^ | and control characters",
    )


def _of_short_names(path: str, *, what: str) -> str:
    longest = max(len(part.encode()) for part in path.split("/"))
    if longest <= LONGEST_PART:
        return path
    raise ConfigurationError(
        f"{what} {path[:40]!r}... has a name of {longest} bytes, and file systems take {LONGEST_PART}",
        remedy="use shorter names",
    )


def one_or_more(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names that may be given as one text.

    >>> one_or_more("page"), one_or_more(["page", "user"])
    (('page',), ('page', 'user'))
    """
    return (given,) if isinstance(given, str) else tuple(given)


def one_by_one(given: tuple[object, ...], *, call: str) -> tuple[str, ...]:
    """The names that a method got; TopologyError for a list of them, which it takes one by one.

    >>> one_by_one(("page", "user"), call="group_by")
    ('page', 'user')
    >>> one_by_one((["page", "user"],), call="group_by")
    Traceback (most recent call last):
    rs_assets.errors.TopologyError: .group_by() takes the names of fields, not ['page', 'user']
      remedy: pass them one by one: .group_by('page', 'user')
    """
    wrong = next((each for each in given if not isinstance(each, str)), None)
    if wrong is None:
        return tuple(map(str, given))
    names = ", ".join(map(repr, wrong)) if isinstance(wrong, list | tuple) else "'page', 'user'"
    raise TopologyError(
        f".{call}() takes the names of fields, not {wrong!r}", remedy=f"pass them one by one: .{call}({names})"
    )


def checked_owners(owners: Sequence[str]) -> tuple[str, ...]:
    """Return the owners of a pipeline; TopologyError for the first that is neither a team nor an e-mail address.

    >>> checked_owners(["team:orders", "ada@example.org"])
    ('team:orders', 'ada@example.org')
    >>> checked_owners(["orders"])
    Traceback (most recent call last):
    rs_assets.errors.TopologyError: 'orders' is not an owner
      remedy: use an e-mail address, or a team such as 'team:orders'
    """
    named = one_or_more(owners)
    for owner in named:
        if not isinstance(owner, str) or not OWNER.fullmatch(owner):
            team = owner if isinstance(owner, str) and owner.isidentifier() else "orders"
            raise TopologyError(
                f"{owner!r} is not an owner", remedy=f"use an e-mail address, or a team such as 'team:{team}'"
            )
    return named

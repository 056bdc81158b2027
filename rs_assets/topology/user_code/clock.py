"""Finds expressions that ask for the time of the clock, which differs when a batch is read again."""

from __future__ import annotations

import re

from rs_assets.topology.user_code.expression import texts_of
from rs_assets.topology.user_code.quoting import QUOTED

# Of Spark's SQL, and of conditions and scripts.
CLOCK = re.compile(
    r"(?<!\w)(?:(now|newdate|today|curdate|getdate|gettime|curstamp_second|timestamp_second|current_time)\s*\("
    r"|(unix_timestamp|unixtimestamp|unixtime|curstamp|timestamp)\s*\(\s*\)"
    r"|(current_timestamp|current_date|localtimestamp)\b)",
    re.IGNORECASE,
)


def clock_in(node: object) -> str | None:
    """The function of a node's texts that asks for the clock; None without one, and for functions in Python.

    >>> from rs_assets.topology.user_code.expression import SqlText
    >>> from rs_assets.topology.nodes.step import Filter
    >>> texts = ("ts > now() - INTERVAL 1 DAY", "timestamp(ts) > since", "page = 'now()' AND `today` > 1")
    >>> [clock_in(Filter(name="f", inputs=("a",), condition=SqlText(text))) for text in texts]
    ['now', None, None]
    """
    found = (CLOCK.search(QUOTED.sub("''", text)) for text in texts_of(node))
    return next((name for each in found if each for name in each.groups() if name), None)

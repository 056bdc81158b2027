"""Names of MQTT topics, and filters of them."""

from __future__ import annotations

from typing import Final

LONGEST_BYTES: Final = 65_535
SHARED: Final = "$share"


def is_topic(name: object) -> bool:
    """Whether messages can be published to it.

    >>> is_topic("plant/7/temperature"), is_topic("plant/#")
    (True, False)
    """
    return _is_text(name) and not set("#+") & set(str(name))


def is_filter(name: object) -> bool:
    """Whether a client can subscribe to it: `+` for one level, `#` for all below.

    Clients that subscribe to `$share/GROUP/FILTER` with the same group share its messages.

    >>> is_filter("plant/+/temperature"), is_filter("plant/#"), is_filter("plant/#/x"), is_filter("a+")
    (True, True, False, False)
    >>> is_filter("$share/hot/plant/#"), is_filter("$share/hot"), is_filter("$share/+/plant")
    (True, False, False)
    """
    shared, levels = _apart(str(name))
    return (
        _is_text(name)
        and (shared is None or (bool(shared) and not set("#+") & set(shared) and levels != [""]))
        and all(level in ("+", "#") or not set("#+") & set(level) for level in levels)
        and "#" not in levels[:-1]
    )


def selects(wanted: str, topic: str) -> bool:
    """Whether a filter selects a topic; those that begin with `$` are selected by name only.

    >>> [selects("a/+/#", topic) for topic in ("a/b", "a/b/c", "a", "$a/b")], selects("#", "$SYS/x")
    ([True, True, False, False], False)
    >>> selects("$share/hot/a/#", "a/b")
    True
    """
    levels, found = _apart(wanted)[1], topic.split("/")
    if found[0].startswith("$") and levels[0] != found[0]:
        return False
    for at, level in enumerate(levels):
        if level == "#":
            return True
        if at >= len(found) or level not in ("+", found[at]):
            return False
        # `a/#` selects `a` too.
        if levels[at + 1 :] == ["#"]:
            return True
    return len(levels) == len(found)


def _apart(wanted: str) -> tuple[str | None, list[str]]:
    """The group of a shared filter, None for others, and the levels."""
    first, *levels = wanted.split("/")
    if first != SHARED:
        return None, [first, *levels]
    return (levels or [""])[0], levels[1:] or [""]


def _is_text(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name.encode(errors="replace")) <= LONGEST_BYTES and "\0" not in name

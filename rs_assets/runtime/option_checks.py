"""Checks of the options of a run: each has its type, or is refused with a value that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, NamedTuple, get_args

from rs_assets.common.home import Home
from rs_assets.common.node import positive, positive_time
from rs_assets.connectors.delta.nodes import DeltaConnector
from rs_assets.errors import ConfigurationError


class Rule(NamedTuple):
    """What an option must be; `example` is a value that fits, as code."""

    holds: Callable[[Any], bool]
    what: str
    example: str


def check_options(options: object, rules: Iterable[tuple[tuple[str, ...], Rule]]) -> None:
    """ConfigurationError for the first option that breaks its rule.

    >>> from types import SimpleNamespace
    >>> check_options(SimpleNamespace(name="a"), [(("name",), Rule(positive, "a number above 0", "5"))])
    Traceback (most recent call last):
    rs_assets.errors.ConfigurationError: name must be a number above 0, not 'a'
      remedy: name=5
    """
    for names, rule in rules:
        for name in names:
            value = getattr(options, name)
            if not rule.holds(value):
                raise ConfigurationError(
                    f"{name} must be {rule.what}, not {repr(value)[:100]}", remedy=f"{name}={rule.example}"
                )


def _or_none(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _from_zero(value: object) -> bool:
    return isinstance(value, timedelta) and value >= timedelta(0)


def _count(value: object) -> bool:
    return value == 0 or positive(value)


def _names(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(name, str) for name in value)


TIME: Final = Rule(_or_none(positive_time), "a positive timedelta, or None", "Time.minutes(10)")
SAVEPOINT_RULES: Final = (
    (("every", "max_age"), TIME),
    (("keep",), Rule(positive, "a whole number above 0", "10")),
)
RUN_RULES: Final = (
    (("home",), Rule(lambda value: isinstance(value, Home), "a Home", "Home.at('/data/rs')")),
    (("interval", "flush_after", "catalog_keep"), Rule(_from_zero, "a timedelta", "Time.seconds(5)")),
    (("lease_ttl",), Rule(positive_time, "a positive timedelta", "Time.seconds(30)")),
    (("idle_timeout", "close_on_idle"), TIME),
    (("flush_batches", "max_line_bytes"), Rule(positive, "a whole number above 0", "1_000")),
    (("partitions",), Rule(_or_none(positive), "a whole number above 0, or None", "4")),
    (("max_poisons", "preview_rows"), Rule(_count, "a whole number from 0", "10")),
    (("reset_steps",), Rule(_names, "a tuple of names of steps", "('window',)")),
    (("on_progress",), Rule(callable, "a function of a BatchProgress", "print")),
    (
        ("connector",),
        Rule(_or_none(lambda value: value in get_args(DeltaConnector)), "'native', 'jvm' or None", "'native'"),
    ),
)

"""Secrets in settings: read on use, and never shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from rs_assets.errors import ConfigurationError


@runtime_checkable
class Deferred(Protocol):
    """A value that is read on use; Dagster's `EnvVar` is one."""

    def get_value(self) -> str | None:
        """The value, None if there is none."""
        ...


Secret = str | Deferred


class Hidden:
    """A secret that was given as text: never shown by printing, copying or inspecting the object that contains it.

    >>> Hidden("p")
    ***
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "***"

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def get_value(self) -> str:
        """The text."""
        return self._text


class FromEnvironment:
    """A secret that text names: the environment variable that has it.

    >>> FromEnvironment("SHOP_DATABASE")
    $SHOP_DATABASE
    """

    __slots__ = ("env_var_name",)

    def __init__(self, name: str) -> None:
        self.env_var_name = name

    def __repr__(self) -> str:
        return f"${self.env_var_name}"

    def get_value(self) -> str | None:
        """The value now."""
        return os.environ.get(self.env_var_name)


def revealed(secret: Secret | None, *, what: str) -> str:
    """The text of a secret; ConfigurationError names an empty one, never its content.

    >>> revealed(Hidden("p"), what="password for Kafka")
    'p'
    """
    value = secret.get_value() if isinstance(secret, Deferred) else secret
    if not value:
        name = getattr(secret, "env_var_name", None)
        raise ConfigurationError(
            f"the {what} is empty", remedy="set the environment variable that it is read from", variable=name
        )
    return value


def without_userinfo(address: str) -> str:
    """An address without the part before an `@`: users paste passwords into URLs.

    >>> without_userinfo("me:secret@broker")
    '***@broker'
    """
    return f"***@{address.rsplit('@', 1)[1]}" if "@" in address else address


def without(secrets: Sequence[str], text: str) -> str:
    """`text` with each secret replaced by stars.

    >>> without(("geheim",), "no login for me:geheim")
    'no login for me:***'
    """
    for secret in secrets:
        text = text.replace(secret, "***")
    return text

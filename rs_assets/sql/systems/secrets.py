"""Secrets in the options of a table: the text itself, or the environment variable that `$NAME` names."""

from __future__ import annotations

from rs_assets.common.secrets import FromEnvironment, Secret
from rs_assets.sql.read.options import Options


def secret_of(text: str) -> Secret:
    """A value, or the environment variable that `$NAME` names.

    >>> secret_of("$SHOP_KEY"), secret_of("7")
    ($SHOP_KEY, '7')
    """
    return FromEnvironment(text[1:]) if text.startswith("$") else text


def taken_secret(options: Options, key: str) -> Secret | None:
    """An option that may be a secret; None if it is not set."""
    text = options.take(key)
    return None if text is None else secret_of(text)

"""Java's notation for logins (JAAS)."""

from __future__ import annotations

from collections.abc import Mapping


def jaas(module: str, options: Mapping[str, str]) -> str:
    r"""A login of Java: its module, with options.

    >>> jaas("a.Module", {"username": "me", "password": 'p"'})
    'a.Module required username="me" password="p\\"";'
    """
    return f"{module} required {' '.join(f'{name}={quoted(value)}' for name, value in options.items())};"


def quoted(text: str) -> str:
    """`text` quoted for JAAS, Java's syntax for logins."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

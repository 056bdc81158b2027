"""Hides secrets in addresses that are shown or stored, and knows those of local files."""

from __future__ import annotations

import re
from typing import Final

# The scheme of local files, before their absolute path.
LOCAL: Final = re.compile(r"^file:(//)?(?=/)")
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?(?P<rest>[^?#]*)")


def shown_uri(uri: str) -> str:
    """A path or URI without user info and query: file systems accept passwords and tokens in both.

    >>> shown_uri("ftp://me:p@ss@host/savepoints?token=x")
    'ftp://***@host/savepoints'
    >>> shown_uri("s3://bucket/a@b"), shown_uri("/home/me@work/.rs")
    ('s3://bucket/a@b', '/home/me@work/.rs')
    """
    found = _ADDRESS.match(uri)
    if found is None:
        return ""
    scheme, rest = found["scheme"] or "", found["rest"]
    authority = rest.partition("/")[0]
    # The password may contain an unquoted slash: everything up to the last @ may be part of it.
    login = rest if ":" in authority and not _is_port(authority) else authority
    at = login.rfind("@")
    return f"{scheme}{f'***@{rest[at + 1 :]}' if at >= 0 else rest}"


def _is_port(authority: str) -> bool:
    return authority.rpartition(":")[2].isdecimal()

"""The endings of packed files that are read, and what unpacks them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CODECS: Mapping[str, str] = MappingProxyType({".gz": "gzip", ".zst": "zstd"})

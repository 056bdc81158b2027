"""Supported archive formats: file name suffixes and their codecs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CODECS: Mapping[str, str] = MappingProxyType({".gz": "gzip", ".zst": "zstd"})

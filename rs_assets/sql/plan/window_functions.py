"""The window table functions: TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Each with the names of its durations.
WINDOWS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"TUMBLE": ("size",), "HOP": ("slide", "size"), "CUMULATE": ("step", "size"), "SESSION": ("gap",)}
)

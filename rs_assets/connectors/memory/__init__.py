"""Rows that a program puts into a channel: the channel itself is what most callers want."""

from rs_assets.connectors.memory.channel import MEMORY_SPLIT, MemoryChannel, Record, checked_channel, checked_kind

__all__ = ["MEMORY_SPLIT", "MemoryChannel", "Record", "checked_channel", "checked_kind"]

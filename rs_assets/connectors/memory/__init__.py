"""Sources and a sink for rows of the program itself; most callers only need the channel."""

from rs_assets.connectors.memory.channel import MEMORY_SPLIT, MemoryChannel, Record, checked_channel, checked_kind

__all__ = ["MEMORY_SPLIT", "MemoryChannel", "Record", "checked_channel", "checked_kind"]

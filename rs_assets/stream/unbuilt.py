"""Streams of which nobody made a pipeline."""

from __future__ import annotations

from rs_assets.stream.data_stream import DataStream, SplitStream
from rs_assets.stream.window_stream import WindowStream


def is_unbuilt(value: object, *, alone: bool) -> bool:
    """Whether `value` is a stream of which no pipeline was built; a window's counts only if it stands `alone`."""
    if isinstance(value, DataStream | SplitStream):
        return not value.draft.built
    return alone and isinstance(value, WindowStream)

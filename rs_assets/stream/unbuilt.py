"""Streams without a pipeline."""

from __future__ import annotations

from rs_assets.stream.data_stream import DataStream, SplitStream
from rs_assets.stream.window_stream import WindowStream


def is_unbuilt(value: object, *, alone: bool) -> bool:
    """Whether `value` is a stream without a pipeline; a window only counts if it is `alone` in its module."""
    if isinstance(value, DataStream | SplitStream):
        return not value.draft.built
    return alone and isinstance(value, WindowStream)

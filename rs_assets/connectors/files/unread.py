"""How much of its files a source has not read, by a look at their sizes alone; independent of Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rs_assets.checkpoint.source_log import SourceLog
from rs_assets.connectors.files.codecs import CODECS
from rs_assets.connectors.files.listing import files_below
from rs_assets.connectors.files.nodes import FileSource

# How many bytes of JSON or text a byte of such a file holds, roughly.
PACKED: Mapping[str, int] = MappingProxyType({**dict.fromkeys(CODECS, 10), ".parquet": 5})


def unread_sizes(source: FileSource, log: SourceLog | None) -> Iterator[int]:
    """The bytes of each file that a query with this log has not read, as if unpacked: an estimate, file by file.

    None for `log`: it has read nothing. A file of which all is read counts 0.
    """
    read = _bytes_read if source.tail else _whole_files
    known = read(log) if log is not None else {}
    for file in files_below(source.path, follow=source.tail):
        size = file.stat().st_size
        left = max(0, size - known.get(str(file), 0))
        yield left * PACKED.get(file.suffix, 1)


def _bytes_read(log: SourceLog) -> Mapping[str, int]:
    """How far each file was read, line by line; an archive that is at its end counts as a whole."""
    # It loads Arrow, which a first run does not need here.
    from rs_assets.connectors.files.lines.offsets import load_offsets

    splits = load_offsets(log.committed).values()
    return {split.file: split.byte if split.size is None else split.size for split in splits}


def _whole_files(log: SourceLog) -> Mapping[str, int]:
    """The files that Spark has planned; they do not change."""
    end = log.log.source_offset(log.source, log.log.last_committed())
    return dict.fromkeys((file.place for file in log.files() if file.batch <= end), sys.maxsize)

"""The input of a pipeline against what it has read: what Spark would overlook is refused before a run begins."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rs_assets.engine.checkpoint.log import CheckpointLog
from rs_assets.engine.checkpoint.manifest import Manifest
from rs_assets.engine.source.header import check_header
from rs_assets.engine.source.lines.offsets import splits_of
from rs_assets.engine.source.native import check_name, existing_files
from rs_assets.errors import DataLossError, SealedError
from rs_assets.pipeline.topology.shuffle import ShuffleRead
from rs_assets.pipeline.topology.source import ArraySource, FileSource, KafkaSource, MemorySource, Source
from rs_assets.pipeline.topology.topology import Topology

Known = Mapping[str, int]
ENDED = "the input had ended, and now there is more of it"
AGAIN = "begin a new generation (--new-generation)"


def check_inputs(topology: Topology, manifest: Manifest, logs: Mapping[str, CheckpointLog]) -> None:
    """Raise SealedError or DataLossError if input has changed that this generation will not look at again.

    `logs` holds Spark's log of a query that reads the source, by source.
    """
    for source in topology.sources:
        CHECKS[type(source)](source, manifest, logs[source.name])


def digest(source: ArraySource) -> Known:
    """What identifies the rows of an array."""
    content = repr([sorted(row.items(), key=str) for row in source.rows])
    return {hashlib.sha256(content.encode()).hexdigest()[:16]: len(source.rows)}


def _check_array(source: ArraySource, manifest: Manifest, log: CheckpointLog) -> None:  # noqa: ARG001  the table's form
    known = manifest.inputs.get(source.name)
    if known and known != digest(source):
        raise SealedError("the rows of an array source are not those it began with", remedy=AGAIN, source=source.name)


def _check_columns(source: FileSource, file: Path) -> None:
    if source.format == "csv" and source.header:
        check_header(file, source.schema)


def _check_files(source: FileSource, manifest: Manifest, log: CheckpointLog) -> None:
    if source.tail:
        for file in existing_files(source.path):
            _check_columns(source, file)
        _check_followed(source, manifest, log)
        return
    sizes = manifest.inputs.get(source.name, {})
    planned = {str(f.local): f.modified_ms for f in log.planned_files(source.name)}
    present = existing_files(source.path)
    for file in present:
        if str(file) not in planned:
            check_name(file)
            _check_columns(source, file)
    changed = [file for file in present if _has_changed(file, sizes, planned)]
    fresh = [file for file in present if str(file) not in sizes and str(file) not in planned]
    if manifest.sealed and (changed or fresh):
        remedy = f"{AGAIN}; for a file that grows use tail=True"
        raise SealedError(ENDED, remedy=remedy, source=source.name, file=(changed or fresh)[0])
    if changed:
        before = sizes.get(str(changed[0]))
        raise DataLossError(
            "a file changed after it was read; what was added would be ignored",
            remedy="put new records into new files; for files that grow use tail=True",
            source=source.name,
            file=changed[0],
            range=f"bytes {before} to {changed[0].stat().st_size}" if before is not None else "unknown",
        )


def _has_changed(file: Path, sizes: Known, planned: Known) -> bool:
    """By size, where a finished run noted it; else by the time that Spark wrote down when it planned the file."""
    facts = file.stat()
    if str(file) in sizes:
        return facts.st_size != sizes[str(file)]
    return str(file) in planned and int(facts.st_mtime * 1000) != planned[str(file)]


def _check_followed(source: FileSource, manifest: Manifest, log: CheckpointLog) -> None:
    """A followed file may grow, unless the windows over it were ended on purpose."""
    offsets = log.offsets(log.last_committed()) if manifest.sealed else None
    text = offsets.sources.get(source.name, "-") if offsets else "-"
    if text == "-":
        return
    read = {split.file: split.byte for split in splits_of(text)}
    # Archives count in unpacked bytes, so only their names tell. Splits know where a link leads.
    longer = [
        f
        for f in existing_files(source.path)
        if f.suffix not in (".gz", ".zst") and f.stat().st_size > read.get(str(f.resolve()), 0)
    ]
    if longer:
        raise SealedError(ENDED, remedy=AGAIN, source=source.name, file=longer[0])


def _check_channel(source: MemorySource, manifest: Manifest, log: CheckpointLog) -> None:
    """Rows that were put behind the end would wait for ever."""
    if manifest.sealed and source.channel.has_more({file.local for file in log.planned_files(source.name)}):
        raise SealedError(ENDED, remedy=AGAIN, source=source.name)


def _check_nothing(source: Source, manifest: Manifest, log: CheckpointLog) -> None:
    """Topics are looked at in rs_assets.pipeline.runtime.topics."""


CHECKS: Mapping[type[Source], Callable[[Any, Manifest, CheckpointLog], None]] = MappingProxyType(
    {
        ArraySource: _check_array,
        FileSource: _check_files,
        MemorySource: _check_channel,
        KafkaSource: _check_nothing,
        ShuffleRead: _check_nothing,
    }
)

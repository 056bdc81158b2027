"""Strict parsers of the files in a checkpoint: anything that Spark would fail on later is reported as damaged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

OFFSETS_VERSION, COMMITS_VERSIONS, SOURCE_LOG_VERSION = "v2", ("v1", "v2"), "v1"
_VERSION = re.compile(rb"v[0-9]{1,9}")


class Damaged(ValueError):
    """A text that Spark did not write like this; its message says why. Never leaves the preflight."""


class UnknownVersion(ValueError):
    """A text in a format that this release does not read; its message names both. Never leaves the preflight."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An offsets file: its second line, and the end offset of each source as JSON text."""

    metadata: Mapping[str, Any]
    sources: Mapping[str, bytes]


def parse_offsets(data: bytes) -> Plan:
    r"""An offsets file of format v2; Damaged or UnknownVersion for other texts.

    >>> parse_offsets(b'v2\n{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{}}\nclicks:{"logOffset":3}').sources
    {'clicks': b'{"logOffset":3}'}
    """
    lines = _lines(data, (OFFSETS_VERSION,), "offset log")
    metadata = json_object(lines[0])
    if not (_is_number(metadata, "batchWatermarkMs") and _is_number(metadata, "batchTimestampMs")):
        raise Damaged("lacks the batch's watermark or clock")
    if not isinstance(metadata.get("conf"), dict):
        raise Damaged("lacks the settings of the batch")
    sources = dict(_source_line(line) for line in lines[1:])
    if not sources or len(sources) != len(lines) - 1:
        raise Damaged("has no offset of a source" if not sources else "names a source twice")
    return Plan(metadata, sources)


def parse_commit(data: bytes) -> Mapping[str, Any]:
    r"""A commits file; Damaged or UnknownVersion for other texts.

    >>> parse_commit(b'v1\n{"nextBatchWatermarkMs":0}')
    {'nextBatchWatermarkMs': 0}
    """
    lines = _lines(data, COMMITS_VERSIONS, "commit log")
    if len(lines) != 1:
        raise Damaged("has unexpected lines")
    return json_object(lines[0])


def parse_metadata(data: bytes) -> str:
    """The query id of a metadata file; Damaged if it has none.

    >>> parse_metadata(b'{"id":"8d26d6a3"}')
    '8d26d6a3'
    """
    query_id = json_object(data).get("id")
    if not isinstance(query_id, str) or not query_id:
        raise Damaged("has no query id")
    return query_id


def check_source_log(data: bytes) -> None:
    """Damaged or UnknownVersion if the text is not a log of a file source."""
    for line in _lines(data, (SOURCE_LOG_VERSION,), "file source log"):
        if not isinstance(json_object(line).get("path"), str):
            raise Damaged("has an entry without a path")


def json_object(text: bytes) -> dict[str, Any]:
    """A JSON object; Damaged if the text is anything else."""
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Damaged("is incomplete or not JSON") from error
    if not isinstance(content, dict):
        raise Damaged("is not a JSON object")
    return content


def _lines(data: bytes, versions: tuple[str, ...], name: str) -> list[bytes]:
    """The lines after the version, at least one."""
    if not data:
        raise Damaged("is empty")
    version, *lines = data.split(b"\n")
    if not _VERSION.fullmatch(version):
        raise Damaged("does not begin with a version")
    if version.decode() not in versions:
        raise UnknownVersion(
            f"is a {name} of version {version.decode()}, this release reads {' and '.join(versions)}",
        )
    # Spark writes no newline after the last line: a final newline means that a line was lost.
    if not lines or not lines[-1]:
        raise Damaged("ends too early")
    return lines


def _source_line(line: bytes) -> tuple[str, bytes]:
    name, colon, offset = line.partition(b":")
    try:
        source = name.decode()
        if offset != b"-":
            orjson.loads(offset)
    except ValueError as error:
        raise Damaged("has an offset that is incomplete or not JSON") from error
    if not colon or not source:
        raise Damaged("has a line that is not the offset of a source")
    return source, offset


def _is_number(content: Mapping[str, Any], key: str) -> bool:
    return type(content.get(key)) is int

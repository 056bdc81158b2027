"""Rules to name, compare and merge offsets; pure functions.

Offsets are JSON text, but plain text is accepted. From the smallest to the greatest kind:

- empty: None, `""`, `null`
- numbers: `7`, and in layers `7.10000002.10000000` (the third part of row 7, and its first part), layer by layer
- objects and arrays: the tuple of their numbers, members in the order of their keys, nested ones in place; the rest of
  them does not count. `{"byte": 123, "line": 5}` is (123, 5)
- other text: by code points
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from rs_assets.catalog.offsets.messages import CheckPointState
from rs_assets.errors import CheckpointError, ConfigurationError

DEFAULT_NAMESPACE = "default_namespace"
DEFAULT_GROUP = "default_groupName"
DEFAULT_TOPIC = "default_topic"
DEFAULT_NAME = "default_name"
PART, QUEUE = ";", "^^^"
# Added to each layer's index, so that all layers have the same width and sort as text too.
LAYER_BASE = 10_000_000
# Python parses at most 4,300 digits; longer numbers are text.
_LAYERED = re.compile(r"-?[0-9]{1,1000}(?:\.[0-9]{1,1000})*")
# Layers after an offset that is not a number: a name may end in digits, but hardly in these.
_LAYERS_OF_TEXT = re.compile(r"(?:\.1[0-9]{7})+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKey:
    """The parts of a row's key; `pipeline` is None if the key has no such part."""

    namespace: str
    group: str
    topic: str
    name: str
    pipeline: str | None
    queue: str


def source_key(
    namespace: str | None, group: str | None, topic: str | None, name: str | None, pipeline: str | None = None
) -> str:
    """The name under which a source's offsets are stored; empty parts and None get their defaults.

    ConfigurationError for a part that contains `;` or `^^^`, ends with `^`, or is not text: it could not be parsed.

    >>> source_key("shop", None, "clicks", "read", "totals")
    'shop;default_groupName;clicks;read;totals'
    """
    parts = [namespace or DEFAULT_NAMESPACE, group or DEFAULT_GROUP, topic or DEFAULT_TOPIC, name or DEFAULT_NAME]
    parts += [pipeline] if pipeline else []
    return PART.join(_checked_part(part) for part in parts)


def row_key(source: str, queue: str) -> str:
    """The key of one queue (split) of the source with the key `source`; a queue may contain `;`, but not `^^^`.

    >>> row_key("shop;g;clicks;read", "a.log")
    'shop;g;clicks;read^^^a.log'
    """
    parts = source.split(PART) if isinstance(source, str) else []
    if len(parts) not in (4, 5) or not all(parts):
        raise ConfigurationError(f"{source!r} is not the key of a source", remedy="make it with source_key()")
    for part in parts:
        _checked_part(part)
    if not isinstance(queue, str) or not queue or QUEUE in queue:
        _refuse(queue, "queue")
    return f"{source}{QUEUE}{_utf8(queue, 'queue')}"


def parse_row_key(key: str) -> RowKey:
    """The parts of a key that `row_key` made; CheckpointError for anything else.

    >>> parse_row_key("shop;g;clicks;read^^^a.log").queue
    'a.log'
    """
    source, separator, queue = key.partition(QUEUE)
    parts = source.split(PART)
    try:
        sound = bool(separator) and row_key(source, queue) == key
    except ConfigurationError:
        sound = False
    if not sound:
        raise CheckpointError(f"{key!r} is not the key of a checkpoint", remedy="remove that row from the storage")
    namespace, group, topic, name, *pipeline = parts
    return RowKey(
        namespace=namespace,
        group=group,
        topic=topic,
        name=name,
        pipeline=pipeline[0] if pipeline else None,
        queue=queue,
    )


def layer(index: int) -> int:
    """The layer of the part with this index (from 0) of a row that was split; ConfigurationError below 0.

    >>> f"7.{layer(2)}"
    '7.10000002'
    """
    if index < 0:
        raise ConfigurationError(f"the index of a layer cannot be {index}", remedy="count the parts of a row from 0")
    return LAYER_BASE + index


def main_offset(layered: str) -> str:
    """The offset without its layers, where the source resumes. One without layers is returned unchanged.

    >>> main_offset("7.10000002.10000000"), main_offset('{"byte":7}')
    ('7', '{"byte":7}')
    """
    text = _unquoted(layered)
    main = text.partition(".")[0] if _LAYERED.fullmatch(text) else _LAYERS_OF_TEXT.sub("", text)
    if main == text:
        return layered
    return main if text is layered else orjson.dumps(main).decode()


def compare_offsets(a: str | None, b: str | None) -> int:
    """-1, 0 or 1 if `a` is smaller than `b`, equal or greater, in the order of this module.

    >>> compare_offsets("9", "10"), compare_offsets("7.10000002", "7.10000010"), compare_offsets(None, "0")
    (-1, -1, -1)
    """
    one, other = _rank(a), _rank(b)
    return (one > other) - (one < other)


def merge_within(replies: Iterable[CheckPointState], *, proposed: Mapping[str, str]) -> Mapping[str, str] | None:
    """The offsets that the replies to one checkpoint agree on: per queue the minimum of those that name it.

    None if a reply refuses: nothing may be stored. If no reply names offsets, all of `proposed` is agreed on.

    >>> normal = CheckPointState.normal
    >>> merge_within([normal({"q": "9"}), normal({"q": "10"}), CheckPointState.any()], proposed={"q": "12"})
    {'q': '9'}
    """
    given = list(replies)
    if any(reply.kind == "refuse" for reply in given):
        return None
    normal = [reply.offsets for reply in given if reply.kind == "normal"]
    if not normal:
        return dict(proposed)
    merged: dict[str, str] = {}
    for offsets in normal:
        for queue, offset in offsets.items():
            merged[queue] = min(merged.get(queue, offset), offset, key=_order)
    return merged


def held_back(reply: CheckPointState, *, proposed: Mapping[str, str]) -> str:
    """Why the offsets `proposed` must not be committed after this reply; empty if they may.

    They must not if it refuses, or if it names offsets but for one of the queues none, or a smaller one.

    >>> held_back(CheckPointState.normal({"a": "9"}), proposed={"a": "9", "b": "4"})
    "'b' is flushed up to nothing, and was read up to 4"
    >>> held_back(CheckPointState.any(), proposed={"a": "9"})
    ''
    """
    if reply.kind == "refuse":
        return f"it refused: {reply.reason}"
    asked = proposed if reply.kind == "normal" else {}
    for queue, offset in asked.items():
        flushed = reply.offsets.get(queue)
        if compare_offsets(flushed, offset) < 0:
            return f"{queue!r} is flushed up to {flushed or 'nothing'}, and was read up to {offset}"
    return ""


def _order(offset: str) -> tuple[tuple[int, Any], str]:
    """The rank, with ties between different spellings broken by text."""
    return _rank(offset), offset


def _rank(offset: str | None) -> tuple[int, Any]:
    text = _unquoted(offset or "")
    if text in ("", "null"):
        return 0, ()
    if _LAYERED.fullmatch(text):
        return 1, tuple(int(number) for number in text.split("."))
    numbers = tuple(_numbers(_parsed(text))) if text[0] in "{[" else ()
    return (2, numbers) if numbers else (3, text)


def _unquoted(offset: str) -> str:
    """The text of a JSON string; anything else unchanged."""
    value = _parsed(offset) if offset.startswith('"') else offset
    return value if isinstance(value, str) else offset


def _parsed(text: str) -> Any:
    """The value of a JSON text, None for other text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _numbers(value: Any) -> Iterator[int | float]:
    """The numbers in a JSON value, in the order of their keys; iterative, since nesting may be deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend(each[key] for key in sorted(each, reverse=True))
        elif isinstance(each, list):
            waiting.extend(reversed(each))
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield each


def _checked_part(part: object) -> str:
    # A trailing "^" would merge with the separator of the queue.
    if not isinstance(part, str) or PART in part or QUEUE in part or part.endswith("^"):
        _refuse(part, "part of a source's key")
    return _utf8(part, "part of a source's key")


def _utf8(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(text, what)
    return text


def _refuse(part: object, what: str) -> NoReturn:
    raise ConfigurationError(
        f"{part!r} cannot be a {what}",
        remedy="use text that is not empty, without ^^^, and in a source's key without ;",
    )

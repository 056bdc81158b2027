"""Every setting of every step, and the table that says whether `Topology.code` has it, and if not, why."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from rs_assets.compile.planner.table import COMPILE
from rs_assets.connectors.kafka.registry.protobuf import ProtobufMessage
from rs_assets.connectors.registry import SINKS, SOURCES

TABLE = Path(__file__).with_name("settings.tsv")
COUNTS = "counts"
# Why a setting changes neither which records are read nor what becomes of them.
REASONS = {
    "pace": "how much a batch or a request has, and how often a source is asked",
    "first start": "where a first start begins: afterwards the checkpoint says what was read",
    "kept": "how long records are kept that were read",
    "login": "a secret, an address that has one, a time to wait, or the name by which a server knows its client",
    "place": "where a server listens or files lie, which may move",
    "told": "another field has it, or the identity",
    "run": "each run sets it",
    "rows": "the rows themselves, or what they come through",
    "how": "which of several ways gives the same rows, or how long one may take",
    "report": "only a report depends on it",
}


def settings() -> dict[tuple[str, str], type]:
    """Each field of a step, or of what is in one, by the class that declares it."""
    waiting: list[type] = [*SOURCES, *SINKS, *COMPILE]
    seen = set[type]()
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += _inside(kind)
    return {
        (base.__name__, name): kind
        for kind in sorted(seen, key=lambda kind: kind.__name__)
        for base in kind.__mro__
        if is_dataclass(base)
        for name in _declared(base)
    }


def decided() -> dict[tuple[str, str], str]:
    """The table: `COUNTS` or one of REASONS by class and field."""
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {(kind, name): decision for kind, name, decision in rows}


def _declared(kind: Any) -> list[str]:
    own = inspect.get_annotations(kind)
    return [each.name for each in fields(kind) if each.name in own]


def _inside(kind: Any) -> Iterator[type]:
    """The classes of the values of its fields."""
    # Names that only type checkers import.
    known = {"Column": object, "SinkWriter": object, "ProtobufMessage": ProtobufMessage}
    for hint in typing.get_type_hints(kind, None, known).values():
        yield from (each for each in _parts(hint) if isinstance(each, type) and is_dataclass(each))


def _parts(hint: object) -> Iterator[object]:
    yield hint
    for part in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from _parts(part)


if __name__ == "__main__":
    known = decided()
    head = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    rows = ["\t".join((*place, known.get(place, "?"))) for place in sorted(settings())]
    TABLE.write_text("".join(f"{line}\n" for line in [*head, *rows]), encoding="utf-8")

"""The rows of a batch that the systems of its sinks have refused, found by their dead letters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from rs_assets.connectors.dead_letters import dead_letters_of, refused_text


@dataclass(frozen=True, slots=True)
class RefusedRows:
    """The texts of refused rows and the reasons, by sink."""

    found: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, *, namespace: str, job: str, sinks: Sequence[str], batch: int) -> RefusedRows:
        """Those of a batch, from the dead-letter table at `path`; a batch that was undone has none."""
        found: dict[str, list[tuple[str, str]]] = {}
        for letter in dead_letters_of(path, namespace, job, batch=batch).to_pylist():
            if letter["step"] in sinks:
                found.setdefault(letter["step"], []).append((letter["record"], letter["reason"]))
        return cls(found)

    def reason(self, sink: str, row: Mapping[str, Any]) -> str | None:
        """Why a sink has refused a row with these fields; None if it has refused none."""
        text = refused_text(row)
        equal = (why for known, why in self.found.get(sink, ()) if known == text or _same(known, text))
        return next(equal, None)


def _same(known: str, text: str) -> bool:
    """Whether two rows as JSON have the same values; systems write times and numbers in other ways.

    >>> _same('{"ms": "1.50", "at": "2026-01-05T10:00:00.000Z"}', '{"at": "2026-01-05 10:00:00", "ms": 1.5, "x": null}')
    True
    """
    try:
        return bool(_plain(json.loads(known)) == _plain(json.loads(text)))
    except ValueError:
        # Only the first part of a long text is there.
        return False


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bool) or value is None:
        return value
    return _number(str(value)) or _time(str(value)) or str(value)


def _number(text: str) -> str | None:
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return None


def _time(text: str) -> str | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)).isoformat()

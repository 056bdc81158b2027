"""The storage `memory`, which ends with the process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rs_assets.catalog.offsets.base import CheckpointRow, CheckpointStorage, newest_of_each


class MemoryStorage(CheckpointStorage):
    """Keeps the newest row of each key in a dict."""

    name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, CheckpointRow] = {}

    def _write(self, rows: Sequence[CheckpointRow]) -> None:
        for key, row in newest_of_each(rows).items():
            if key not in self._rows or row.place > self._rows[key].place:
                self._rows[key] = row

    def _read(self, key: str | None) -> Iterable[CheckpointRow]:
        if key is None:
            return tuple(self._rows.values())
        return (self._rows[key],) if key in self._rows else ()

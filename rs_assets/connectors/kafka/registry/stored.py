"""The schemas that a query has fetched from a registry: a folder of its own, one file an id."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

# The batch whose unknown ids are stored.
BATCH = "batch"


def schema_folder(query: Path, source: str) -> Path:
    """The folder of a source, in that of the query that reads it."""
    return query / "schemas" / source


def forget_unknown(folder: Path, batch_id: int, *, pinned: bool) -> None:
    """Remove what says that an id is unknown, for it may be known by now; called before a batch is computed.

    `pinned`: if the batch was begun before, it keeps them, so that a part of it that is read again has the same rows.
    """
    noted = folder / BATCH
    if pinned and _text(noted) == str(batch_id):
        return
    for file in folder.glob("*.json"):
        # A reason is a text, known schemas are an array.
        if _text(file).startswith('"'):
            file.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    noted.write_text(str(batch_id), encoding="utf-8")


def _text(file: Path) -> str:
    with suppress(FileNotFoundError):
        return file.read_text(encoding="utf-8")
    return ""

"""Storages of checkpoints: `memory`, `delta` (the catalog) or `db` (any database that SQLAlchemy supports)."""

from __future__ import annotations

import os
from pathlib import Path

from rs_assets.catalog.offsets.base import CheckPointMessage, CheckpointRow, CheckpointStorage
from rs_assets.errors import ConfigurationError

NAMES = ("db", "delta", "memory")

# Environment variables: the default storage, and the URL of the storage `db`.
STORAGE, URL = "RS_CHECKPOINT_STORAGE", "RS_STORAGE_URL"

__all__ = [
    "NAMES",
    "CheckPointMessage",
    "CheckpointRow",
    "CheckpointStorage",
    "default_storage",
    "default_url",
    "storage_named",
]


def default_storage() -> str:
    """The name in the environment variable RS_CHECKPOINT_STORAGE, else `delta`."""
    return os.environ.get(STORAGE) or "delta"


def default_url() -> str | None:
    """The SQLAlchemy URL in the environment variable RS_STORAGE_URL."""
    return os.environ.get(URL) or None


def storage_named(name: str, *, catalog: Path, url: str | None = None) -> CheckpointStorage:
    """The storage of that name; case is ignored.

    `delta` keeps its table in the folder `catalog`, `db` in the database at the SQLAlchemy `url`. Nothing is opened
    before its first use. ConfigurationError for an unknown name, and for `db` without a usable url.

    >>> storage_named("Memory", catalog=Path("unused")).name
    'memory'
    """
    match name.strip().lower() if isinstance(name, str) else name:
        case "memory":
            from rs_assets.catalog.offsets.memory import MemoryStorage

            return MemoryStorage()
        case "delta":
            from rs_assets.catalog.offsets.delta import DeltaStorage

            return DeltaStorage(catalog / "checkpoints")
        case "db":
            from rs_assets.catalog.offsets.db import DbStorage

            return DbStorage(url)
        case _:
            raise ConfigurationError(
                f"there is no checkpoint storage {name!r}", remedy=f"use one of: {', '.join(NAMES)}"
            )

"""Storages of checkpoints: `memory`, `delta` (the catalog), `db` (any database), or a class of one's own."""

from __future__ import annotations

import importlib
import os
from typing import Any

from rs_assets.catalog.offsets.base import CheckPointMessage, CheckpointRow, CheckpointStorage
from rs_assets.common.folder import Folder
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


def storage_named(name: str, *, catalog: Folder, url: str | None = None) -> CheckpointStorage:
    """The storage of that name; case is ignored.

    `delta` keeps its table in the folder `catalog`, `db` in the database at the SQLAlchemy `url`.
    `package.module:Class` is a CheckpointStorage of one's own, called with `url`. Nothing is opened before its first
    use. ConfigurationError for an unknown name, for a class that cannot be imported, and for `db` without a usable url.

    >>> from pathlib import Path
    >>> storage_named("Memory", catalog=Path("unused")).name
    'memory'
    """
    if isinstance(name, str) and ":" in name:
        return _own(name.strip(), url)
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
                f"there is no checkpoint storage {name!r}",
                remedy=f"use one of: {', '.join(NAMES)}; or package.module:Class",
            )


def _own(reference: str, url: str | None) -> CheckpointStorage:
    """A storage of the class that `reference` names."""
    module, _, name = reference.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"the checkpoint storage {reference!r} cannot be imported: {error}",
            remedy="name an importable class: package.module:Class",
        ) from error
    if not _is_storage(found):
        raise ConfigurationError(
            f"{reference!r} is not a class of checkpoint storages",
            remedy="derive it from rs_assets.CheckpointStorage",
        )
    made: CheckpointStorage = found(url)
    return made


def _is_storage(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, CheckpointStorage)

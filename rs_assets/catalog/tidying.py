"""Retention of catalog rows, and their removal."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import timedelta

from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.offsets import CheckpointStorage, storage_named
from rs_assets.common.folder import Folder
from rs_assets.errors import ConfigurationError

DEFAULT_DAYS = 30
DAYS = "RS_CATALOG_DAYS"


def kept_for() -> timedelta:
    """How long catalog rows are kept: the days in the environment variable RS_CATALOG_DAYS, else 30."""
    text = os.environ.get(DAYS) or str(DEFAULT_DAYS)
    if not text.isdigit() or not int(text):
        raise ConfigurationError(f"{DAYS} is {text!r}", remedy="set it to a number of days, 1 or more")
    return timedelta(days=int(text))


def tidy_pipeline(
    catalog: Catalog, storage: CheckpointStorage, pipeline: str, *, source_keys: Collection[str], keep: timedelta
) -> None:
    """Remove old rows of one pipeline, and join its small files; it may be running."""
    storage.tidy(source_keys, keep=keep)
    catalog.tidy(pipeline, keep=keep)


def tidy_catalog(root: Folder, *, keep: timedelta) -> None:
    """Remove old rows of all pipelines in the catalog at `root`, and join small files."""
    storage_named("delta", catalog=root).tidy(None, keep=keep)
    Catalog(root).tidy(None, keep=keep)

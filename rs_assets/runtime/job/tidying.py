"""Keeps the catalog of a pipeline small during its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rs_assets.catalog.offsets import storage_named
from rs_assets.catalog.offsets.merge import source_key
from rs_assets.catalog.tidying import tidy_pipeline

if TYPE_CHECKING:
    from rs_assets.runtime.job.session import JobSession

# The effect of a failure.
NOT_TIDY = "old rows and small files stay in the catalog"


def tidy(session: JobSession) -> None:
    """Remove old catalog rows of the pipeline, and join its small files. Errors are raised."""
    options = session.options
    # A separate storage: the journal may be writing with the other one.
    storage = storage_named(options.checkpoint_storage, catalog=options.home.catalog, url=options.storage_url)
    name, keep = session.topology.name, options.catalog_keep
    tidy_pipeline(session.catalog, storage, name, source_keys=source_keys(session), keep=keep)


def tidy_crowded(session: JobSession) -> None:
    """Tidy if there are many files: a pipeline with frequent short runs has no other occasion."""
    assert session.journal is not None  # made on entry
    if session.journal.storage.crowded(source_keys(session)):
        tidy(session)


def source_keys(session: JobSession) -> tuple[str, ...]:
    """The keys of the checkpoints of each source in each query."""
    namespace, job = session.topology.namespace, session.topology.job
    return tuple(source_key(namespace, job, name, plan.name) for plan in session.plans for name in plan.sources)

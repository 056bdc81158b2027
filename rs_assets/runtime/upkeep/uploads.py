"""The uploads of a pipeline: what they require, their begin, and a start from them in a home that has lost its own."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from rs_assets.catalog.lease import Lease
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.common.background import BackgroundFailures, PeriodicTask
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.nodes import FileSink
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError
from rs_assets.recovery.savepoints import Savepoint, Subject
from rs_assets.recovery.savepoints import restore as restore_savepoint
from rs_assets.recovery.uploads import RunMark, SignOfLife, Uploader, UploadStore, pipelines_of
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.claims import fence_off, home_name, lost_pipeline
from rs_assets.topology.topology import Topology

# Signs of life within the time to live of a lease.
BEATS = 3
# How often another home's sign of life is read, in seconds.
LOOK_S = 0.5
NO_SIGN = "another home may take this stream for lost: its sign of life was not written"


def check_uploads(topology: Topology, options: RunOptions) -> tuple[str, ...]:
    """Warnings about outputs that would be lost with the home; ConfigurationError for what uploads do not cover."""
    policy, root = options.savepoints, options.home.root
    if not policy.upload:
        return ()
    if policy.local_storage_only:
        raise ConfigurationError("uploads and local_storage_only were both requested", remedy="choose one of them")
    uri = _uri(options)
    if "://" not in uri and Path(uri).absolute().is_relative_to(root):
        raise ConfigurationError(
            "uploads into the home would be lost with it",
            remedy="name another place for savepoints: RS_SAVEPOINTS, or SavepointPolicy(uri=...)",
            uri=uri,
        )
    if topology.shuffled:
        raise ConfigurationError(
            "uploads do not cover a durable shuffle: the rows between its queries are not in their checkpoints",
            remedy="leave the strategy of the shuffle out, or take savepoints: SavepointPolicy(every=...)",
            pipeline=topology.name,
        )
    local = [name for name, place in _places(topology, options) if Path(place).is_relative_to(root)]
    return tuple(f"the output {name!r} is in the home: uploads do not cover it" for name in local)


def begin_uploads(
    topology: Topology,
    options: RunOptions,
    *,
    manifest: Callable[[], Manifest],
    token: int,
    failures: BackgroundFailures,
    at_end: Callable[[Callable[[], None]], None],
) -> Uploader:
    """The uploads of a run, which gives signs of life until its end; `at_end` registers what ends it.

    Its mark is in the store from now on, so other homes are outdated before its first upload.
    """
    uploader = _uploader(topology, options, manifest, token)
    life = _Life(uploader.uploads, token, home_name(options), options.lease_ttl)
    life.sign()
    signs = PeriodicTask(
        life.sign, name="rs-uploads", every=options.lease_ttl / BEATS, failures=failures, effect=NO_SIGN
    )

    def end() -> None:
        uploader.close()
        signs.stop()
        with failures.guarding(NO_SIGN):
            life.sign(ended=True)

    at_end(end)
    signs.start()
    return uploader


def upload_return(topology: Topology, options: RunOptions, manifest: Manifest, token: int) -> None:
    """Upload a pipeline that went back to an earlier batch, if the policy requires uploads; nothing runs.

    Its sinks went back as well, so no earlier upload could be continued. CheckpointError if it cannot be stored.
    """
    if options.savepoints.upload:
        uploader = _uploader(topology, options, lambda: manifest, token)
        try:
            uploader.finish()
        finally:
            uploader.close()


def _uploader(topology: Topology, options: RunOptions, manifest: Callable[[], Manifest], token: int) -> Uploader:
    """The uploads of a run, whose mark is in the store."""
    home, store = options.home, _store(topology, options, manifest().pipeline_id)
    run = _mark_of(options, token)
    with _reaching("marked"):
        store.mark(run)
    return Uploader(
        store,
        home.job(topology.namespace, topology.job),
        dimensions=home.dimensions(topology.namespace, topology.job),
        subject=_subject(topology, options),
        manifest=manifest,
        run=run,
        patience=options.lease_ttl,
    )


def recovered(
    topology: Topology, options: RunOptions, lease: Lease, pipeline_id: str | None = None
) -> tuple[Manifest, Savepoint] | None:
    """The manifest of the newest upload, restored into this home; None if uploads are off, or there is none.

    `pipeline_id` is that of the catalog, None without one. Sinks are not rolled back: they refuse the other home first,
    so none is ahead of the upload. PipelineBusyError if the run that uploads is alive; CheckpointError if an upload is
    damaged or if it is unclear which pipeline was lost.
    """
    store = _found(topology, options, pipeline_id) if options.savepoints.upload else None
    newest = store.newest() if store is not None else None
    if store is None or newest is None:
        return None
    _wait_until_silent(topology, store)
    lease.outrank(store.token())
    fence_off(topology, Manifest.from_body(newest.content.manifest), lease, options)
    mine = _mark_of(options, lease.token)
    store.mark(mine)
    # That run may have uploaded more until it was fenced off.
    last = store.newest() or newest
    if store.outranked(mine) or last.id.token >= lease.token:
        raise PipelineBusyError(
            f"{topology.name} is continued in another home", remedy="nothing to do: another start was faster"
        )
    folder = options.home.job(topology.namespace, topology.job)
    return restore_savepoint(store.store, last.content, folder, recovery=True), last.content


def continued_elsewhere(topology: Topology, options: RunOptions, stored: Manifest) -> bool:
    """Whether another home has continued the pipeline of `stored` from its uploads; False if uploads are off."""
    return uploaded_token(topology, options, stored.pipeline_id) > stored.token


def uploaded_token(topology: Topology, options: RunOptions, pipeline_id: str) -> int:
    """The greatest token of a run that uploads, in any home; 0 without one, and if uploads are off.

    A start that a person decides on, or that goes back, takes a token above it.
    """
    if not options.savepoints.upload:
        return 0
    with _reaching("listed"):
        return _store(topology, options, pipeline_id).token()


def current_home(topology: Topology, options: RunOptions, stored: Manifest | None) -> SignOfLife | None:
    """The last sign of life of the home that a blank or outdated one would continue; None if there is none.

    None as well if uploads are off, or this home is the one that has run last.
    """
    if not options.savepoints.upload or (stored and not continued_elsewhere(topology, options, stored)):
        return None
    store = _found(topology, options, stored.pipeline_id if stored else None)
    return store.life() if store is not None else None


def _mark_of(options: RunOptions, token: int) -> RunMark:
    """The mark of this run."""
    return RunMark(token, hashlib.sha256(f"{home_name(options)} {options.run_id}".encode()).hexdigest()[:16])


@contextmanager
def _reaching(done: str) -> Iterator[None]:
    """Convert OSError of the store in the block."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"the uploads cannot be {done}: {error.strerror or type(error).__name__}",
            remedy="check the store of the savepoints (RS_SAVEPOINTS), then start again",
        ) from error


class _Life:
    """The sign of life of a run."""

    def __init__(self, store: UploadStore, token: int, home: str, ttl: timedelta) -> None:
        self.store = store
        self._token = token
        self._home = home
        self._ttl_s = ttl.total_seconds()
        self._beat = 0

    def sign(self, *, ended: bool = False) -> None:
        """Give a sign of life, or of the end. A run that was outranked gives none."""
        token, last = self._token, self.store.life()
        if last is not None and last.token > token:
            return
        self._beat += 1
        self.store.sign(SignOfLife(token=token, home=self._home, beat=self._beat, ttl_s=self._ttl_s, ended=ended))


def _found(topology: Topology, options: RunOptions, pipeline_id: str | None) -> UploadStore | None:
    """The uploads of the pipeline that this home has lost."""
    with _reaching("listed"):
        there = pipelines_of(_uri(options), topology.namespace, topology.job)
    known = pipeline_id or (lost_pipeline(topology, options) if there else None)
    if known is None and len(there) > 1:
        raise CheckpointError(
            f"several pipelines were called {topology.name}, and neither this home nor an output knows one of them",
            remedy="remove the uploads of the others from the store, or start over: --new-generation",
            pipelines=", ".join(sorted(there)),
        )
    chosen = known or next(iter(there), None)
    return _store(topology, options, chosen) if chosen in there else None


def _wait_until_silent(topology: Topology, store: UploadStore) -> None:
    """Return when the run that uploads has ended, or has given no sign of life within its time to live."""
    first = store.life()
    if first is None or first.ended:
        return
    until, pause = time.monotonic() + first.ttl_s, threading.Event()
    while time.monotonic() < until:
        pause.wait(min(LOOK_S, first.ttl_s / BEATS))
        now = store.life()
        if now is None or now.ended:
            return
        if now != first:
            raise PipelineBusyError(
                f"{topology.name} runs in another home",
                remedy="stop it there first; this home then continues from its uploads",
                home=now.home,
            )


def _places(topology: Topology, options: RunOptions) -> list[tuple[str, str]]:
    """The outputs that are files, each with its place."""
    made = [sink for sink in topology.sinks if isinstance(sink, DeltaSink | FileSink | StoreSink)]
    return [(sink.name, writer_of(sink, options.home, topology.namespace).location()) for sink in made]


def _subject(topology: Topology, options: RunOptions) -> Subject:
    return Subject(
        namespace=topology.namespace, job=topology.job, fingerprint=topology.fingerprint, run_id=options.run_id
    )


def _store(topology: Topology, options: RunOptions, pipeline_id: str) -> UploadStore:
    return UploadStore(_uri(options), topology.namespace, topology.job, pipeline_id)


def _uri(options: RunOptions) -> str:
    return options.savepoints.uri or options.home.savepoints

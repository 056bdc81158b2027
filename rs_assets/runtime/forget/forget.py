"""Forgets keys of a stopped pipeline: their rows leave all places of its home, and a scan of them proves it.

All places are checked first. Then all state is written again next to the old one, and compared with it. A marker in the
job's folder says how far this is. If it is interrupted before any row has gone, the next start takes the new state
away. Later starts are refused, and forgetting the same keys again completes it: each place finds what is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, get_args

from pyspark.sql import SparkSession

from rs_assets.catalog.batch_offsets import TABLE as OFFSETS
from rs_assets.catalog.batch_offsets import offsets_row
from rs_assets.catalog.catalog import Catalog, Row, operation, row_of
from rs_assets.catalog.forgotten import FORGET
from rs_assets.catalog.lease import Lease
from rs_assets.catalog.ledger import Ledger
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.common.plural import count_of
from rs_assets.errors import CheckpointError, ConfigurationError, LeaseLostError
from rs_assets.recovery import forget_marker as forgetting
from rs_assets.recovery import rollback_marker as returning
from rs_assets.recovery.forget_marker import Forgetting
from rs_assets.runtime.forget.copies import copies
from rs_assets.runtime.forget.elsewhere import elsewhere
from rs_assets.runtime.forget.fields import check_named
from rs_assets.runtime.forget.keys import Keys, new_salt
from rs_assets.runtime.forget.report import Finding, Forgotten, ForgottenPlace, Place, as_entry
from rs_assets.runtime.forget.saved import Savepoints, Uploads
from rs_assets.runtime.forget.state import EarlierBatches, QueryState, check_complete
from rs_assets.runtime.forget.tables import dead_letters, outputs, quarantine_notes
from rs_assets.runtime.forget.world import Consent, Query, World
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.claims import claim_sinks
from rs_assets.runtime.upkeep.savepoints import held
from rs_assets.runtime.upkeep.uploads import uploaded_token
from rs_assets.spark.processor.session import processors_in
from rs_assets.topology.topology import Topology

NO_COLUMNS: Final[Mapping[str, str]] = MappingProxyType({})
FORGOTTEN_REASON: Final = "forgotten"


def forget(
    topology: Topology,
    keys: Mapping[str, object],
    options: RunOptions | None = None,
    *,
    columns: Mapping[str, str] = NO_COLUMNS,
    savepoints: Consent = "refuse",
    plan: bool = False,
) -> Forgotten:
    """Remove the rows of `keys` from the pipeline's home; see `Pipeline.forget`.

    PipelineBusyError if it runs, CheckpointError before the first run, after a run that was killed, and if other keys
    were being forgotten; ConfigurationError and SinkError for what cannot be removed, before anything changes.
    """
    options, asked = RunOptions.of(options), Keys.of(keys, columns)
    if savepoints not in get_args(Consent):
        raise ConfigurationError(
            f"savepoints= must be one of {', '.join(get_args(Consent))}, not {savepoints!r}",
            remedy="savepoints='remove'",
        )
    if topology.shuffled:
        raise ConfigurationError(
            "the rows between the queries of a durable shuffle cannot be searched for keys",
            remedy="remove the records at the source, then begin a new generation (--new-generation)",
            pipeline=topology.name,
        )
    with held(topology, options, forgets=True) as lease:
        job = options.home.job(topology.namespace, topology.job)
        returning.refuse(job)
        forgetting.undo(job)
        world = World.of(topology, options, asked, savepoints="remove" if plan else savepoints)
        begun = _begun(world)
        return _Run(world, begun).planned() if plan else _Run(_claimed(world, lease), begun).all(lease)


@dataclass(slots=True)
class _Run:
    """One removal; `marker` is what the job's folder has of it, or will have."""

    world: World
    marker: Forgetting

    def planned(self) -> Forgotten:
        """What there is, without any change."""
        return _report(self.world, [(each, each.found(), None) for each in self.checked()], entry=None)

    def checked(self) -> Sequence[Place]:
        """The places, all of which have been checked."""
        for query in self.world.queries:
            check_complete(self.world, query, resumed=self._resumed(query))
        if not self.marker.switched:
            # Afterwards rows by which a field was known may be gone.
            check_named(self.world)
        places = self._places()
        for place in places:
            place.check()
        return places

    def all(self, lease: Lease) -> Forgotten:
        """Remove all that there is, scan all places, and note both in the ledger."""
        places = self.checked()
        before = [place.found() for place in places]
        self._unload()
        if not self.marker.switched:
            self._prepare([place for place in places if isinstance(place, QueryState)], lease)
        for place in places:
            lease.check()
            place.erase()
        _settle(self.world)
        after = [place.found() for place in places]
        done = _report(self.world, list(zip(places, before, after, strict=True)), entry=-1)
        entry = Ledger(self.world.options.home.catalog, self.world.topology.name).add(self._proof(done))
        forgetting.finish(self.world.job)
        done = replace(done, entry=entry["number"])
        self._note(done)
        return done

    def _prepare(self, states: Sequence[QueryState], lease: Lease) -> None:
        """Write all state again, one query after another; if one fails, all of it is undone."""
        lease.check()
        self._noted(self.marker)
        try:
            for state in states:
                lease.check()
                state.prepare()
            lease.check()
        except LeaseLostError:
            # Who has the lease now undoes it.
            raise
        except BaseException:
            # Also after Ctrl-C: Spark's thread may still write.
            self.world.options.driver.call(lambda _: None)
            forgetting.undo(self.world.job)
            raise
        # Before the plans of earlier batches go: older batches are found by a chain of plans.
        rows = [row for state in states for row in _planned(self.world, state.query)]
        Catalog(self.world.options.home.catalog).append(OFFSETS, rows)
        self._noted(replace(self.marker, switched=True))

    def _noted(self, marker: Forgetting) -> None:
        self.marker = marker
        forgetting.note(self.world.job, marker)

    def _resumed(self, query: Query) -> int:
        """The batch that the state of a query was written as before the interruption, -1 for none."""
        return self.marker.batches.get(str((query.folder / "checkpoint").relative_to(self.world.job)), -1)

    def _places(self) -> list[Place]:
        world = self.world
        queries = [query for query in world.queries if query.last >= 0]
        states = [
            QueryState(world=world, query=query, begun=self._begin, resumed=self._resumed(query))
            for query in queries
            if query.plan.states
        ]
        return [
            *states,
            *outputs(world),
            dead_letters(world),
            quarantine_notes(world),
            *copies(world),
            *(EarlierBatches(query=query) for query in queries),
            Savepoints(world=world),
            Uploads(world=world),
        ]

    def _begin(self, checkpoint: str, batch: int) -> None:
        """Note the batch that the state in a checkpoint is written as."""
        self._noted(replace(self.marker, batches={**self.marker.batches, checkpoint: batch}))

    def _unload(self) -> None:
        """Let Spark unload state of earlier runs in this process, of which it would write snapshots later."""
        if any(query.plan.states and query.last >= 0 for query in self.world.queries):
            self.world.options.driver.call(_unloaded)

    def _proof(self, done: Forgotten) -> Mapping[str, Any]:
        """The entry for the ledger, without the keys."""
        world = self.world
        content = {
            "salt": self.marker.salt,
            "digests": world.keys.digests(self.marker.salt),
            "numbers": world.keys.number_digests(self.marker.salt),
            "columns": _columns(world),
            "batches": {query.stored: (query.generation, query.last) for query in world.queries},
            "complete": done.complete,
            "places": as_entry(done.places),
        }
        return {
            "kind": FORGET,
            "forgotten": json.dumps(content, sort_keys=True),
            "generation": world.manifest.generation,
            "batch_id": max((query.last for query in world.queries), default=-1),
            "code": world.topology.code,
        }

    def _note(self, done: Forgotten) -> None:
        world = self.world
        removed = sum(each.rows for each in done.places)
        row = operation(
            world.topology.name,
            generation=world.manifest.generation,
            run_id=world.options.run_id,
            kind=FORGET,
            summary=f"{count_of(done.keys, 'key')} forgotten, {count_of(removed, 'row')} removed;"
            f" entry {done.entry} of the ledger",
            complete=done.complete,
        )
        Catalog(world.options.home.catalog).append("operations", [row])


def _planned(world: World, query: Query) -> Iterator[Row]:
    """The plan of the batch that the state of a query is written as, for the catalog: no run records it."""
    log, last = CheckpointLog(query.log.folder), query.last
    planned = log.offsets(last)
    if planned is not None:
        columns = offsets_row(planned, log.offsets(last - 1))
        pipeline, run = world.topology.name, world.options.run_id
        yield row_of(pipeline, generation=query.generation, run_id=run, query=query.stored, batch_id=last, **columns)


def _columns(world: World) -> dict[str, str]:
    """The columns that hold a field under another name, by the present name of their place and by the stored one."""
    stored = world.manifest.stored_name
    return {
        f"{name}:{column}": of
        for (place, column), of in world.keys.columns.items()
        for name in dict.fromkeys((place, stored(place)))
    }


def _begun(world: World) -> Forgetting:
    """What was begun before, else a new marker; CheckpointError if other keys were being forgotten."""
    cut = forgetting.under_way(world.job)
    if cut is None:
        salt = new_salt()
        return Forgetting(salt=salt, digests=world.keys.digests(salt))
    given = world.keys.digests(cut.salt)
    if {name: set(found) for name, found in given.items()} != {name: set(found) for name, found in cut.digests.items()}:
        raise CheckpointError(
            "other keys were being forgotten, which was interrupted",
            remedy=f"forget those again first: rs-assets forget {world.topology.name} FIELD=VALUE ...",
            fields=", ".join(cut.digests),
        )
    return cut


def _claimed(world: World, lease: Lease) -> World:
    """The pipeline of this lease: its token is above those that are stored, in sinks and in uploads."""
    topology, options = world.topology, world.options
    lease.outrank(uploaded_token(topology, options, world.manifest.pipeline_id))
    claimed = claim_sinks(topology, world.manifest, lease, options)
    stored = manifests.load(world.job)
    assert stored is not None  # the world is made of it
    manifests.save(world.job, claimed.applied_to(stored))
    return replace(world, token=claimed.token)


def _unloaded(spark: SparkSession) -> None:
    active = [query.name for query in spark.streams.active]
    if active:
        raise ConfigurationError(
            "other streams run in this process, and their state would be unloaded",
            remedy="forget the keys in a process of its own: rs-assets forget NAME FIELD=VALUE",
            queries=", ".join(map(str, active)),
        )
    processors_in(spark).KeysInState.unload()


def _settle(world: World) -> None:
    """Note that the catalog lacks no batch, and no reason for which a record was quarantined that may have a key."""
    stored = manifests.load(world.job)
    assert stored is not None  # the world is made of it
    made = stored
    for name, facts in stored.queries.items():
        poisons = tuple(
            {**poison, "reason": FORGOTTEN_REASON} if world.keys.in_text(str(poison.get("reason", ""))) else poison
            for poison in facts.poisons
        )
        # That of the new state has read nothing.
        last = next((query.last for query in world.queries if query.stored == name), facts.catalogued)
        made = made.with_query(name, replace(facts, poisons=poisons, catalogued=max(facts.catalogued, last)))
    if made != stored:
        manifests.save(world.job, made)


def _report(world: World, scanned: Sequence[tuple[Place, Finding, Finding | None]], *, entry: int | None) -> Forgotten:
    mine = [
        ForgottenPlace(
            place=place.place,
            name=place.name,
            rows=before.rows,
            more=before.more,
            left=None if after is None else after.rows + after.more,
            said=before.said,
            version=(after or before).version,
        )
        for place, before, after in scanned
    ]
    keys = sum(map(len, world.keys.values.values()))
    return Forgotten(pipeline=world.topology.name, keys=keys, places=(*mine, *elsewhere(world)), entry=entry)

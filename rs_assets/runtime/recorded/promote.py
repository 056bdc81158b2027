"""Promote: code that was tried becomes that of the pipeline, and closed partitions get the rows that it computes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from rs_assets.catalog import requests
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.desired_state import read_desired_state
from rs_assets.catalog.lease import LeaseRow, read_lease
from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.delta.files.event_partitions import EventTimePartitions
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError, RsError
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.runtime.identity import matched
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.backfill import Backfilled, Judge, backfill, check_judge, refuse_other
from rs_assets.runtime.recorded.partitions import Partition, filled_by, parted, parted_sinks, partitions_of
from rs_assets.runtime.recorded.recompute import Way
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.runtime.upkeep.returns import valid_batches
from rs_assets.topology.nodes.timed import NONE
from rs_assets.topology.topology import Topology

# The kind of an operation in the catalog.
PROMOTE: Final = "promote"
# Seconds that a running stream may take to drain and end.
STOP_S: Final = 120.0
LOOK_S: Final = 0.2
AGAIN: Final = "the code is promoted, and some partitions may be rewritten: promote again to go on with the others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """A code that computes all batches from now on, or would with `plan`.

    `batches` has the first one of each query, `former` the code before it, None if it is not known. `switched`: whether
    this call made it the code; not if an earlier promotion or start had. `stopped` is the run that was asked to stop.
    `rewritten` are the partitions whose rows were replaced, `already` those that an earlier call has rewritten, `left`
    those with rows of the former code that have not closed yet.
    """

    code: str
    former: str | None
    batches: Mapping[str, int]
    switched: bool
    plan: bool = False
    stopped: str | None = None
    rewritten: tuple[Backfilled, ...] = ()
    already: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {**asdict(self), "batches": dict(self.batches)}

    def __str__(self) -> str:
        """In lines: what was done, then what is left.

        >>> print(Promoted(code="6b0f", former="1a2b", batches={"minutes": 3}, switched=True, left=("2026-01-05",)))
        code 6b0f computes minutes from batch 3 on; before: 1a2b
        left, as it has not closed: 2026-01-05; promote again then
        """
        first = ", ".join(f"{query} from batch {batch}" for query, batch in self.batches.items())
        lines = [f"code {self.code} {'would compute' if self.plan and self.switched else 'computes'} {first} on"]
        if self.former is not None:
            lines[0] += f"; before: {self.former}"
        if self.stopped is not None:
            lines.append(
                f"run {self.stopped} was stopped: Dagster starts its stream again; without it do: rs-assets start"
            )
        lines += map(str, self.rewritten)
        if self.already:
            lines.append(f"rewritten before: {', '.join(self.already)}")
        if self.left:
            has = "it has" if len(self.left) == 1 else "they have"
            lines.append(f"left, as {has} not closed: {', '.join(self.left)}; promote again then")
        return "\n".join(lines)


def promote(
    topology: Topology,
    code: str,
    options: RunOptions | None = None,
    *,
    rewrite_from: str | None = None,
    sink: str | None = None,
    judge: Judge = "as_now",
    plan: bool = False,
) -> Promoted:
    """Let the current code, which must have the digest `code`, compute all batches from now on.

    A run that holds the pipeline is asked to stop, and a stream to start again. With `rewrite_from` the closed
    partitions from that one on get the rows of the code. Each step can be repeated: a call after a crash does what is
    left. Errors as of a start and of a backfill; nothing is changed before all checks have passed.
    """
    asked = Promotion(
        topology=topology, options=RunOptions.of(options), code=code, rewrite_from=rewrite_from, sink=sink, judge=judge
    )
    asked.check()
    switched = not asked.switched
    if plan:
        return replace(asked.rewrite(plan=True), switched=switched)
    stopped = None
    if switched:
        with _stopped(topology, asked.options) as stopped:
            asked.switch()
    return replace(asked.rewrite(), switched=switched, stopped=stopped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What is asked for, in steps: `check`, then `switch` unless `switched`, with the lease free, then `rewrite`."""

    topology: Topology
    options: RunOptions
    code: str
    rewrite_from: str | None = None
    sink: str | None = None
    judge: Judge = "as_now"

    def check(self) -> None:
        """Refuse what a later step would; nothing is changed, and the pipeline may run."""
        refuse_other(self.topology, self.code)
        check_judge(self.judge)
        again = self.options.new_generation or bool(self.options.reset_steps)
        if again and self.switched:
            raise ConfigurationError(
                f"the code {self.code} computes the next batch already, and no state is forgotten now",
                remedy="leave --reset-step and --new-generation out; or start with them",
                pipeline=self.topology.name,
            )
        if again and self.rewrite_from is not None:
            raise ConfigurationError(
                "code that forgets state reads all input again, and replaces all rows",
                remedy="leave out which partitions to rewrite",
                pipeline=self.topology.name,
            )
        if self.rewrite_from is not None:
            node, partitions = parted(self.topology, self.sink)
            Way.to(self.topology, node, partitions)
            partitions.parse(self.rewrite_from)
        self._stored()
        if not self.options.new_generation:
            Recorded.of(self.topology, self.options)

    @property
    def switched(self) -> bool:
        """Whether the code is already that of the next batch of each query."""
        manifest, folders = self._matched()
        named = {folders[plan.name] for plan in plan_queries(self.topology)}
        codes = {folder: facts.codes[-1:] for folder, facts in manifest.queries.items()}
        return named == set(codes) and all(known and known[0][1] == self.topology.code for known in codes.values())

    def switch(self) -> None:
        """Do what a start does before its first batch: take the lease, check, and note the code in the manifest."""
        with (
            opened(self.topology, self.options) as session,
            session.failures.guarding("the promotion is not in the catalog"),
        ):
            until = {node.name: self._last(node, parts).isoformat() for node, parts in parted_sinks(self.topology)}
            batches = dict(self._begun()[0])
            generations = {plan.name: session.facts(plan).generation for plan in session.plans}
            told = {"code": self.code, "batches": batches, "generations": generations, "until": until}
            session.note(PROMOTE, f"code {self.code}", **told)

    def rewrite(self, *, plan: bool = False) -> Promoted:
        """Replace the rows of closed partitions, if asked; what is done now, was before, and is left."""
        batches, former = self._begun()
        done = Promoted(code=self.code, former=former, batches=batches, switched=False, plan=plan)
        if self.rewrite_from is None:
            return done
        node, partitions = parted(self.topology, self.sink)
        chosen = self._chosen(node, partitions)
        before = self._rewritten(node, batches)
        open_ones = tuple(each.key for each in chosen if not each.closed)
        already = tuple(each.key for each in chosen if each.closed and each.start in before)
        now = [each for each in chosen if each.closed and each.start not in before]
        rewritten = tuple(self._replaced(node, now, plan=plan))
        return replace(done, rewritten=rewritten, already=already, left=open_ones)

    def _replaced(self, node: DeltaSink, chosen: Sequence[Partition], *, plan: bool) -> Iterator[Backfilled]:
        options = replace(self.options, new_generation=False, reset_steps=())
        for first, last in _spans(chosen):
            try:
                yield from backfill(
                    self.topology,
                    first,
                    options,
                    last=last,
                    sink=node.name,
                    judge=self.judge,
                    plan=plan,
                    code=self.code,
                )
            except RsError as error:
                if not plan:
                    error.remedy = "; ".join(filter(None, (error.remedy, AGAIN)))
                raise

    def _chosen(self, node: DeltaSink, partitions: EventTimePartitions) -> Sequence[Partition]:
        """The partitions that may have rows of the former code: up to the last one of which it has read records."""
        assert self.rewrite_from is not None  # the caller has asked
        until = self._noted().get(node.name) or self._last(node, partitions)
        span = (partitions.parse(self.rewrite_from), partitions.value_of(until))
        return partitions_of(self.topology, self.options, sink=node.name, span=span).partitions

    def _noted(self) -> Mapping[str, datetime]:
        """The start of the last partition of each output when the code became that of the pipeline; {} if unknown."""
        batches, (manifest, _) = dict(self._begun()[0]), self._matched()
        valid = {plan.name: valid_batches(manifest, plan) or {} for plan in plan_queries(self.topology)}
        rows = Catalog(self.options.home.catalog).rows("operations", pipeline=self.topology.name, kind=PROMOTE)
        for row in reversed(rows):
            details = json.loads(row["details"])
            # Earlier releases noted that of the pipeline only.
            begun = details.get("generations") or dict.fromkeys(batches, row["generation"])
            if details["code"] != self.code or details["batches"] != batches:
                continue
            if all(valid[query].get(begun[query], -2) >= batch - 1 for query, batch in batches.items()):
                return {sink: datetime.fromisoformat(at) for sink, at in details["until"].items()}
        return {}

    def _last(self, node: DeltaSink, partitions: EventTimePartitions) -> datetime:
        """The start of the last partition that has rows, or may have records in the state."""
        found = partitions_of(self.topology, self.options, sink=node.name)
        starts = [each.start for each in found.partitions[-1:]]
        if found.reached is not None and found.reached != END_OF_TIME:
            plan = next(plan for plan in plan_queries(self.topology) if node.name in plan.sinks)
            ahead = max((side.water_mark for side in plan.sides(self.topology)), default=NONE)
            starts.append(partitions.start(partitions.value_of(found.reached + ahead)))
        return max(starts, default=partitions.start(partitions.first))

    def _rewritten(self, node: DeltaSink, batches: Mapping[str, int]) -> frozenset[datetime]:
        """The starts of the partitions which got the rows of this code once it had become that of the pipeline."""
        plan = next(plan for plan in plan_queries(self.topology) if node.name in plan.sinks)
        manifest, _ = self._matched()
        catalog, first = Catalog(self.options.home.catalog), batches[plan.name]
        filled = filled_by(plan, node.name, manifest, catalog, pipeline=self.topology.name)
        return frozenset(
            start for start, done in filled.items() if done.get("code") == self.code and done["batch"] >= first - 1
        )

    def _begun(self) -> tuple[Mapping[str, int], str | None]:
        """The first batch of this code in each query, and the code before it."""
        manifest, folders = self._matched()
        job = self.options.home.job(self.topology.namespace, self.topology.job)
        begun = dict[str, int]()
        former: str | None = None
        for plan in plan_queries(self.topology):
            facts = manifest.queries.get(folders[plan.name])
            if facts is None:
                begun[plan.name] = 0
                continue
            last = facts.codes[-1] if facts.codes else (0, None)
            switched = last[1] == self.topology.code
            log = CheckpointLog(manifest.place(job, folders[plan.name]) / "checkpoint", manifest.aliases)
            begun[plan.name] = last[0] if switched else log.last_committed() + 1
            former = former or (facts.code_of(last[0] - 1) if switched else last[1])
        return begun, former

    def _stored(self) -> Manifest:
        folder = self.options.home.job(self.topology.namespace, self.topology.job)
        stored = manifests.load(folder)
        if stored is None:
            raise CheckpointError(
                f"{self.topology.name} has no batch of another code", remedy="run it: its first code is this one"
            )
        return stored

    def _matched(self) -> tuple[Manifest, Mapping[str, str]]:
        return matched(self.topology, plan_queries(self.topology), self._stored())


def _spans(chosen: Sequence[Partition]) -> Iterator[tuple[str, str]]:
    """The first and the last key of partitions that follow each other."""
    spans: list[list[Partition]] = []
    for each in chosen:
        if spans and spans[-1][-1].end == each.start:
            spans[-1].append(each)
        else:
            spans.append([each])
    return ((span[0].key, span[-1].key) for span in spans)


@contextmanager
def _stopped(topology: Topology, options: RunOptions) -> Iterator[str | None]:
    """The pipeline without a run, and the id of that which was asked to stop; a stream is asked to start again.

    PipelineBusyError if it does not end in time, or is one of this process.
    """
    folder, lease = options.home.job(topology.namespace, topology.job), _busy(topology, options)
    if lease is None:
        yield None
        return
    if _here(lease):
        raise PipelineBusyError(f"{topology.name} runs in this process", remedy="stop it before: running.stop()")
    desired = read_desired_state(folder)
    streams = desired is not None and desired.run_id == lease.run_id and not desired.stopped
    try:
        requests.ask(folder, "stop", reason=PROMOTE, run_id=options.run_id)
        _wait_until_free(topology, options)
        yield lease.run_id
    finally:
        requests.clear(folder, "stop")
        if streams:
            requests.ask(folder, "resume", reason=PROMOTE, run_id=options.run_id)


def _here(lease: LeaseRow) -> bool:
    """Whether its holder is this process, which would wait for itself."""
    return lease.here and lease.pid == os.getpid()


def _busy(topology: Topology, options: RunOptions) -> LeaseRow | None:
    """The lease of a run that is alive, as far as it is known."""
    lease = read_lease(options.home.leases, topology.name)
    return None if lease is None or lease.free or lease.stale else lease


def _wait_until_free(topology: Topology, options: RunOptions) -> None:
    pause, deadline = threading.Event(), time.monotonic() + STOP_S
    while _busy(topology, options) is not None:
        if time.monotonic() > deadline:
            raise PipelineBusyError(
                f"{topology.name} did not stop within {STOP_S:.0f} s, so its code is as before",
                remedy="wait until rs-assets status shows that it has, then promote again; a program of yours that does"
                " not call running.await_termination() has to be ended by you",
            )
        pause.wait(LOOK_S)

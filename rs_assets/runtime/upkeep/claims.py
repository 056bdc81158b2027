"""The home of a pipeline: each sink is asked for its last writer, before the first of them is written to.

A sink stores the greatest token of the pipeline's id and, under the pipeline's name, the claim of the start that wrote
last, a random number. The manifest has the numbers of its own home. So a home that was lost, copied or overtaken is
distinguished from this one, although each of them counts its tokens from 1.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from rs_assets.catalog.lease import Lease
from rs_assets.checkpoint.manifest import Manifest
from rs_assets.compile.sink import writer_of
from rs_assets.connectors.nodes import Sink
from rs_assets.connectors.sink import BatchMark, Beginning, Claim, Closing, Fencing, LastWriter, claim_number
from rs_assets.errors import CheckpointError
from rs_assets.runtime.options import RunOptions
from rs_assets.topology.nodes.shuffle import ShuffleWrite
from rs_assets.topology.topology import Topology

# A table may be restored from a copy that is at most this many starts old; an older one counts as another home's.
CLAIMS_KEPT = 50


class Trust(Enum):
    """The authority by which a start takes over the sinks."""

    # The manifest, which has the claims that they may have stored.
    CLAIMS = auto()
    # The leases, if the manifest is gone: no other home may have greater tokens.
    LEASES = auto()
    # A person, who moves the pipeline here: the earlier writer is fenced off.
    PERSON = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The rights of a start to write.

    `generation` is the greatest of the start: after a rollback its own new one, which no sink has seen yet. `seen` has
    the last claim of each sink, by its stored name. `aliases` are the only names under which some sinks know this
    pipeline: a new generation must use them, or it would write next to the rows that it replaces.
    """

    claim: Claim
    token: int
    generation: int
    seen: Mapping[str, int]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def applied_to(self, manifest: Manifest, sinks: Iterable[str] | None = None) -> Manifest:
        """`manifest` after `sinks` (stored names; None: all) belong to this start, with their stored and new claims."""
        mine = self.seen.keys() if sinks is None else self.seen.keys() & set(sinks)
        claims = {name: self._newest(name, manifest) for name in mine}
        aliases = {**manifest.aliases, **self.aliases}
        return replace(manifest, token=self.token, claims={**manifest.claims, **claims}, aliases=aliases)

    def _newest(self, name: str, manifest: Manifest) -> tuple[int, ...]:
        """The claims of this home that a sink may have stored; an older copy of its table has an older one."""
        # A sink that gets no rows keeps its claim through any number of starts.
        last = [number for number in (self.seen[name], self.claim.number) if number]
        earlier = [number for number in manifest.claims.get(name, ()) if number not in last]
        return tuple(dict.fromkeys([*earlier, *last]))[-CLAIMS_KEPT:]


def claim_sinks(
    topology: Topology,
    manifest: Manifest,
    lease: Lease,
    options: RunOptions,
    *,
    trust: Trust = Trust.CLAIMS,
    above: int = 0,
    first: bool = False,
    replaced: Collection[str] = (),
) -> Claimed:
    """Ask every sink for its last writer, and take a token above all stored ones, and a claim of this start.

    Without the authority of the manifest a new generation is begun, above those of the sinks, the manifest and `above`.
    At the `first` start of a pipeline nothing may have been written under its name. Sinks that are `replaced` are not
    asked. CheckpointError, with the other home and a remedy, if `trust` does not cover the last writer of a sink.
    """
    home = home_name(options)
    asking = Claim(pipeline=topology.name, number=0, home=home)
    asked = _asked(topology, manifest, options, asking, first=first, replaced=replaced)
    fence = max((each.token for each in asked.values()), default=0)
    generation = manifest.last_generation
    if trust is Trust.CLAIMS:
        _refuse_strangers(topology, manifest, asked, options, first=first)
    else:
        generation = 1 + max(generation, above, *(each.generation for each in asked.values()))
    if trust is Trust.LEASES and fence > lease.token:
        newest = max(asked.values(), key=lambda each: each.token)
        raise _not_here(f"{topology.name} no longer has a checkpoint", topology, options, newest.home)
    lease.outrank(max(fence, manifest.token))
    if lease.taken_over:
        _raise_fences(topology, manifest, lease, options, known=asked)
    number = claim_number(generation)
    known = {n for numbers in manifest.claims.values() for n in numbers} | {each.claim for each in asked.values()}
    return Claimed(
        claim=replace(asking, number=number, known=None if trust is Trust.PERSON else frozenset(known | {number})),
        token=lease.token,
        generation=generation,
        seen={name: each.claim for name, each in asked.items()},
        aliases={} if trust is Trust.CLAIMS else dict(_known_by(topology, manifest, asked)),
    )


def fence_off(topology: Topology, manifest: Manifest, lease: Lease, options: RunOptions) -> None:
    """Store a token above all others in each sink that knows this pipeline; then no run of another home commits there.

    The lease takes that token.
    """
    asking = Claim(pipeline=topology.name, number=0, home=home_name(options))
    asked = _asked(topology, manifest, options, asking, first=False)
    lease.outrank(max((manifest.token, *(each.token for each in asked.values()))))
    _raise_fences(topology, manifest, lease, options, known=asked)


def lost_pipeline(topology: Topology, options: RunOptions) -> str | None:
    """The id of the pipeline that has written to the sinks under this name, None if none has.

    CheckpointError if there are several, or an unknown one: their rows cannot be replaced.
    """
    asking = Claim(pipeline=topology.name, number=0)
    asked = _asked(topology, Manifest.new(), options, asking, first=True)
    found = {each.pipeline_id: each for each in asked.values() if each.claim}
    if len(found) > 1 or "" in found:
        homes = sorted({each.home for each in found.values()})
        raise CheckpointError(
            f"the outputs of {topology.name} were written by several pipelines of that name, or by an unknown one",
            remedy="move the outputs away, or give this pipeline others",
            written_from=", ".join(homes) or None,
        )
    return next(iter(found), None)


def home_name(options: RunOptions) -> str:
    """The home of a run, as people find it."""
    return f"{socket.gethostname()}:{options.home.root}"


def _asked(
    topology: Topology,
    manifest: Manifest,
    options: RunOptions,
    claim: Claim,
    *,
    first: bool,
    replaced: Collection[str] = (),
) -> dict[str, LastWriter]:
    """The last writer of each sink, by the names under which it may know this pipeline."""
    found: dict[str, LastWriter] = {}
    for node, writer in _fencing(topology, options, replaced):
        # Rows of others in a shuffle are removed when it is begun.
        begins = isinstance(node, ShuffleWrite) and first
        for name in _names(topology, manifest, node.name):
            mark = BatchMark(manifest.pipeline_id, manifest.generation, name, -1, claim=claim)
            found[name] = LastWriter() if begins else writer.last_writer(mark)
    return found


def _raise_fences(
    topology: Topology, manifest: Manifest, lease: Lease, options: RunOptions, *, known: Mapping[str, LastWriter]
) -> None:
    """Store the token of the lease, which was taken from a silent driver, in each sink that knows this pipeline.

    That driver may sleep between two checks: when it rolls rows back, only a token in the sink stops it.
    """
    for node, writer in _fencing(topology, options):
        for name in known.keys() & _names(topology, manifest, node.name):
            if known[name].token:
                mark = BatchMark(manifest.pipeline_id, manifest.generation, name, -1, token=lease.token)
                writer.raise_fence(mark)


def _fencing(topology: Topology, options: RunOptions, replaced: Collection[str] = ()) -> Iterator[tuple[Sink, Fencing]]:
    """The sinks that store their last writer, each with a writer that is closed after use."""
    for node in (each for each in topology.sinks if each.name not in replaced):
        assert isinstance(node, Sink)  # sinks are
        writer = writer_of(node, options.home, topology.namespace)
        try:
            if isinstance(writer, Fencing):
                yield node, writer
        finally:
            if isinstance(writer, Closing):
                writer.close()


def _names(topology: Topology, manifest: Manifest, sink: str) -> set[str]:
    """The names by which a sink may know the step: its stored name, and its declared former names."""
    return {manifest.stored_name(sink), *(old for old, new in topology.renamed if new == sink)}


def _known_by(topology: Topology, manifest: Manifest, asked: Mapping[str, LastWriter]) -> Iterator[tuple[str, str]]:
    """The outputs that are known only by a former name, each with that name."""
    here, known = {node.name for node in topology}, {name for name, each in asked.items() if each.claim}
    for node in topology.sinks:
        former = sorted((_names(topology, manifest, node.name) & known) - here)
        if former and node.name not in known:
            yield node.name, former[0]


def _refuse_strangers(
    topology: Topology, manifest: Manifest, asked: Mapping[str, LastWriter], options: RunOptions, *, first: bool
) -> None:
    for name, seen in asked.items():
        if not seen.claim or seen.claim in manifest.claims.get(name, ()):
            continue
        if first:
            raise _not_here(f"{topology.name} has not run in this home", topology, options, seen.home, sink=name)
        raise CheckpointError(
            f"the sinks of {topology.name} were written to since by a start that is not in the checkpoint:"
            " from another home, from a copy of this one, or by an interrupted restore or rewind",
            remedy="continue in that home; or stop it there and rewind the pipeline here, which undoes the rows written"
            f" after a batch: rs-assets rewind {topology.name} --to BATCH; or restore a savepoint: rs-assets restore"
            f" {topology.name}; or {_afresh(topology, options)}",
            sink=name,
            written_from=seen.home or None,
        )


def _afresh(topology: Topology, options: RunOptions) -> str:
    """A remedy: how to start over, and what happens to the existing rows."""
    staying = [node.name for node, writer in _fencing(topology, options) if isinstance(writer, Beginning)]
    if not staying:
        return "start over, which replaces them: --new-generation"
    return f"remove the rows of {', '.join(staying)}, which stay otherwise, and start over: --new-generation"


def _not_here(what: str, topology: Topology, options: RunOptions, home: str, **facts: object) -> CheckpointError:
    return CheckpointError(
        f"{what}, but its outputs were written from another one",
        remedy=f"restore its newest savepoint here: rs-assets restore {topology.name}; or continue in its own home"
        f" (RS_HOME); or give this pipeline other outputs; or {_afresh(topology, options)}",
        **facts,
        written_from=home or None,
    )

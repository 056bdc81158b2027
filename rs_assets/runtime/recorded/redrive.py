"""Redrive: records that became dead letters go through the current code, and their rows into the output, each once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pyspark.sql import SparkSession

from rs_assets.catalog.catalog import operation
from rs_assets.common.plural import count_of
from rs_assets.common.scratch import scratch_folder
from rs_assets.connectors.delta.addition import Addition, last_number
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.redrives import Letter, Redrives, claim_id, claims_of, parsed_claim
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import ConfigurationError, RsError, SinkError
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.recorded.recorded import Recorded, RecordedQuery, translated
from rs_assets.runtime.recorded.redrive_letters import Judged, LettersAgain, chosen, source_of
from rs_assets.runtime.upkeep.returns import valid_batches
from rs_assets.topology.redrive import output_of
from rs_assets.topology.topology import Topology

REDRIVE: Final = "redrive"
AGAIN: Final = "start the redrive again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """What became of dead letters: how many `letters` were redriven, as `rows` of `sink`, and how many are `refused`.

    `left` has the number of the others, by the reason why they are left as they are. `version` of the table has the
    rows, None if there are none. With `plan` nothing is written, and `rows` and `version` are None.
    """

    sink: str | None = None
    letters: int = 0
    refused: int = 0
    left: Mapping[str, int]
    rows: int | None = None
    version: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        """A line for those that were redriven, one for those that are refused, and one for each reason."""
        into = f" into {self.sink}" * bool(self.letters)
        done = f"{self.letters:,} redriven{into}"
        if self.rows is None:
            done = f"{self.letters:,} would be redriven{into}"
        elif self.letters:
            version = f", in version {self.version}" if self.version is not None else ""
            done += f": {count_of(self.rows, 'row')}{version}"
        still = [f"{self.refused:,} still refused"] if self.refused else []
        return "\n".join([done, *still, *(f"{count:,} left: {why}" for why, count in self.left.items())])


def redrive(
    topology: Topology, options: RunOptions | None = None, *, where: str | None = None, plan: bool = False
) -> Redriven:
    """Append the rows of dead letters that the current code accepts; see `Pipeline.redrive`.

    CheckpointError before the first run, ConfigurationError for a condition that Spark does not accept, or if several
    outputs are concerned, TopologyError for an output of another kind, SinkError if the table has changed meanwhile.
    """
    recorded = Recorded.of(topology, RunOptions.of(options))
    return recorded.on_driver(lambda spark: _Redrive(recorded, spark, plan).of(where))


@dataclass(frozen=True, slots=True)
class _Redrive:
    """A redrive of one pipeline, on the driver's thread; with `plan` nothing is written."""

    recorded: Recorded
    spark: SparkSession
    plan: bool

    @property
    def _topology(self) -> Topology:
        return self.recorded.session.topology

    @property
    def _letters(self) -> Redrives:
        home = self.recorded.session.options.home
        return Redrives(home.dead_letters, self._topology.namespace, self._topology.job)

    def of(self, where: str | None) -> Redriven:
        """Redrive the dead letters for which `where` holds, after those that an earlier redrive has left half done."""
        letters = self._letters.counting()
        if not self.plan and (claims := claims_of(letters)):
            for claim in claims:
                self._end(claim)
            letters = self._letters.counting()
        left, by_source = Counter[str](), defaultdict[str, list[Letter]](list)
        for letter in chosen(self.spark, letters, where):
            source, why = source_of(self._topology, letter)
            if why:
                left[why] += 1
            else:
                by_source[source].append(letter)
        outputs = {sink.name: sink for sink in (output_of(self._topology, source) for source in by_source)}
        if len(outputs) > 1:
            raise ConfigurationError(
                f"the dead letters are of several outputs: {', '.join(outputs)}",
                remedy="choose those of one query: --where \"query = '...'\"",
                pipeline=self._topology.name,
            )
        if not outputs:
            return Redriven(left=dict(left), rows=None if self.plan else 0)
        (sink,) = outputs.values()
        return self._into(sink, by_source, left)

    def _into(self, sink: DeltaSink, letters: Mapping[str, list[Letter]], left: Counter[str]) -> Redriven:
        query = self.recorded.query(self.spark, self.recorded.plan_of(sink.name))
        again = LettersAgain(self.spark, query, sink)
        judged = again.judged(letters)
        planned = Redriven(
            sink=sink.name, letters=len(judged.good), refused=len(judged.refused), left=dict(left + judged.left)
        )
        if self.plan:
            return planned
        self._letters.refuse(judged.refused)
        done = self._added(query, again, judged, planned) if judged.good else replace(planned, rows=0)
        session = self.recorded.session
        with session.failures.guarding("the redrive is not in the catalog"):
            session.catalog.append(
                "operations",
                [
                    operation(
                        self._topology.name,
                        generation=session.facts(query.plan).generation,
                        run_id=session.options.run_id,
                        kind=REDRIVE,
                        summary=str(done).replace("\n", "; "),
                        **done.as_dict(),
                    )
                ],
            )
        return done

    def _added(self, query: RecordedQuery, again: LettersAgain, judged: Judged, planned: Redriven) -> Redriven:
        """Stage the rows, claim the dead letters, commit the rows, settle the claim: a crash is healed at each step."""
        addition = self._addition(query, again.sink)
        with scratch_folder("rs-redrive-") as folder, translated(query.plan.name):
            files = addition.staged(again.rows(judged, folder))
        mark = addition.mark
        if not self._letters.claim(judged.good, addition.claim, addition.number, pipeline_id=mark.pipeline_id):
            files.discard()
            raise SinkError(
                "another redrive of these dead letters has begun", remedy=AGAIN, step=mark.sink, table=addition.path
            )
        version: int | None = None
        try:
            query.refuse_forgotten()
        except RsError:
            files.discard()
            self._letters.release(addition.claim)
            raise
        if files.rows:
            version, batch = addition.commit(files)
        else:
            files.discard()
            batch = addition.committed()
        self._settle(query, addition, batch, counts=True)
        return replace(planned, rows=files.rows, version=version)

    def _addition(self, query: RecordedQuery, sink: DeltaSink, claim: str | None = None) -> Addition:
        session = self.recorded.session
        name = session.manifest.stored_name(sink.name)
        generation = session.facts(query.plan).generation if claim is None else parsed_claim(claim)[0]
        mark = BatchMark(session.manifest.pipeline_id, generation, name, query.log.last_committed())
        path = session.options.home.table(self._topology.namespace, sink.table)
        number = max(self._letters.last_number(mark.pipeline_id), last_number(path, mark)) + 1
        return Addition(
            path=path,
            mark=mark,
            committed=query.log.last_committed,
            claim=claim or claim_id(mark.pipeline_id, generation, name, number),
            number=number,
            adds=sink.adds,
        )

    def _settle(self, query: RecordedQuery, addition: Addition, batch: int, *, counts: bool) -> None:
        """Note that the dead letters of a claim are redriven; a rewind in the same moment decides about them again."""
        generation, _, number = parsed_claim(addition.claim)
        self._letters.settle(addition.claim, number=number, generation=generation, batch=batch, counts=counts)
        if counts and addition.newest_generation() > self.recorded.session.facts(query.plan).generation:
            self._letters.reopen(addition.claim, number=number)
            raise SinkError(
                "the pipeline has gone back in the meantime", remedy=AGAIN, step=addition.mark.sink, table=addition.path
            )

    def _end(self, claim: str) -> None:
        """End a redrive that was interrupted: settle its claim if the table has the rows, else release it."""
        _, stored, _ = parsed_claim(claim)
        manifest = self.recorded.session.manifest
        sinks = {manifest.stored_name(sink.name): sink for sink in self._topology.sinks}
        sink = sinks.get(stored)
        if not isinstance(sink, DeltaSink):
            raise ConfigurationError(
                f"a redrive into {stored!r} was interrupted, and the pipeline no longer has this output",
                remedy=f"use code that has {stored!r}",
                pipeline=self._topology.name,
            )
        query = self.recorded.query(self.spark, self.recorded.plan_of(sink.name))
        addition = self._addition(query, sink, claim)
        if addition.done_at() is None:
            # Whoever it was, it commits nothing after this.
            addition.fence()
        batch = addition.done_at()
        if batch is None:
            self._letters.release(claim)
            return
        valid = valid_batches(manifest, query.plan) or {}
        self._settle(query, addition, batch, counts=batch <= valid.get(addition.mark.generation, -1))

"""Homes of one pipeline without Spark: its checkpoints are made up, its outputs are written by the sinks' own rules."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from rs_assets import StreamBuilder
from rs_assets.checkpoint import manifest as manifests
from rs_assets.common.home import Home
from rs_assets.connectors.delta.table import properties
from rs_assets.connectors.sink import BatchMark
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.runtime.upkeep.savepoints import restore, rewind, savepoint
from rs_assets.stream.pipeline import Pipeline
from tests.checkpoint.fabricate import FakeQuery


@dataclass
class FakeHome:
    """A home in which `shop.trip` counts up: batch n writes n to each output, once, or is refused."""

    root: Path
    outputs: Path
    store: Path
    sinks: tuple[str, ...] = ("out",)
    upload: bool = False
    batches: list[int] = field(default_factory=list)

    @property
    def options(self) -> RunOptions:
        return RunOptions(home=Home(self.root), savepoints=SavepointPolicy(uri=str(self.store), upload=self.upload))

    @property
    def pipeline(self) -> Pipeline:
        source = StreamBuilder.data_stream("shop", "trip").from_file(
            self.root.parent / "in", schema="n bigint", name="file"
        )
        for sink in self.sinks:
            source = source.to_delta(str(self.outputs / sink), name=sink)
        return source.build()

    @property
    def folder(self) -> Path:
        return self.options.home.job("shop", "trip")

    def start(self, batches: int = 1, **how) -> None:
        """A run of so many batches, each staged and committed as a query does it."""
        with opened(self.pipeline.topology, replace(self.options, **how)) as session:
            (plan,) = session.plans
            query = FakeQuery(session.query_folder(plan), partitions=0, control=False)
            if not (query.checkpoint / "metadata").exists():
                query.begin()
            last = session.log(plan).last_committed()
            for batch in range(last + 1, last + 1 + batches):
                self.one_batch(session, query, batch)
            facts = replace(session.facts(plan), query_id=session.log(plan).query_id)
            facts = replace(facts, sinks=dict.fromkeys(plan.sinks, last + batches), catalogued=last + batches)
            session.manifest = session.manifest.with_query(session.folders[plan.name], facts)
            session.save()
            if session.uploader is not None:
                session.uploader.finish()

    def one_batch(self, session, query, batch: int) -> None:
        (plan,) = session.plans
        query.plan(batch)
        if session.uploader is not None:
            uploads = session.uploader.of(session.folders[plan.name])
            uploads.begin()
            uploads.wait()
        for sink in plan.sinks:
            self.write(session, sink, batch)
        query.commit(batch)

    def write(self, session, sink: str, batch: int) -> None:
        writer, mark = session.writer(sink), self.mark(session, sink, batch)
        if not writer.committed(mark):
            rows = pa.table({"n": [batch]})
            table = writer.handle.table
            mode = "overwrite" if table is not None and writer._begins_anew(mark) else "append"
            write_deltalake(writer.location(), rows, mode=mode, commit_properties=properties(mark))

    @staticmethod
    def mark(session, sink: str, batch: int) -> BatchMark:
        generation, token = session.facts(session.plans[0]).generation, session.held.token
        return BatchMark(session.manifest.pipeline_id, generation, sink, batch, token, session.claim)

    def save(self):
        return savepoint(self.pipeline.topology, self.options)

    def restore(self, savepoint_id: str | None = None):
        return restore(self.pipeline.topology, self.options, savepoint_id=savepoint_id)

    def rewind(self, batch: int) -> str:
        return rewind(self.pipeline.topology, batch, self.options)

    def rows(self, sink: str = "out") -> list[int]:
        return sorted(DeltaTable(str(self.outputs / sink)).to_pyarrow_table()["n"].to_pylist())

    @property
    def manifest(self):
        return manifests.load(self.folder)

    def copied(self, name: str) -> FakeHome:
        """A copy of the whole home in another folder."""
        other = replace(self, root=self.root.with_name(name))
        shutil.copytree(self.root, other.root)
        return other

    def moved(self, name: str) -> FakeHome:
        other = replace(self, root=self.root.with_name(name))
        self.root.rename(other.root)
        return other

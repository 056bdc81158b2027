"""A trial that goes on from a savepoint: its state and offsets, and the table as it was then."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.checkpoint.manifest import Manifest, QueryFacts, generation_folder
from rs_assets.compile.planner.query_plan import QueryPlan
from rs_assets.connectors.delta.log.history import NO_ROWS
from rs_assets.connectors.delta.log.store import delta_table, rows_at
from rs_assets.connectors.delta.rewind import plan_rewind
from rs_assets.errors import CheckpointError, SinkError
from rs_assets.records.schema import quoted
from rs_assets.recovery.savepoints import Savepoint, SavepointStore, fork
from rs_assets.recovery.savepoints.listing import CHECKPOINT
from rs_assets.runtime.recorded.digest import comparable
from rs_assets.runtime.recorded.recompute import Written
from rs_assets.runtime.recorded.recorded import Recorded
from rs_assets.runtime.upkeep.ownership import savepoint_to_restore, savepoints_of
from rs_assets.runtime.upkeep.returns import valid_batches

NEWEST = "newest"
LATER = "name a later savepoint"
# What a trial takes of a checkpoint: its sources are others, which have read nothing.
STATE = frozenset({"metadata", "offsets", "commits", "state"})


@dataclass(frozen=True, slots=True)
class Since:
    """What a savepoint has of a query that is stored as `query`, whose last batch was `batch` of `generation`."""

    store: SavepointStore
    savepoint: Savepoint
    query: str
    batch: int
    generation: int

    @classmethod
    def named(cls, recorded: Recorded, plan: QueryPlan, savepoint_id: str) -> Since:
        """The one with this id, or the newest; CheckpointError if the batches of today do not follow it."""
        session = recorded.session
        topology, query = session.topology, session.folders[plan.name]
        savepoint = savepoint_to_restore(topology, session.options, None if savepoint_id == NEWEST else savepoint_id)
        stored = savepoint.manifest["queries"].get(query)
        if stored is None or savepoint.batches.get(query, -1) < 0:
            raise CheckpointError(
                f"the savepoint {savepoint.id} has no batch of query {plan.name!r}",
                remedy=LATER,
                pipeline=topology.name,
            )
        batch, generation = savepoint.batches[query], int(stored["generation"])
        if (valid_batches(session.manifest, plan) or {}).get(generation, -1) < batch:
            raise CheckpointError(
                f"the pipeline has left batch {batch} of the savepoint {savepoint.id} by a rewind, a restore or a new"
                " generation",
                remedy=LATER,
                pipeline=topology.name,
            )
        files = tuple(file for file in savepoint.files if PurePosixPath(file.path).parts[1] == query)
        return cls(savepoints_of(session.options), replace(savepoint, files=files), query, batch, generation)

    def begin(self, job: Path, plan: QueryPlan) -> None:
        """Put the state of the query into the folder of a job that has not run, as if it had read nothing else."""
        forked = fork(self.store, self.savepoint, job)
        facts = forked.queries[self.query]
        kept = QueryFacts(
            generation=facts.generation,
            stateful=facts.stateful,
            mode=facts.mode,
            sinks=dict.fromkeys(plan.sinks, -1),
            shape=facts.shape,
            query_id=facts.query_id,
            rows_open=facts.rows_open,
            catalogued=self.batch,
        )
        body = Manifest(pipeline_id=forked.pipeline_id, partitions=forked.partitions, queries={self.query: kept})
        manifests.save(job, body)
        place = job / generation_folder(facts.generation) / self.query
        _remove_all(place, besides=frozenset({CHECKPOINT}))
        _remove_all(place / CHECKPOINT, besides=STATE)
        CheckpointLog(place / CHECKPOINT).forget_sources()

    def version(self, written: Written) -> int:
        """The version of the table with the rows up to the savepoint; NO_ROWS for none, SinkError if it is gone."""
        then = replace(written.mark, generation=self.generation, batch_id=self.batch)
        try:
            version = plan_rewind(written.table, then, written.mark, had=-1, path=written.path)
        except SinkError as error:
            raise SinkError(error.what, remedy=LATER, **error.facts) from error
        return written.table.version() if version is None else version


def _remove_all(folder: Path, *, besides: frozenset[str]) -> None:
    """Remove what is in a folder, but for these names."""
    for path in folder.iterdir():
        if path.name not in besides:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def rows_since(spark: SparkSession, written: Written, version: int) -> tuple[DataFrame, DataFrame | None]:
    """What a table has more than in an earlier version, and what less, as after a backfill; None for nothing.

    The rows are in comparable form, each as often as it was added or removed. Files that both versions have are not
    read, unless the table marks rows of a file as deleted.
    """
    now = rows_at(spark, written.path, written.table.version())
    if version == NO_ROWS:
        return comparable(now), None
    before, then = rows_at(spark, written.path, version), delta_table(written.path, version)
    marked = "deletionVectors" in (written.table.protocol().reader_features or ())
    ours, theirs = _files(written.table), _files(then)
    common = sorted(set() if marked else ours & theirs)
    added = comparable(_without(now, common))
    if theirs <= set(common):
        return added, None
    removed = comparable(_as_in(_without(before, common), now.schema))
    return added.exceptAll(removed), removed.exceptAll(added)


def with_rows(made: DataFrame, removed: DataFrame) -> DataFrame:
    """Both, in comparable form and with the columns of `made`; what `removed` lacks, or has otherwise, is null."""
    rows = comparable(made)
    return rows.unionAll(_as_in(removed, rows.schema))


def _as_in(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with the columns of a schema; a column that they lack, or a value that does not fit, is null."""
    known = set(rows.columns)
    made = (F.col(quoted(each.name)) if each.name in known else F.lit(None) for each in schema)
    return rows.select(*(of.try_cast(each.dataType).alias(each.name) for of, each in zip(made, schema, strict=True)))


def _without(rows: DataFrame, files: list[str]) -> DataFrame:
    return rows.filter(~F.col("_metadata.file_name").isin(files)) if files else rows


def _files(table: DeltaTable) -> set[str]:
    return {path.rpartition("/")[2] for path in table.file_uris()}

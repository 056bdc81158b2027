"""One op of a pipeline, run by Dagster over given rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.late_sinks import gets_late
from rs_assets.connectors.memory import MemoryChannel, Record
from rs_assets.connectors.memory.nodes import ArraySource, MemorySink
from rs_assets.connectors.nodes import Source
from rs_assets.errors import SchemaError, TopologyError
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import schema_text
from rs_assets.runtime.job.analysis import schemas_of, without_brokers
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.cut import cut_out, rows_before
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from rs_assets.runtime.report import RunReport

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class OpRun:
    """What an op did.

    - `rows` (list of dicts): the rows after the step; those of a Delta table for its sink, of others none. Of a table
      the current rows.
    - `outputs` (dict of such lists): the rows of each branch of a split, or of each named output of a processor.
    - `rows_in`, `rows_dead`, `rows_late`, `rows_out` (int): as in `RunReport`.
    - `metadata` (dict): what Dagster shows of the step; empty for a step that has no asset.
    """

    rows: list[Record]
    outputs: Mapping[str, list[Record]] = field(default_factory=dict)
    rows_in: int = 0
    rows_dead: int = 0
    rows_late: int = 0
    rows_out: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


def run_op(
    pipeline: Pipeline,
    step: str,
    inputs: Rows | Mapping[str, Rows] | None = None,
    *,
    home: Path | None = None,
    resources: Mapping[str, Any] | None = None,
) -> OpRun:
    """Run the op of one step of `pipeline`, as Dagster runs it, over rows of yours.

    The op is that of the pipeline's own graph. It gets the rows from ops with arrays, Dagster executes them in this
    process in an instance of their own, and all windows fire. A sink writes where it writes; tables by name and durable
    shuffles are in `home`.

    - `step` (str): the name of a step of any family.
    - `inputs` (rows, or a dict of rows by step; default none, for a source): those of the step before it. With several
      steps before it, by the name of each. A name further upstream is possible, too: the steps between are run as
      well. Before a table or a split the rows are those of the stream before it.
    - `home` (Path, default: a temporary folder).
    - `resources` (dict by family, default none): as for `build_definitions`.

    TopologyError for rows that are missing or of a step that is not upstream; errors of the step as in a run.

    >>> from rs_assets import StreamBuilder
    >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
    >>> pipeline = hits.filter("ms > 100", name="slow").to_delta("slow_hits").build()
    >>> run_op(pipeline, "slow", [{"page": "/", "ms": 12}, {"page": "/a", "ms": 120}]).rows
    [{'page': '/a', 'ms': 120}]
    >>> run_op(pipeline, "slow_hits_table", [{"page": "/a", "ms": 120}]).rows_out
    1
    """
    whole = without_brokers(pipeline.topology)
    given = _given(whole, step, inputs)
    channels: dict[str, MemoryChannel] = {}
    topology = cut_out(
        whole,
        step,
        given,
        stand=_stand(whole, given),
        end=lambda name: _end(name, channels),
    )
    with scratch_folder("rs-op-") as folder:
        metadata, report = _executed(Pipeline(topology), step, home or folder, resources or {})
        rows = {name: [_current(row) for row in channel.rows()] for name, channel in channels.items()}
        if step in report.tables:
            rows[step] = _written(report, step)
    first = next(iter(rows.values()), [])
    return OpRun(
        rows=first if len(rows) < 2 else rows.get(f"{step}_main", [row for each in rows.values() for row in each]),
        outputs={} if len(rows) < 2 else {name.removeprefix(f"{step}_"): each for name, each in rows.items()},
        rows_in=report.rows_in,
        rows_dead=report.rows_dead,
        rows_late=report.rows_late,
        rows_out=report.rows_out,
        metadata=metadata,
    )


def _given(topology: Topology, step: str, inputs: Rows | Mapping[str, Rows] | None) -> dict[str, list[Any]]:
    """The rows by the step that they stand for."""
    before = rows_before(topology, step)
    _check_late(topology, step)
    if isinstance(inputs, Mapping):
        return {name: list(rows) for name, rows in inputs.items()}
    if inputs is None and not before:
        return {}
    if inputs is None or len(before) != 1:
        example = ", ".join(f"{name!r}: [...]" for name in before)
        raise TopologyError(
            f"step {step!r} needs the rows of: {', '.join(before)}" if before else f"step {step!r} is a source",
            remedy=f"inputs={{{example}}}" if before else "leave inputs= out",
            step=step,
        )
    return {before[0]: list(inputs)}


def _check_late(topology: Topology, step: str) -> None:
    node = topology[step]
    if gets_late(node):
        raise TopologyError(
            f"step {step!r} writes the late rows of {node.inputs[0]!r}, and rows of one batch are never late",
            remedy="push several batches: PipelineDriver(pipeline)",
            step=step,
        )


def _stand(topology: Topology, given: Mapping[str, list[Any]]) -> Any:
    """Makes the array that stands for a step upstream, with its fields."""
    try:
        schemas = schemas_of(topology, SparkDriver.shared())
    except SchemaError:
        # A source without a declared schema: the fields are those of the given rows.
        schemas = {}

    def stand(node: Node) -> Source:
        declared = node.row_schema if isinstance(node, Source) else None
        schema = declared or schema_text(schemas.get(node.name), step=node.name)
        above = {node.name} | topology.ancestors(node.name)
        policy = BadRecords.strictest({source.bad_records for source in topology.sources if source.name in above})
        return ArraySource(name=node.name, rows=tuple(given[node.name]), schema=schema, policy=policy)

    return stand


def _end(step: str, channels: dict[str, MemoryChannel]) -> MemorySink:
    channels[step] = MemoryChannel()
    return MemorySink(name=f"{step}_rows_out", inputs=(step,), channel=channels[step])


def _current(row: Record) -> Record:
    """A row of a table without its flag: after one batch no row has gone."""
    return {name: value for name, value in row.items() if name != "retracted"}


def _written(report: RunReport, step: str) -> list[Record]:
    from rs_assets.connectors.delta.table import open_table

    return report.table(step).to_pylist() if open_table(report.tables[step]) is not None else []


def _executed(
    pipeline: Pipeline, step: str, home: Path, resources: Mapping[str, Any]
) -> tuple[Mapping[str, Any], RunReport]:
    """What Dagster shows of the step after a run of the pipeline, and the report of the run."""
    from dagster import DagsterInstance

    from rs_assets.dagster.assets.roles import ROLE_OF
    from rs_assets.dagster.assets.stream_assets import StreamAssets
    from rs_assets.dagster.definitions_of import build_definitions
    from rs_assets.dagster.place import Place
    from rs_assets.dagster.resources.spark import SparkResource
    from rs_assets.dagster.resources.window import WindowResource
    from rs_assets.dagster.runs.launch import cause_of
    from rs_assets.dagster.runs.runtime import LAST_REPORTS, RunResource

    class ApartResource(RunResource):
        """A run whose catalog, leases and savepoints are in its home, whatever the environment says."""

        def place(self) -> Place:
            """The place in the settings."""
            return replace(super().place(), home=Home(home, apart=True))

    apart = ApartResource(
        home=str(home), local_storage_only=True, upload=False, openlineage=False, checkpoint_storage="delta"
    )
    own = {"spark": SparkResource(share=True), "window": WindowResource(finish=True), "run": apart}
    job = build_definitions([pipeline], {**own, **resources}).resolve_job_def(f"{pipeline.topology.label}_run")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with DagsterInstance.ephemeral() as instance:
        try:
            done = job.execute_in_process(run_config=quiet, instance=instance)
        except Exception as error:
            ours = cause_of(error)
            if ours is None or ours is error:
                raise
            raise ours from None
        key = StreamAssets.of(pipeline).key(step) if pipeline.topology[step].family in ROLE_OF else None
        shown = [e.materialization.metadata for e in done.get_asset_materialization_events() if e.asset_key == key]
    return {name: value.value for each in shown for name, value in each.items()}, LAST_REPORTS.pop(done.run_id)

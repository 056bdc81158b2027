"""Lineage of a run for other systems: OpenLineage events of what it reads and writes, column by column."""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import version
from operator import or_
from typing import Literal

import pyspark
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)

from rs_assets.common.background import BackgroundFailures
from rs_assets.common.home import Home
from rs_assets.compile.provenance import ANY, fields_of, provenance
from rs_assets.connectors.nodes import Source
from rs_assets.records.fields import Fields
from rs_assets.runtime.record.datasets import Dataset, datasets_read, datasets_written
from rs_assets.runtime.report import BatchProgress
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.topology import Topology

Processing = Literal["BATCH", "STREAMING"]
VERSION = version("rs-assets")
# Who made the events, as OpenLineage wants it: a URI.
PRODUCER = f"urn:rs-assets:{VERSION}"
# A stream reports its rows at most this often.
RUNNING_EVERY_S = 60.0
# How long an unresponsive system may delay the end of a run.
PATIENCE_S = 5.0
# Two effects: that an event could be made must not end the failure to send the one before.
NOT_MADE, NOT_SENT = "OpenLineage events are not made", "OpenLineage events are not sent"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `error` is the failure, if there was one; not `complete` without one is an interrupted run."""

    complete: bool
    error: BaseException | None = None

    @property
    def state(self) -> RunState:
        """OpenLineage's word for it."""
        if self.error is not None:
            return RunState.FAIL
        return RunState.COMPLETE if self.complete else RunState.ABORT


class LineageEvents:
    """Sends START, each minute RUNNING, and COMPLETE, FAIL or ABORT of one run, on a thread of its own.

    Where to is set by OpenLineage's own variables (OPENLINEAGE_URL, OPENLINEAGE_API_KEY, OPENLINEAGE__TRANSPORT...).
    The job has the names of the pipeline. The run has the id of Dagster's run; without Dagster an id that is made from
    the run's. An unavailable system does not end the run: it is reported in `failures`.
    """

    def __init__(
        self, topology: Topology, home: Home, *, run_id: str, processing: Processing, failures: BackgroundFailures
    ) -> None:
        self._job = Job(topology.namespace, topology.job, {"jobType": _job_type(processing)})
        self._run_id = _as_uuid(run_id)
        self._datasets = DatasetFacets(topology, home)
        self._failures = failures
        # By query: each one that reads a source counts all of its rows.
        self._read: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._written: Counter[str] = Counter()
        self._last = time.monotonic()
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rs-lineage")
        self._client: OpenLineageClient | None = None

    def begin(self) -> None:
        """Send START."""
        self._send(RunState.START, {"processing_engine": _engine()})

    def count(self, progress: BatchProgress) -> None:
        """Add a finished batch."""
        self._written.update(progress.rows_out)
        self._read[progress.query].update({step: rows for step, (rows, _) in progress.gates.items()})
        if time.monotonic() - self._last >= RUNNING_EVERY_S:
            self._send(RunState.RUNNING)

    def end(self, outcome: Outcome) -> None:
        """Send how the run ended, and wait up to PATIENCE_S for all events."""
        facets = {} if outcome.error is None else {"errorMessage": _error(outcome.error)}
        last = self._send(outcome.state, facets)
        try:
            last.result(timeout=PATIENCE_S)
        except TimeoutError as error:
            self._failures.failed(NOT_SENT, error)
        self._sender.shutdown(wait=False, cancel_futures=True)

    def _send(self, state: RunState, facets: Mapping[str, RunFacet] | None = None) -> Future[None]:
        self._last = time.monotonic()
        event = RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(self._run_id, dict(facets or {})),
            job=self._job,
            producer=PRODUCER,
            inputs=self._datasets.inputs(reduce(or_, self._read.values(), Counter())),
            outputs=self._datasets.outputs(self._written),
        )
        return self._sender.submit(self._emit, event)

    def _emit(self, event: RunEvent) -> None:
        with self._failures.guarding(NOT_SENT):
            self._client = self._client or OpenLineageClient()
            self._client.emit(event)


class DatasetFacets:
    """The inputs and outputs of a pipeline, their fields, and the fields that each column of an output is made from."""

    def __init__(self, topology: Topology, home: Home) -> None:
        self._read = datasets_read(topology, home)
        self._written = datasets_written(topology, home)
        fields = check_fields(topology)
        self._facets = {step: _schema(fields[step]) for step in self._read if isinstance(topology[step], Source)}
        self._facets |= {
            step: _schema(fields[step]) | self._lineage(topology, step, fields[step]) for step in self._written
        }

    def inputs(self, rows: Mapping[str, int]) -> list[InputDataset]:
        """The datasets that are read, with the number of rows where it is known."""
        return [
            InputDataset(each.namespace, each.name, _rows_in(rows, step, found), facets=self._facets.get(step, {}))
            for step, found in self._read.items()
            for each in found
        ]

    def outputs(self, rows: Mapping[str, int]) -> list[OutputDataset]:
        """The datasets that are written, with the number of rows."""
        return [
            OutputDataset(each.namespace, each.name, _rows_out(rows.get(step, 0)), facets=self._facets[step])
            for step, each in self._written.items()
        ]

    def _lineage(self, topology: Topology, step: str, fields: Fields) -> dict[str, DatasetFacet]:
        known = provenance(topology, step)
        columns = {
            name: column_lineage_dataset.Fields(
                [
                    column_lineage_dataset.InputField(each.namespace, each.name, field)
                    for source, field in sorted(fields_of(known, name))
                    if field != ANY
                    for each in self._read.get(source, ())
                ]
            )
            for name in fields.types
        }
        made = {name: found for name, found in columns.items() if found.inputFields}
        return {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(made)} if made else {}


def _schema(fields: Fields) -> dict[str, DatasetFacet]:
    """The fields of a dataset, if some are known."""
    listed = [
        schema_dataset.SchemaDatasetFacetFields(name, kind.text if kind is not None else None)
        for name, kind in fields.types.items()
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(listed)} if listed else {}


def _rows_in(rows: Mapping[str, int], step: str, found: tuple[Dataset, ...]) -> dict[str, InputDatasetFacet]:
    """The rows of a step that reads one dataset; of several it is not known which has how many."""
    if step not in rows or len(found) > 1:
        return {}
    return {"inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows[step])}


def _rows_out(rows: int) -> dict[str, OutputDatasetFacet]:
    return {"outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)}


def _job_type(processing: Processing) -> job_type_job.JobTypeJobFacet:
    return job_type_job.JobTypeJobFacet(processingType=processing, integration="RS_ASSETS", jobType="PIPELINE")


def _engine() -> processing_engine_run.ProcessingEngineRunFacet:
    return processing_engine_run.ProcessingEngineRunFacet(
        version=pyspark.__version__, name="Apache Spark", openlineageAdapterVersion=VERSION
    )


def _error(error: BaseException) -> error_message_run.ErrorMessageRunFacet:
    return error_message_run.ErrorMessageRunFacet(
        message=f"{type(error).__name__}: {error}", programmingLanguage="python"
    )


def _as_uuid(run_id: str) -> str:
    """OpenLineage wants a UUID: the id itself, or the one that is made from it.

    >>> _as_uuid("c0ffee00-0000-4000-8000-000000000000"), _as_uuid("4f1d2c")
    ('c0ffee00-0000-4000-8000-000000000000', '61cbbee1-1ea7-5933-b929-8f7fee8e2869')
    """
    try:
        return str(uuid.UUID(run_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, run_id))

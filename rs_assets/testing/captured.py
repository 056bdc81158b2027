"""Captured batches again, through the current code on real Spark, in the batches in which they were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rs_assets.errors import SchemaError, TopologyError
from rs_assets.operators.window.durations import EPOCH
from rs_assets.records.columns import visible
from rs_assets.records.ddl import arrow_schema
from rs_assets.runtime.capture.folder import (
    Captured,
    CapturedBatch,
    expected_file,
    read_rows,
    records_file,
    write_rows,
)
from rs_assets.runtime.capture.values import comparable, typed_rows
from rs_assets.runtime.job.session import JobSession
from rs_assets.spark.driver import SparkDriver
from rs_assets.spark.settings import NO_DATA
from rs_assets.stream.pipeline import Pipeline
from rs_assets.testing.driver import PipelineDriver, unplanned
from rs_assets.topology.topology import Topology

NOTHING: Final = (
    "no rows are expected, so nothing was compared; replay(..., accept=True) takes those of the current code: read them"
)
# How many rows of a difference are shown, of each side.
SHOWN: Final = 20
Rows = Sequence[Mapping[str, Any]]


def replay(pipeline: Pipeline, folder: str | Path, *, spark: SparkDriver | None = None, accept: bool = False) -> None:
    """Push captured batches through `pipeline`, and compare the rows of each output with those that are expected.

    AssertionError shows the rows that differ, by batch and output, in any order; floating-point numbers are compared to
    twelve digits. It is raised as well if no rows are expected of any output. An error of a step is raised as by a run.
    Only the query of the batches runs. ConfigurationError if the folder has no captured batches, or one that does not
    parse, SchemaError if the fields of a record are not those of its source, TopologyError if a source or an output is
    no longer there.

    - `folder` (path): that of the capture.
    - `spark` (SparkDriver, default: the process's own).
    - `accept` (bool, default False): write the rows that come as those that are expected from now on.

    >>> from tempfile import TemporaryDirectory
    >>> from rs_assets import Home, RunOptions, StreamBuilder
    >>> hits = StreamBuilder.data_stream("docs", "replayed").from_array([{"id": 1, "ms": 12}, {"id": 2, "ms": 120}])
    >>> slow = lambda least: hits.filter(f"ms > {least}").to_delta("slow", name="slow").build()
    >>> with TemporaryDirectory() as folder:
    ...     options = RunOptions(home=Home.at(f"{folder}/home"))
    ...     _ = slow(100).run(options)
    ...     found = slow(100).capture(options, into=folder)
    ...     replay(slow(100), found.folder)
    ...     try:
    ...         replay(slow(10), found.folder)
    ...     except AssertionError as error:
    ...         print(error)
    batch 0, output slow: 0 missing, 1 not expected
      + {"id": 1, "ms": 12}
    """
    folder = Path(folder)
    captured = Captured.read(folder)
    differences: list[str] = []
    with _Cuts(_of_query(pipeline, captured), spark=spark, arrays=False, schemas=captured.schemas) as driver:
        if captured.begins is not None:
            driver.cut({}, captured.begins)
        for batch in captured.batches:
            rows = _pushed(driver, folder, captured, batch)
            if accept and batch.asked:
                _accept(folder, batch.batch, rows)
            differences += _differences(folder, batch.batch, rows)
    if differences:
        raise AssertionError("\n".join(differences))
    if not any(expected_file(folder, batch, sink).exists() for batch in captured.asked for sink in captured.sinks):
        raise AssertionError(NOTHING)


def _pushed(driver: _Cuts, folder: Path, captured: Captured, batch: CapturedBatch) -> Mapping[str, Rows]:
    """The rows of each output for one batch."""
    records = {name: read_rows(records_file(folder, batch.batch, name)) for name in captured.schemas}
    driver.cut({name: rows for name, rows in records.items() if rows}, batch.control)
    return {name: driver.take(name) for name in captured.sinks}


def _accept(folder: Path, batch: int, rows: Mapping[str, Rows]) -> None:
    for sink, each in rows.items():
        write_rows(expected_file(folder, batch, sink), map(_shown, each))


def _differences(folder: Path, batch: int, rows: Mapping[str, Rows]) -> Iterator[str]:
    """A text for each output whose rows differ from those that are expected."""
    for sink, each in rows.items():
        file = expected_file(folder, batch, sink)
        if not file.exists():
            continue
        was, now = (Counter(map(comparable, some)) for some in (read_rows(file), map(_shown, each)))
        missing, new = was - now, now - was
        if missing or new:
            head = f"batch {batch}, output {sink}: {missing.total():,} missing, {new.total():,} not expected"
            yield "\n".join([head, *_lines("-", missing), *_lines("+", new)])


def _lines(sign: str, rows: Counter[str]) -> Iterator[str]:
    yield from (f"  {sign} {row}" for row in sorted(rows.elements())[:SHOWN])
    if rows.total() > SHOWN:
        yield f"  {sign} and {rows.total() - SHOWN:,} more"


def _shown(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: row[name] for name in visible(list(row))}


class _Cuts(PipelineDriver):
    """A driver whose batches are those that are given: Spark adds none when the watermark moves."""

    _control: datetime | None = None

    def cut(self, rows: Mapping[str, Rows], control: datetime | None) -> None:
        """One batch with the records of each source; it moves the watermark to `control`, too, if that is given."""
        for name, each in rows.items():
            self.push(self._typed(each, name), name)
        # A query with state makes a batch without records, too: this time moves no watermark.
        self._control = control or (None if rows else EPOCH)
        self.step()

    def _typed(self, rows: Rows, source: str) -> Rows:
        """Records of a source, of JSON that a person may have changed."""
        if source not in self._channels:
            raise TopologyError(
                f"the pipeline no longer has the source {source!r} of the captured records",
                remedy=f"rename it in capture.json and its files in records: {', '.join(self._channels)}",
                step=source,
            )
        schema = arrow_schema(self._channels[source].schema or "")
        if schema is None:
            raise SchemaError(f"the records of source {source!r} cannot be made of JSON", step=source)
        try:
            return typed_rows(rows, schema)
        except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
            raise SchemaError(
                f"the records of source {source!r} do not have its types: {error}",
                remedy="write their values as docs/capture.md says",
                step=source,
            ) from error

    def _begin(self, session: JobSession, spark: Any) -> None:
        before = spark.conf.get(NO_DATA)
        self._stack.callback(self._spark.call, lambda session: session.conf.set(NO_DATA, before))
        spark.conf.set(NO_DATA, "false")
        super()._begin(session, spark)

    def _put(self, session: JobSession) -> None:
        control, queries = self._control, session.queries.values()
        with unplanned(queries):
            super()._put(session)
            if control is not None:
                for query in queries:
                    query.move_watermark(control)


def _of_query(pipeline: Pipeline, captured: Captured) -> Pipeline:
    """The part of `pipeline` that gives the captured outputs; all of it without such outputs."""
    topology = pipeline.topology
    used = {*captured.sinks}.union(*(topology.ancestors(name) for name in captured.sinks))
    nodes = tuple(node for node in topology if node.name in used or not used)
    return replace(pipeline, topology=Topology(topology.namespace, topology.job, nodes))

"""A finished pipeline: describe it, run it to the end of its input, or start it permanently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from rs_assets.connectors.store.nodes import stores_of
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.topology.describe import as_mermaid, as_text, in_short
from rs_assets.topology.topology import Topology

if TYPE_CHECKING:
    from pathlib import Path
    from threading import Event

    import pyarrow as pa

    from rs_assets.connectors.store.reader import Store
    from rs_assets.recovery.savepoints import Savepoint
    from rs_assets.runtime.capture.capture import Capture
    from rs_assets.runtime.forget.report import Forgotten
    from rs_assets.runtime.forget.world import Consent
    from rs_assets.runtime.job.preflight import Verified
    from rs_assets.runtime.options import RunOptions
    from rs_assets.runtime.recorded.backfill import Backfilled, Judge
    from rs_assets.runtime.recorded.difference import Difference
    from rs_assets.runtime.recorded.partitions import OutputPartitions
    from rs_assets.runtime.recorded.promote import Promoted
    from rs_assets.runtime.recorded.prove import Proof
    from rs_assets.runtime.recorded.records_of import Records
    from rs_assets.runtime.recorded.redrive import Redriven
    from rs_assets.runtime.recorded.why import Explanation
    from rs_assets.runtime.report import RunReport
    from rs_assets.runtime.run.lag import SourceLag
    from rs_assets.runtime.run.realtime import RealTimePipeline
    from rs_assets.runtime.run.rescaled import RescaleReport
    from rs_assets.runtime.run.running import RunningPipeline


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Pipeline:
    """A frozen pipeline. Spark is not started before a method needs it.

    `options` of the methods (RunOptions, default: RunOptions()) say where and with what it runs.
    """

    topology: Topology
    # Shown by Dagster: description, owners, and how far event time may lag behind the clock.
    description: str = ""
    owners: tuple[str, ...] = ()
    fresh_within: timedelta | None = None

    @property
    def name(self) -> str:
        """Namespace and job, joined by a dot.

        >>> from rs_assets import StreamBuilder
        >>> StreamBuilder.data_stream("shop", "hello").from_array([{"page": "/"}]).to_print().build().name
        'shop.hello'
        """
        return self.topology.name

    def __repr__(self) -> str:
        """Its name, sources, steps with state and sinks."""
        return f"<Pipeline {in_short(self.topology)}>"

    def _repr_html_(self) -> str:
        """A drawing for notebooks."""
        from rs_assets.topology.draw import as_svg

        return f"<b>{self.name}</b><br>{as_svg(self.topology)}"

    def describe(self, *, mermaid: bool = False) -> str:
        """The steps as lines of text, or as a Mermaid graph.

        The lines also say of each Python function whether Spark computes it ("compiled", with the line of its file that
        raises on null), Spark drops records before Python gets the others ("compiled in part"), or Python computes it
        ("Python"), and which line is the reason.

        - `mermaid` (bool, default False): as a Mermaid graph.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
        >>> slow = hits.filter(lambda hit: hit["page"] == "/" and hit["ms"] > 100)
        >>> print(slow.to_print().build().describe())
        shop.slow  fingerprint ...
          file      file_source  [json hits.jsonl]
          filter_1  filter <- file  [<lambda>()]  compiled: line 1: it raises TypeError
          print     print_sink <- filter_1
        """
        if mermaid:
            return as_mermaid(self.topology)
        from rs_assets.compile.python.tracing.explain import compiled

        return as_text(self.topology, compiled(self.topology))

    def check(self, options: RunOptions | None = None) -> Mapping[str, str]:
        """Let Spark analyse every step over empty input; returns the fields of each step by its name.

        Typical uses: tests, before a deployment. It starts Spark, but does not read, write or connect to anything.
        UserError names the first step that Spark does not accept; SchemaError a source whose schema would be inferred.

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "checked").from_file("hits.jsonl", schema="page string, ms bigint")
        >>> hits.with_fields(seconds="ms / 1000").to_print().build().check()["with_fields_1"]
        'page string, ms bigint, seconds double'
        """
        from rs_assets.runtime.job.analysis import analyse
        from rs_assets.runtime.options import RunOptions

        return analyse(self.topology, RunOptions.of(options).driver)

    def try_(
        self, rows: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]], *, spark: Any = None
    ) -> Mapping[str, list[dict[str, Any]]]:
        """Run over `rows` only; returns the rows of each sink by its name, with all windows fired.

        Typical uses: tests of a whole pipeline, a notebook. Sources and sinks are not touched, and nothing is kept. A
        merging sink gets each row that it would merge. Errors: as for `run()`.

        - `rows` (rows, or a dict of them by source if there are several).
        - `spark` (SparkDriver, default: the process's own).

        >>> from rs_assets import StreamBuilder
        >>> hits = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
        >>> hits.filter("ms > 100").to_delta("slow").build().try_([{"page": "/", "ms": 12}, {"page": "/a", "ms": 120}])
        {'slow_table': [{'page': '/a', 'ms': 120}]}
        """
        from rs_assets.runtime.run.trial import try_rows
        from rs_assets.spark.driver import SparkDriver

        return try_rows(self.topology, rows, spark or SparkDriver.shared())

    def run(self, options: RunOptions | None = None, *, finish: bool | None = None) -> RunReport:
        """Process all input there is now, then stop.

        A bounded pipeline fires its open windows at the end. An unbounded one keeps them in state for the next run.
        Without new input Spark is not needed, nor started; `RunReport.unchanged_since` says so. Errors: see
        rs_assets.errors; nothing of a failed batch is visible.

        - `finish` (bool, default: whether the pipeline is bounded): True ends the input, so that all windows fire.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> channel = MemoryChannel()
        >>> hits = StreamBuilder.data_stream("docs", "run").from_array([{"ms": 12}, {"ms": 120}])
        >>> with TemporaryDirectory() as folder:
        ...     report = hits.filter("ms > 100").to_memory(channel).build().run(RunOptions(home=Home.at(folder)))
        >>> channel.take(), report.rows_in, report.rows_out
        ([{'ms': 120}], 2, 1)
        """
        from rs_assets.runtime.run.run import run

        return run(self.topology, options, finish=finish)

    @overload
    def start(self, options: RunOptions | None = None) -> RunningPipeline: ...
    @overload
    def start(self, options: RunOptions | None = None, *, latency: Literal["micro-batch"]) -> RunningPipeline: ...
    @overload
    def start(self, options: RunOptions | None = None, *, latency: Literal["real-time"]) -> RealTimePipeline: ...
    def start(
        self, options: RunOptions | None = None, *, latency: Literal["micro-batch", "real-time"] = "micro-batch"
    ) -> RunningPipeline | RealTimePipeline:
        """Run until stopped; returns at once, with `.status()`, `.stop(drain=True)` and `.await_termination()`.

        - `latency` ("micro-batch" or "real-time", default "micro-batch"): "real-time" passes each record on at once,
          within milliseconds: only from Kafka to one topic of Kafka, at least once, without state, with steps in SQL or
          Columns. TopologyError names the step that prevents it; ConfigurationError if Spark has fewer slots than the
          topics have partitions.

        >>> import time
        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> source, sink = MemoryChannel(schema="ms bigint"), MemoryChannel()
        >>> slow = (
        ...     StreamBuilder.data_stream("docs", "start")
        ...     .from_memory(source)
        ...     .filter("ms > 100")
        ...     .to_memory(sink)
        ...     .build()
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     running = slow.start(RunOptions(home=Home.at(folder)))
        ...     source.put({"ms": 12}, {"ms": 120})
        ...     while not running.status()["rows_in"]:
        ...         time.sleep(0.1)
        ...     report = running.stop()
        >>> sink.take(), report.rows_in
        ([{'ms': 120}], 2)
        """
        if latency == "real-time":
            from rs_assets.runtime.options import RunOptions
            from rs_assets.runtime.run.realtime import start_real_time

            return start_real_time(self.topology, RunOptions.of(options))
        if latency != "micro-batch":
            raise TopologyError(
                f"latency= must be 'micro-batch' or 'real-time', not {latency!r}",
                remedy="use 'micro-batch' or 'real-time'",
            )
        from rs_assets.runtime.run.run import start

        return start(self.topology, options)

    def stand_by(
        self, options: RunOptions | None = None, *, timeout_s: float | None = None, stop: Event | None = None
    ) -> RunningPipeline | None:
        """Wait with Spark running until the driver of the stream is gone, then start it; returns the running stream.

        A stream that was stopped, or never ran, is not started. A driver that was killed on this machine is noticed
        within a second, one on another machine after `RunOptions.lease_ttl`. With uploads
        (`SavepointPolicy(upload=True)`) the stream may have run in another home. Errors as for `start`.

        - `timeout_s` (float, seconds, default None: no limit): returns None if there was nothing to do until then.
        - `stop` (threading.Event, default None): once it is set, returns None.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> pipeline = (
        ...     StreamBuilder.data_stream("docs", "spare").from_array([{"ms": 12}]).to_memory(MemoryChannel()).build()
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     taken = pipeline.stand_by(RunOptions(home=Home.at(folder)), timeout_s=1)
        >>> print(taken)
        None
        """
        from rs_assets.runtime.run.standby import stand_by

        return stand_by(self.topology, options, timeout_s=timeout_s, stop=stop)

    def savepoint(self, options: RunOptions | None = None, *, note: str = "") -> Savepoint:
        """Copy the checkpoints; the pipeline may run.

        Typical uses: before a new version, before a move to another machine. CheckpointError before the first batch,
        ConfigurationError with a durable shuffle.

        - `note` (str, default empty): for people.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> pipeline = (
        ...     StreamBuilder.data_stream("docs", "saved").from_array([{"ms": 12}]).to_memory(MemoryChannel()).build()
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     saved = pipeline.savepoint(options, note="before 2.0")
        ...     pipeline.savepoint(options).batches, saved.note
        ({'array': 0}, 'before 2.0')
        """
        from rs_assets.runtime.upkeep.savepoints import savepoint

        return savepoint(self.topology, options, note=note)

    def restore(self, options: RunOptions | None = None, *, savepoint_id: str | None = None) -> Savepoint:
        """Bring the stopped pipeline and its sinks back to a savepoint, as a new generation.

        CheckpointError if there is no savepoint or it is damaged; SinkError if a sink cannot go there. Nothing is
        changed then.

        - `savepoint_id` (str, default: the newest).

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> pipeline = StreamBuilder.data_stream("docs", "restored").from_array([{"ms": 12}]).to_delta("all").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     saved = pipeline.savepoint(options)
        ...     pipeline.restore(options).id == saved.id
        True
        """
        from rs_assets.runtime.upkeep.savepoints import restore

        return restore(self.topology, options, savepoint_id=savepoint_id)

    def rewind(self, to_batch: int, options: RunOptions | None = None, *, step: str | None = None) -> str:
        """Bring one query of the stopped pipeline, and its sinks, back to the end of batch `to_batch`.

        Returns what was done. CheckpointError names the batches that it can go to; SinkError if a sink cannot go back.
        Nothing is changed then.

        - `to_batch` (int): the last batch that stays.
        - `step` (str, default None): the stateful step of the query, if there are several queries.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> source = MemoryChannel(schema="ms bigint")
        >>> pipeline = StreamBuilder.data_stream("docs", "back").from_memory(source).to_delta("all").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     for ms in (12, 120):
        ...         source.put({"ms": ms})
        ...         _ = pipeline.run(options)
        ...     pipeline.rewind(0, options)
        'memory to batch 0, from then on generation 2; all_table restored to version 0'
        """
        from rs_assets.runtime.upkeep.savepoints import rewind

        return rewind(self.topology, to_batch, options, step=step)

    def fork(
        self, source: Pipeline, options: RunOptions | None = None, *, savepoint_id: str | None = None
    ) -> Savepoint:
        """Begin this pipeline, which has not run yet, with the state and offsets of a savepoint of `source`.

        Typical use: try a new version next to the running one. Steps are matched by name. CheckpointError if this
        pipeline has run, or there is no savepoint.

        - `source` (Pipeline): the pipeline that was saved.
        - `savepoint_id` (str, default: the newest).

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> old, new = (
        ...     StreamBuilder.data_stream("docs", job).from_array([{"ms": 12}]).to_delta(f"{job}_all").build()
        ...     for job in ("old", "new")
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = old.run(options)
        ...     saved = old.savepoint(options)
        ...     new.fork(old, options).id == saved.id
        True
        """
        from rs_assets.runtime.upkeep.savepoints import fork

        origin = (source.topology.namespace, source.topology.job)
        return fork(self.topology, origin, options, savepoint_id=savepoint_id)

    def rescale(self, partitions: int, options: RunOptions | None = None) -> RescaleReport:
        """Process the remaining input, rewrite the state in `partitions` partitions, and leave the pipeline stopped.

        Returns the numbers of partitions `before` and `after`, and the `state_rows` of each query, which are equal
        before and after. ConfigurationError for an invalid number and for state that cannot be redistributed,
        PipelineBusyError if the pipeline runs.

        - `partitions` (int): the new number of state partitions.

        >>> from rs_assets import StreamBuilder, Time, TumblingWindow
        >>> hits = StreamBuilder.data_stream("docs", "wider").from_file("in/*.jsonl", schema="ts timestamp")
        >>> pipeline = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").to_delta("minutes").build()
        >>> pipeline.rescale(0)
        Traceback (most recent call last):
        rs_assets.errors.ConfigurationError: 0 is not a number of partitions...
        """
        from rs_assets.runtime.run.rescale import rescale

        return rescale(self.topology, partitions, options)

    def forget(
        self,
        keys: Mapping[str, Any],
        options: RunOptions | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        savepoints: Consent = "refuse",
        plan: bool = False,
    ) -> Forgotten:
        """Remove the rows of `keys` from all places of the stopped pipeline; a scan of them is noted in the ledger.

        Typical use: the right to be forgotten. The places are outputs in Delta, with the files of earlier versions,
        state and its earlier versions, savepoints, uploads, stores, exported state and dead letters; `elsewhere` of the
        result names what is not erased, such as sources. The pipeline cannot go back to earlier batches afterwards. If
        it is interrupted before any row has gone, the next start undoes it; later, starts are refused, and the same
        call completes it. See docs/forget.md.

        PipelineBusyError if the pipeline runs. ConfigurationError, SinkError and CheckpointError for what cannot be
        removed: nothing is changed then.

        - `keys` (dict): a value, or a list of values, by field. Rows with any of them go.
        - `columns` (dict, default None): fields by the column that has them under another name: "visits:visitor", the
          output or step before the colon.
        - `savepoints` ("refuse" or "remove", default "refuse"): whether savepoints may be removed.
        - `plan` (bool, default False): only say what would be removed, of the stopped pipeline, too.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> rows = [{"user": 17, "page": "/"}, {"user": 18, "page": "/a"}]
        >>> pipeline = StreamBuilder.data_stream("docs", "visits").from_array(rows).to_delta("visits").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     done = pipeline.forget({"user": 17}, options)
        >>> done.complete, [(each.place, each.name, each.rows, each.left) for each in done.places if each.rows]
        (True, [('output', 'visits_table', 1, 0)])
        """
        from rs_assets.runtime.forget.forget import forget

        return forget(self.topology, keys, options, columns=columns or {}, savepoints=savepoints, plan=plan)

    def verify(self, options: RunOptions | None = None) -> tuple[Verified, ...]:
        """Check the checkpoints of the stopped pipeline as each start does; one result a query. Nothing is changed.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> pipeline = (
        ...     StreamBuilder.data_stream("docs", "sound").from_array([{"ms": 12}]).to_memory(MemoryChannel()).build()
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     [(query.query, query.found) for query in pipeline.verify(options)]
        [('array', ())]
        """
        from rs_assets.runtime.job.preflight import verify

        return verify(self.topology, options)

    def query(self, store: str, options: RunOptions | None = None) -> Store:
        """The store that `serve(store)` holds, for lookups by key; the pipeline may run, in another process too.

        Each answer is of one batch. It has its `rows`, `batch`, `watermark` and `age`. See docs/queries.md.
        ConfigurationError for another name.

        - `store` (str): the name given to `serve`.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> users = StreamBuilder.data_stream("docs", "asked").from_array([{"id": 1, "tier": "free"}]).to_table("id")
        >>> pipeline = users.serve("tiers").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     pipeline.query("tiers", options).get(1).row
        {'id': 1, 'tier': 'free'}
        """
        from rs_assets.common.home import Home
        from rs_assets.connectors.store.reader import Store

        known = stores_of(self.topology.sinks)
        if store not in known:
            raise ConfigurationError(
                f"{self.name} serves no store {store!r}",
                remedy=f"use one of: {', '.join(known)}" if known else "hold rows in one: .serve('totals')",
            )
        home = options.home if options is not None else Home.default()
        return Store(store, home.store(self.topology.namespace, store))

    def state(self, step: str, options: RunOptions | None = None, *, rows: int | None = None) -> pa.Table:
        """The state of `step` after the last committed batch.

        For a window: the open windows as they would fire now. For a join: the waiting rows, with `side`, `matched`, and
        their fields in `left` or `right`. ConfigurationError for other steps, CheckpointError before the first batch.

        - `step` (str): the name of a stateful step.
        - `rows` (int, default None: all): at most so many rows.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder, Time, TumblingWindow
        >>> source = MemoryChannel(schema="ts bigint")
        >>> hits = StreamBuilder.data_stream("docs", "open").from_memory(source)
        >>> pipeline = (
        ...     hits.window(TumblingWindow.of(Time.minutes(1), "ts")).count("n").to_memory(MemoryChannel()).build()
        ... )
        >>> source.put({"ts": 0}, {"ts": 9_000})
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     pipeline.state("window", options).select(["n"]).to_pylist()
        [{'n': 2}]
        """
        from rs_assets.runtime.upkeep.state import preview

        return preview(self.topology, step, options, rows=rows)

    def why(
        self,
        options: RunOptions | None = None,
        *,
        where: str | None = None,
        text: str | None = None,
        split: str | None = None,
        line: int | None = None,
        source: str | None = None,
        batch: int | None = None,
        limit: int = 1,
    ) -> tuple[Explanation, ...]:
        """What became of a record: which steps passed it on, refused it, dropped it or keep it, and why.

        Typical uses: a row that is missing in a table, a dead letter. The pipeline may run; its batches are read again,
        the newest first. There is one explanation for each record and each query that reads it, () if there is none.
        CheckpointError before the first run, DataError if input is no longer there. Python functions are called again,
        those of `for_each` are not.

        - `where` (str, default None): SQL over the fields of the source.
        - `text` (str, default None): a part of the record's text, for records that are refused.
        - `split`, `line` (str and int, default None): its place, as in a dead letter.
        - `source` (str, default: the only one).
        - `batch` (int, default None: all that can be read again).
        - `limit` (int, default 1): the most records that are explained.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "why").from_array([{"id": 1, "ms": 12}, {"id": 2, "ms": 120}])
        >>> pipeline = hits.filter("ms > 100", name="slow").to_memory(MemoryChannel()).build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     (found,) = pipeline.why(options, where="id = 1")
        >>> [(step.step, step.outcome, step.because) for step in found.steps]
        [('array', 'read', ''), ('slow', 'dropped', 'its condition is not true: ms > 100')]
        """
        from rs_assets.runtime.recorded.why import Sought, why

        sought = Sought(source=source, where=where, text=text, split=split, line=line, batch=batch, limit=limit)
        return why(self.topology, sought, options)

    def partitions(self, options: RunOptions | None = None, *, sink: str | None = None) -> OutputPartitions:
        """The partitions by event time of an output: their rows, and which of them have closed.

        Typical uses: what a nightly job may read, how far the results are complete. The pipeline may run. None before
        the table is there. ConfigurationError if `sink` (default: the only one) is not an output with `partitions=`.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import EventTimePartitions, Home, MemoryChannel, RunOptions, StreamBuilder, Time
        >>> source = MemoryChannel(schema="page string, at timestamp")
        >>> hits = StreamBuilder.data_stream("docs", "parted").from_memory(source)
        >>> hours = EventTimePartitions.hourly("at", since="2026-01-01", settle=Time.minutes(10))
        >>> pipeline = hits.to_delta("hits", partitions=hours).build()
        >>> source.put({"page": "/", "at": "2026-01-05 10:59:00"}, {"page": "/", "at": "2026-01-05 11:10:00"})
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     found = pipeline.partitions(options)
        >>> [(partition.key, partition.rows, partition.closed) for partition in found.partitions]
        [('2026-01-05-10:00', 1, True), ('2026-01-05-11:00', 1, False)]
        """
        from rs_assets.runtime.recorded.partitions import partitions_of

        return partitions_of(self.topology, options, sink=sink)

    def backfill(
        self,
        partition: str,
        options: RunOptions | None = None,
        *,
        to: str | None = None,
        sink: str | None = None,
        judge: Judge = "all",
        plan: bool = False,
        code: str | None = None,
    ) -> tuple[Backfilled, ...]:
        """Compute closed partitions of an output again, from the recorded input, and replace their rows.

        Typical uses: late records, corrected code, rows that were changed by hand. The pipeline may run: rows that it
        adds meanwhile stay. Each partition is replaced in one commit. Only outputs with mode="append" whose rows have
        passed no state, windows of a fixed length that emit once, or an inner join with a bound in time and such
        windows (docs/partitions.md). ConfigurationError for a partition that is open, DataLossError if the batches or
        the input are no longer there, SinkError if the table has rows of others.

        - `partition` (str): its name, as `partitions` shows it.
        - `to` (str, default None): the last one, to replace all between them.
        - `sink` (str, default: the only one).
        - `judge` (default "all"): "all" takes records that were late then; "as_then" leaves them out; "as_now"
          takes those that the last backfill of the partition has taken.
        - `plan` (bool, default False): only say how many batches would be read again.
        - `code` (str, default any): the digest of the code that was tried, `compare(...).code`; ConfigurationError if
          the current code is another.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import (
        ...     EventTimePartitions,
        ...     Home,
        ...     MemoryChannel,
        ...     RunOptions,
        ...     StreamBuilder,
        ...     Time,
        ...     TumblingWindow,
        ... )
        >>> source = MemoryChannel(schema="ts timestamp")
        >>> hits = StreamBuilder.data_stream("docs", "healed").from_memory(source)
        >>> hours = EventTimePartitions.hourly("start_time", since="2026-01-01")
        >>> minutes = hits.window(TumblingWindow.of(Time.minutes(10), "ts")).count("n")
        >>> pipeline = minutes.to_delta("hits", partitions=hours).build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     for time in ("10:05", "11:30", "10:06"):
        ...         source.put({"ts": f"2026-01-05 {time}:00"})
        ...         report = pipeline.run(options)
        ...     (done,) = pipeline.backfill("2026-01-05-10:00", options)
        >>> report.rows_late, done.rows_before, done.rows, done.batches
        (1, 1, 1, 2)
        """
        from rs_assets.runtime.recorded.backfill import backfill

        return backfill(self.topology, partition, options, last=to, sink=sink, judge=judge, plan=plan, code=code)

    def redrive(self, options: RunOptions | None = None, *, where: str | None = None, plan: bool = False) -> Redriven:
        """Take dead letters through the current code, and append the rows of those that it accepts, each once.

        Typical uses: a parser or a condition was too strict, and is corrected. The records are read again at their
        places in the recorded batches. Rows are appended in one commit, whose marker makes a second one impossible,
        also after a crash; then these dead letters no longer count. Those that are refused again stay, with the new
        reason. The pipeline may run. A rewind to a batch before the redrive undoes it, and its dead letters count
        again. Only outputs to Delta with mode="append" and without `partitions=`, whose rows have passed no state;
        TopologyError for others. SinkError if the table has no batch with rows yet, or if another redrive or a rewind
        has begun in the meantime.

        - `where` (str, default None: all): SQL over the columns of the dead letters, as "reason LIKE 'malformed%'".
        - `plan` (bool, default False): only say how many would be redriven; their records are read.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder
        >>> source = MemoryChannel(schema="id int, ms int")
        >>> def hits(condition):
        ...     read = StreamBuilder.data_stream("docs", "redriven").from_memory(source)
        ...     return read.expect(condition, on_fail="dead_letter", name="usual").to_delta("hits").build()
        >>> source.put({"id": 1, "ms": 12}, {"id": 2, "ms": 1200}, {"id": 3, "ms": -1})
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = hits("ms BETWEEN 0 AND 1000").run(options)
        ...     first = hits("ms >= 0").redrive(options)
        ...     second = hits("ms >= 0").redrive(options)
        >>> first.letters, first.rows, first.refused, second.letters
        (1, 1, 1, 0)
        """
        from rs_assets.runtime.recorded.redrive import redrive

        return redrive(self.topology, options, where=where, plan=plan)

    def prove(
        self,
        options: RunOptions | None = None,
        *,
        partition: str | None = None,
        to: str | None = None,
        sink: str | None = None,
        newest: int = 24,
    ) -> tuple[Proof, ...]:
        """Prove that closed partitions of an output equal what the recorded input gives.

        Typical uses: a nightly check, an audit, doubt. Nothing is changed but the ledger in the catalog, which gets a
        row for each partition. `records` of a proof says what became of each record that its batches have read; None
        after a join, a session or several steps with state. Rows are computed again in one batch, those that `backfill`
        does not compute as a stream (docs/partitions.md). The pipeline may run. Errors as of `compare`.

        - `partition`, `to` (str, default None): the first and the last one, by name.
        - `sink` (str, default: the only one).
        - `newest` (int, default 24): without names, at most so many of those that are not proved as they are now.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import EventTimePartitions, Home, RunOptions, StreamBuilder, Time
        >>> hits = StreamBuilder.data_stream("docs", "proved").from_array(
        ...     [{"id": 1, "at": "2026-01-05 10:05:00"}, {"id": 2, "at": "2026-01-05 11:30:00"}],
        ...     schema="id int, at timestamp",
        ... )
        >>> hours = EventTimePartitions.hourly("at", since="2026-01-01", settle=Time.minutes(0))
        >>> pipeline = hits.to_delta("hits", partitions=hours).build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     proofs = pipeline.prove(options)
        >>> [(proof.partition, proof.equal, proof.rows_stream) for proof in proofs]
        [('2026-01-05-10:00', True, 1), ('2026-01-05-11:00', True, 1)]
        """
        from rs_assets.runtime.recorded.prove import prove

        return prove(self.topology, options, partition=partition, to=to, sink=sink, newest=newest)

    def compare(
        self,
        options: RunOptions | None = None,
        *,
        partition: str | None = None,
        to: str | None = None,
        sink: str | None = None,
        newest: int = 24,
        keys: Sequence[str] = (),
        into: str | Path | None = None,
        savepoint_id: str | None = None,
    ) -> Difference:
        """Compare the rows that this code would have written with those that a former version has written.

        Typical uses: a try of new code before it is deployed, a review. Closed partitions, or the whole of a table
        without partitions, are computed from recorded batches and compared with the rows in the table: appended rows
        without state or of a window of a fixed length in one batch, others as a stream (docs/try.md). The home is not
        changed, and the pipeline may run. No sink is written, and functions of `for_each` are not called. Records that
        were late then are late again. Window and aggregates may be others than then, the watermark delay not.
        TopologyChangedError if the recorded batches do not fit the code, TopologyError for rows that cannot be computed
        again, DataLossError if their input is no longer there.

        - `partition`, `to` (str, default None): the first and the last one, by name.
        - `sink` (str, default: the only one with partitions, or the only table).
        - `newest` (int, default 24): without names, at most so many closed ones.
        - `keys` (names of fields, default none, of upserts those of the table): rows with equal keys are one row,
          changed or not. Without keys whole rows are compared. ConfigurationError if two rows have the same keys.
        - `into` (path, default None): a new folder, for a Delta table with each row that differs.
        - `savepoint_id` (str, default None): go on from the state of this savepoint, or of the "newest", and compare
          the rows since then, of upserts the whole table. CheckpointError if there is none, or later batches do not
          follow it.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import EventTimePartitions, Home, RunOptions, StreamBuilder, Time
        >>> hits = StreamBuilder.data_stream("docs", "compared").from_array(
        ...     [{"id": 1, "at": "2026-01-05 10:05:00"}, {"id": 2, "at": "2026-01-05 11:30:00"}],
        ...     schema="id int, at timestamp",
        ... )
        >>> hours = EventTimePartitions.hourly("at", since="2026-01-01", settle=Time.minutes(0))
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = hits.to_delta("hits", partitions=hours).build().run(options)
        ...     found = hits.filter("id > 1").to_delta("hits", partitions=hours).build().compare(options)
        >>> found.rows_before, found.rows_after, found.only_before, found.only_after
        (2, 1, 1, 0)
        """
        from rs_assets.runtime.recorded.compare import compare

        return compare(
            self.topology,
            options,
            partition=partition,
            to=to,
            sink=sink,
            newest=newest,
            keys=keys,
            into=into,
            savepoint_id=savepoint_id,
        )

    def promote(
        self,
        code: str,
        options: RunOptions | None = None,
        *,
        rewrite_from: str | None = None,
        sink: str | None = None,
        judge: Judge = "as_now",
        plan: bool = False,
    ) -> Promoted:
        """Let this code, which was tried, compute all batches from now on; replace the rows of closed partitions.

        Typical use: after `compare` has shown the difference (docs/try.md). What a start checks is checked first, and
        nothing is changed if it would be refused; `keep_state`, `reset_steps` and `new_generation` of `options` decide
        as for a start. A run that holds the pipeline is asked to stop; Dagster starts its stream again, others are
        started by you, with this code. Then partitions are replaced as by `backfill`, one commit each. After a crash
        the same call does what is left. ConfigurationError if this is not the code with that digest, PipelineBusyError
        if the run does not stop, or is one of this process; else errors as of a start and of `backfill`.

        - `code` (str): the digest of the code that was tried, `compare(...).code`.
        - `rewrite_from` (str, default None: no rows are replaced): the first partition, as `partitions` shows it. Those
          that are still open are `left`: promote again when they have closed.
        - `sink` (str, default: the only output with partitions).
        - `judge` (default "as_now"): which late records are taken, as of `backfill`; those of "as_now" are those of
          `compare`.
        - `plan` (bool, default False): only say what would be done.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import EventTimePartitions, Home, MemoryChannel, RunOptions, StreamBuilder, Time
        >>> source = MemoryChannel(schema="ms int, at timestamp")
        >>> hours = EventTimePartitions.hourly("at", since="2026-01-01", settle=Time.minutes(0))
        >>> def hits(condition):
        ...     read = StreamBuilder.data_stream("docs", "promoted").from_memory(source)
        ...     return read.filter(condition).to_delta("hits", partitions=hours).build()
        >>> source.put({"ms": 12, "at": "2026-01-05 10:05:00"}, {"ms": 120, "at": "2026-01-05 11:30:00"})
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = hits("ms > 0").run(options)
        ...     tried = hits("ms > 100").compare(options)
        ...     done = hits("ms > 100").promote(tried.code, options, rewrite_from="2026-01-05-10:00")
        >>> done.batches, [(each.partition, each.rows) for each in done.rewritten], done.left
        ({'memory': 1}, [('2026-01-05-10:00', 0)], ('2026-01-05-11:00',))
        """
        from rs_assets.runtime.recorded.promote import promote

        return promote(self.topology, code, options, rewrite_from=rewrite_from, sink=sink, judge=judge, plan=plan)

    def lag(self, options: RunOptions | None = None, *, over: timedelta = timedelta(0)) -> tuple[SourceLag, ...]:
        """How much input of each source is unread, and when the pipeline will have caught up.

        Typical uses: an alert, a decision to rescale. The sources are asked, and Spark's log is read; Spark is not
        started, and the pipeline may run. Sources that cannot count, such as folders of whole files, are left out.
        SourceReadError if a system does not answer.

        - `over` (timedelta, default 0): with it the sources are asked again after that time, which gives the rate at
          which input comes, and so the time of arrival.

        >>> from tempfile import TemporaryDirectory
        >>> from pathlib import Path
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> with TemporaryDirectory() as folder:
        ...     log, options = Path(folder, "hits.jsonl"), RunOptions(home=Home.at(f"{folder}/home"))
        ...     _ = log.write_text('{"id": 1}' + chr(10))
        ...     hits = StreamBuilder.data_stream("docs", "lagging").from_file(log, schema="id int", tail=True)
        ...     print(*hits.to_delta("hits").build().lag(options))
        file: 10 bytes unread, stopped
        """
        from rs_assets.runtime.options import RunOptions
        from rs_assets.runtime.run.lag import lag

        return lag(self.topology, RunOptions.of(options).home, over=over)

    def capture(
        self,
        options: RunOptions | None = None,
        *,
        batches: int | tuple[int, int] | None = None,
        partition: str | None = None,
        sink: str | None = None,
        into: str | Path = "tests/captured",
        name: str | None = None,
        mask: Collection[str] = (),
        expect: bool = True,
        max_records: int = 100_000,
    ) -> Capture:
        """Write recorded batches into a new folder, with the rows that they gave, and a test that replays them.

        Typical uses: a wrong row, a batch that fails; the test stays as a regression test. The home is not changed, and
        the pipeline may run. With state the batches before them are written as well, as far back as records matter.
        ConfigurationError for an unknown batch, a folder that exists, and for too many records; DataLossError if
        batches, their input or its source, or the table's history are no longer there.

        - `batches` (int, or the first and the last one; default: the one that has failed, else the newest).
        - `partition` (str, default None): instead of `batches` those of a closed partition of an output.
        - `sink` (str): an output of the query that is meant, if there are several queries.
        - `into` (path, default "tests/captured"): where the folder is made; relative to the project's folder.
        - `name` (str, default: job and batches): the name of the folder and of the test.
        - `mask` (names of fields, default none): their texts are replaced by digests, and no rows are expected.
        - `expect` (bool, default True): whether the test expects the rows that tables got; False: none. The test fails
          until `rs_assets.testing.replay(..., accept=True)` has taken those that the current code gives.
        - `max_records` (int, default 100,000): more records are refused.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, RunOptions, StreamBuilder
        >>> hits = StreamBuilder.data_stream("docs", "captured").from_array([{"id": 1, "ms": 12}, {"id": 2, "ms": 120}])
        >>> pipeline = hits.filter("ms > 100").to_delta("slow", name="slow").build()
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(f"{folder}/home"))
        ...     _ = pipeline.run(options)
        ...     found = pipeline.capture(options, into=folder)
        ...     print((found.folder / "expected" / "000000.slow.jsonl").read_text(), end="")
        {"id": 2, "ms": 120}
        >>> found.batches, found.records, found.refused
        ((0,), 2, 0)
        """
        from rs_assets.runtime.capture.capture import Asked, capture

        asked = Asked(
            batches=batches,
            partition=partition,
            sink=sink,
            into=into,
            name=name,
            mask=mask,
            expect=expect,
            max_records=max_records,
        )
        return capture(self, self.topology, asked, options)

    def records_of(
        self, row: Mapping[str, Any], options: RunOptions | None = None, *, sink: str | None = None, limit: int = 20
    ) -> Records:
        """The records that a row of a result is made of: how many, and the place and text of the first of them.

        Typical uses: a number that looks wrong, an audit. The batches in Spark's log are read again up to the window,
        or without state up to the sink. The pipeline may run. ConfigurationError for an unknown sink or field,
        TopologyError if its rows come from a join, a table, or several steps with state; otherwise as `why`.

        - `row` (dict): fields of the row; of a window the fields of its groups, `start_time` and `end_time`, as the
          window makes them. A session needs both times.
        - `sink` (str, default: the only one).
        - `limit` (int, default 20): the most records that are shown; all of them are counted.

        >>> from tempfile import TemporaryDirectory
        >>> from rs_assets import Home, MemoryChannel, RunOptions, StreamBuilder, Time, TumblingWindow
        >>> source = MemoryChannel(schema="page string, ts bigint")
        >>> hits = StreamBuilder.data_stream("docs", "origin").from_memory(source)
        >>> minutes = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).group_by("page").count("n")
        >>> pipeline = minutes.to_memory(MemoryChannel()).build()
        >>> source.put({"page": "/", "ts": 0}, {"page": "/a", "ts": 1_000}, {"page": "/", "ts": 70_000})
        >>> with TemporaryDirectory() as folder:
        ...     options = RunOptions(home=Home.at(folder))
        ...     _ = pipeline.run(options)
        ...     found = pipeline.records_of({"page": "/", "start_time": "1970-01-01 00:00:00"}, options)
        >>> found.rows, [record.line for record in found.records]
        (1, [1])
        """
        from rs_assets.runtime.recorded.records_of import records_of

        return records_of(self.topology, row, options, sink=sink, limit=limit)

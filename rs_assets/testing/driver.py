"""Testing pipelines on real Spark, batch by batch.

The counterpart of Kafka Streams' TopologyTestDriver: every source is replaced by a memory channel of its schema and
every sink by one that collects rows. Durable shuffles are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from rs_assets.common.home import Home
from rs_assets.common.node import Node
from rs_assets.common.scratch import scratch_folder
from rs_assets.compile.planner.plan import in_order
from rs_assets.connectors.memory import MemoryChannel, Record
from rs_assets.connectors.memory.nodes import ArraySource, MemorySource
from rs_assets.connectors.memory.writer import MemoryWriter
from rs_assets.connectors.nodes import Source
from rs_assets.errors import SchemaError, TopologyError
from rs_assets.runtime.batch.query import QueryRun, every
from rs_assets.runtime.batch.table_loading import TableLoading
from rs_assets.runtime.job.opening import opened
from rs_assets.runtime.job.session import JobSession
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.run.quarantine import process_all
from rs_assets.runtime.run.run import wire_all
from rs_assets.spark.driver import SparkDriver
from rs_assets.stream.pipeline import Pipeline
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.topology import Topology

# The trigger interval of each query: short enough for tests, long enough that idle queries do not use up a core.
POLL = timedelta(milliseconds=20)


class PipelineDriver:
    """Drives `pipeline` one micro-batch at a time.

    - `spark` (SparkDriver, default: the process's own).
    - `home` (path, default: a temporary folder): keeps checkpoints. Dimensions are looked up as in a run: tables by
      name are in `home`, without it in that of the environment.
    - `arrays` (bool, default True): the first `step()` processes the rows of arrays.
    - `schemas` (dict by source, default: none): the fields, as DDL text, of sources that declare none.

    >>> from rs_assets import StreamBuilder
    >>> stream = StreamBuilder.data_stream("shop", "slow").from_file("hits.jsonl", schema="page string, ms bigint")
    >>> with PipelineDriver(stream.filter("ms > 100").to_print().build()) as driver:
    ...     driver.push([{"page": "/", "ms": 12}, {"page": "/a", "ms": 120}])
    ...     driver.step()
    ...     driver.take()
    [{'page': '/a', 'ms': 120}]
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        spark: SparkDriver | None = None,
        home: Path | None = None,
        arrays: bool = True,
        schemas: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._stack = ExitStack()
        self._home = home
        self._spark = spark or SparkDriver.shared()
        self._channels: dict[str, MemoryChannel] = {}
        nodes = tuple(self._replaced(node, schemas) for node in pipeline.topology)
        self._topology = Topology(pipeline.topology.namespace, pipeline.topology.job, nodes, pipeline.topology.renamed)
        sinks = [sink for sink in self._topology.sinks if not isinstance(sink, ShuffleWrite)]
        self._sinks = {sink.name: MemoryChannel() for sink in sinks}
        self._options = RunOptions(driver=self._spark)
        self._session: JobSession | None = None
        self._waiting: dict[str, list[Mapping[str, Any]]] = {name: [] for name in self._channels}
        for source in pipeline.topology.sources:
            if arrays and isinstance(source, ArraySource):
                self._waiting[source.name].extend(source.rows)

    def __enter__(self) -> Self:
        """Start the queries."""
        try:
            root = self._home or self._stack.enter_context(scratch_folder("rs-driver-"))
            # Dimensions may be tables by name, which only the pipeline's own home has.
            tables = Home.default() if self._home is None else None
            self._options = RunOptions(home=Home(root, tables_of=tables), driver=self._spark).apart()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the queries and remove the temporary folder."""
        self.close()

    def close(self) -> None:
        """Stop; may be called twice."""
        self._stop()
        self._stack.close()

    def push(self, rows: Iterable[Mapping[str, Any]], source: str | None = None) -> None:
        """Give `rows` to `source` (the only one if None); the next `step()` processes them in one batch."""
        self._waiting[self._named(source, self._channels, "source")].extend(rows)

    def step(self) -> None:
        """Process the pushed rows as one micro-batch, and the windows that fire. Raises the query's error.

        The rows pushed to several sources are in that batch together, also if several queries read them.
        """
        self._call(self._put)
        self._process_all()

    def take(self, sink: str | None = None) -> list[Record]:
        """The rows that `sink` (the only one if None) got since the last `take()`."""
        return self._sinks[self._named(sink, self._sinks, "sink")].take()

    def finish(self) -> None:
        """End the input: process the pushed rows, then fire every open window."""
        self.step()
        for plans in in_order(self._topology, self._running().plans):
            names = {plan.name for plan in plans if plan.stateful}
            self._call(lambda session, n=names: self._fire([session.queries[name] for name in n]))
            self._process_all()

    def restart(self) -> None:
        """Drop the queries and start them again from their checkpoints."""
        self._stop()
        self._start()

    def reload(self, step: str | None = None) -> None:
        """Load the dimension of `step` (the only one if None) again; the next `step()` uses it. Raises load errors."""
        dimensions = self._running().dimensions
        dimensions.reload(self._named(step, dimensions.by_step, "dimension"))

    def report(self) -> RunReport:
        """The sums since the last start."""
        return self._running().report()

    def _start(self) -> None:
        writers = {name: MemoryWriter(name, channel) for name, channel in self._sinks.items()}
        session = self._session = opened(self._topology, self._options, writers=writers)
        self._options.driver.call(lambda spark: self._begin(session, spark))

    def _begin(self, session: JobSession, spark: Any) -> None:
        wire_all(session, spark)
        for query in session.queries.values():
            # There is nothing yet that a table could be loaded from.
            query.tables = TableLoading(log=query.log)
            query.start(self._trigger(session))

    @staticmethod
    def _trigger(session: JobSession) -> Mapping[str, Any]:
        return every(POLL * len(session.queries))

    def _stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _process_all(self) -> None:
        def process(session: JobSession) -> None:
            for plans in in_order(self._topology, session.plans):
                for plan in plans:
                    process_all(session, session.queries[plan.name], self._trigger(session))

        self._call(process)

    def _put(self, session: JobSession) -> None:
        with unplanned(session.queries.values()):
            for name, rows in self._waiting.items():
                self._channels[name].put(*rows)
                rows.clear()

    @staticmethod
    def _fire(queries: Collection[QueryRun]) -> None:
        with unplanned(queries):
            for query in queries:
                query.finish_windows()

    def _call(self, function: Any) -> None:
        session = self._running()
        self._options.driver.call(lambda _: function(session))

    def _running(self) -> JobSession:
        if self._session is None:
            raise TopologyError("the driver is not started", remedy="use it in a with statement")
        return self._session

    def _replaced(self, node: Node, schemas: Mapping[str, str]) -> Node:
        """A source as a memory source of the same name and schema; any other node as it is."""
        if not isinstance(node, Source) or isinstance(node, ShuffleRead):
            return node
        schema = node.row_schema or schemas.get(node.name)
        if schema is None and not isinstance(node, ArraySource):
            raise SchemaError(f"source {node.name!r} has no schema to test with", remedy="declare it")
        channel = MemoryChannel(schema=schema or array_schema(node))
        self._channels[node.name] = channel
        return MemorySource(name=node.name, channel=channel, policy=node.bad_records)

    @staticmethod
    def _named(name: str | None, there: Mapping[str, object], kind: str) -> str:
        if name is None and len(there) == 1:
            return next(iter(there))
        if name in there:
            return str(name)
        raise TopologyError(f"which {kind}? {name!r} is not one of: {', '.join(there)}")


@contextmanager
def unplanned(queries: Iterable[QueryRun]) -> Iterator[None]:
    """Keeps all `queries` from planning a batch meanwhile."""
    with ExitStack() as held:
        for query in queries:
            held.enter_context(query.planning_held())
        yield


def array_schema(node: Source) -> str:
    """The DDL of an array's rows."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from rs_assets.records.rows import infer_schema

    schema = from_arrow_schema(infer_schema(getattr(node, "rows", ()), step=node.name))
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields)


__all__ = ["PipelineDriver"]

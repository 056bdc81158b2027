"""Events of Dagster from finished batches: metadata of each step, in numbers that Dagster plots."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any

from dagster import AssetMaterialization, MetadataValue, OpExecutionContext

from rs_assets.common.background import BackgroundFailures
from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.table import open_table
from rs_assets.connectors.source import Positions
from rs_assets.dagster.assets.op_events import OpEvents
from rs_assets.dagster.assets.output_tables import Metadata, OutputTables
from rs_assets.dagster.assets.positions import as_records, positions_read
from rs_assets.dagster.assets.roles import Role, roles_of
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.assets.sums import RunSums
from rs_assets.dagster.assets.verdicts import IDLE_EVERY_S, JUDGED_EVERY_S
from rs_assets.dagster.place import Place
from rs_assets.dagster.runs.run_tags import LOST_SECONDS, RECOVERS, RECOVERY_REASON, tags_now
from rs_assets.operators.window.event_time import moving, watermark_in_words
from rs_assets.runtime.report import BatchProgress, RunReport

# Each event costs Dagster tens of milliseconds and stays in its memory, so a live stream reports at most this often.
LIVE_EVERY_S = 10.0
# The ops of a live stream are reported at most this often.
OPS_EVERY_S = 30.0
# The run's log of a stream: at most this often for batches, and this often without any.
SAID_EVERY_S, WAITING_EVERY_S = 2.0, 30.0
# How long the end of a run waits for the thread that reports its batches.
CLOSED_WITHIN_S = 30.0


class StepEvents:
    """Collects the batches of one run. `put` is called by the runtime; a separate thread reports to Dagster.

    `place` is where the run stores its data. `tables` are the paths of the Delta tables by sink; their contents are
    reported, too, during a stream and at its end. `computing_s` returns for how many seconds a batch has been computed.
    `judge` reports the results of the checks: now and then during a stream, with True because the run goes on, and when
    `self.judge` is called. `ops` reports the steps as ops.
    """

    def __init__(
        self,
        assets: StreamAssets,
        context: OpExecutionContext,
        place: Place,
        *,
        live: bool,
        tables: Mapping[str, str],
        computing_s: Callable[[], float],
        judge: Callable[[bool], None] = lambda _: None,
        ops: OpEvents | None = None,
    ) -> None:
        self.assets = assets
        self.place = place
        self.topology = assets.topology
        self.context = context
        self.tags = tags_now(context.instance, context.run)
        self.live = live
        self._queue: SimpleQueue[BatchProgress | None] = SimpleQueue()
        self._passed: dict[str, str] = {}
        self._splits: dict[str, tuple[BatchProgress, Mapping[str, Positions]]] = {}
        self._sums = RunSums()
        self._outputs = OutputTables(assets)
        # When the assets were last reported, and whether there were batches since.
        self._logged = -math.inf
        self._unshown = False
        self._said = -math.inf
        # When the checks were last evaluated.
        self._judged = -math.inf
        self._closed = False
        self._tables = tables
        self._computing_s = computing_s
        self._judging = judge
        self._ops = ops
        self._ops_shown = -math.inf
        self.failures = BackgroundFailures()
        self._thread = threading.Thread(target=self._work, name="rs-events", daemon=True)
        self._thread.start()

    def put(self, progress: BatchProgress) -> None:
        """Queue a finished batch."""
        self._queue.put(progress)

    def close(self) -> None:
        """Wait until every batch was noted, and for a while until it was reported; may be called twice."""
        self._queue.put(None)
        self._thread.join(timeout=CLOSED_WITHIN_S)
        if self._thread.is_alive():
            self._catch_up()
        if not self._closed:
            self._closed = True
            self._show_ops()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close at the end of the block; if it fails, report the checks, since no event of the assets follows."""
        try:
            yield
        except BaseException:
            self.close()
            self.judge()
            raise
        self.close()

    def _catch_up(self) -> None:
        """Note the batches that the thread has not come to: a check may read a large savepoint for minutes."""
        with suppress(Empty):
            while (progress := self._queue.get_nowait()) is not None:
                with self.failures.guarding("Dagster does not show a batch"):
                    self._note(progress)
        self._queue.put(None)

    def seen(self) -> list[tuple[str, Role]]:
        """The steps that data passed through, with their roles."""
        return [(step, role) for step, role in roles_of(self.topology) if self._query_of(step) is not None]

    def summary(self, report: RunReport) -> str:
        """One line about the run."""
        return f"{report.rows_in_words}, {count_of(report.batches, 'batch')} in {report.seconds:.1f} s"

    def metadata(self, step: str, role: Role) -> Metadata:
        """The metadata of `step`. Numbers are at the top level, so that Dagster plots them."""
        progress = self._query_of(step)
        if progress is None:
            return {}
        common: Metadata = {
            # As text, so that Dagster does not plot it.
            "batch": str(progress.batch_id),
            "batches": self._sums.batches[progress.query],
            "seconds": round(self._sums.seconds[progress.query], 3),
            "batch_seconds": round(progress.seconds, 3),
            "rows_per_second": self._rate(progress.query),
        }
        return (
            common
            | self._recovery()
            | {"checkpoint": self._checkpoint, "state": self._state, "output": self._output}[role](step, progress)
        )

    def _rate(self, query: str) -> float:
        """Rows a second of computing, over the run: the last batch often reads nothing and only fires windows."""
        seconds = self._sums.seconds[query]
        return round(self._sums.rows(query, "in") / seconds, 1) if seconds else 0.0

    def _recovery(self) -> Metadata:
        """Metadata of a restart by the recovery sensor: the previous run, the reason, the downtime."""
        tags = self.tags
        if RECOVERS not in tags:
            return {}
        return {
            "recovered_from_run": tags[RECOVERS],
            "recovery_reason": tags[RECOVERY_REASON],
            "lost_seconds": float(tags[LOST_SECONDS]),
            "recovered_from_batch": min((each.batch_id for each in self._sums.first.values()), default=0) - 1,
            "replayed_rows": sum(each.rows_in for each in self._sums.first.values() if each.replayed),
        }

    def _checkpoint(self, step: str, progress: BatchProgress) -> Metadata:
        splits = self._reached(progress).get(step)
        shown: Metadata = {"splits": len(splits), "offsets": MetadataValue.table(as_records(splits))} if splits else {}
        return self._came(step, progress) | shown

    def _came(self, step: str, progress: BatchProgress) -> Metadata:
        """The rows that came to a step, and those that it rejected, if they were counted there."""
        if not self._sums.gated(progress.query, step):
            return {}
        return {f"rows_{kind}": self._sums.rows(progress.query, kind, step) for kind in ("in", "dead")}

    def _state(self, step: str, progress: BatchProgress) -> Metadata:
        made: Metadata = {
            **self._came(step, progress),
            "dagster/row_count": progress.state_rows,
            "rows_late": self._sums.rows(progress.query, "late", step),
        }
        if progress.watermark is not None:
            made |= shown_watermark(progress.watermark)
        return made

    def _output(self, step: str, progress: BatchProgress) -> Metadata:
        made: Metadata = {"rows_out": self._sums.rows(progress.query, "out", step)}
        # The rows are committed: a removed table, or a row that cannot be shown, must not fail the run.
        with self.failures.guarding(f"Dagster does not show the table of {step}"):
            made |= self._table(step, progress)
        return made

    def _table(self, step: str, progress: BatchProgress) -> Metadata:
        path = self._tables.get(step)
        table = open_table(path) if path else None
        if path is None or table is None:
            return {}
        return {
            **self._outputs.metadata(step, path, table),
            "generation": str(progress.generation),
            "made_from": self._made_from(progress),
        }

    def _made_from(self, progress: BatchProgress) -> MetadataValue[Any] | str:
        """The position of each source at the end of the batch."""
        rows = [row for name, splits in self._reached(progress).items() for row in as_records(splits, source=name)]
        return MetadataValue.table(rows) if rows else "nothing"

    def _reached(self, progress: BatchProgress) -> Mapping[str, Positions]:
        """The positions of the sources of a batch, which all steps of its query show."""
        known, splits = self._splits.get(progress.query, (None, {}))
        if known is not progress:
            splits = {}
            with self.failures.guarding("Dagster does not show how far the sources were read"):
                splits = positions_read(self.topology, self.place, progress)
            self._splits[progress.query] = progress, splits
        return splits

    def _work(self) -> None:
        while True:
            try:
                progress = self._queue.get(timeout=self._patience_s())
            except Empty:
                self._without_batch()
                continue
            if progress is None:
                return
            with self.failures.guarding("Dagster does not show a batch"):
                self._note(progress)
            if self.live:
                self._show(progress)

    def _without_batch(self) -> None:
        """What is done while no batch comes."""
        if self._unshown:
            self._show_all()
        else:
            self._say(self._waiting())
        if time.monotonic() - self._judged >= IDLE_EVERY_S:
            self.judge(going=True)

    def judge(self, *, going: bool = False) -> None:
        """Report the results of the checks to Dagster; `going` is whether the run goes on.

        At the end after the last event of the assets: Dagster shows a result that is older as "not evaluated".
        """
        self._judged = time.monotonic()
        with self.failures.guarding("Dagster does not show what the checks say"):
            self._judging(going)

    def _show(self, progress: BatchProgress) -> None:
        """Report a batch of a live stream, unless one was reported just before."""
        now = time.monotonic()
        if now - self._said >= SAID_EVERY_S:
            self._said = now
            self._say(in_words(progress))
        self._unshown = True
        if now - self._logged >= LIVE_EVERY_S:
            self._show_all()
        if now - self._judged >= JUDGED_EVERY_S:
            self.judge(going=True)

    def _show_all(self) -> None:
        """Report all assets."""
        self._unshown = False
        with self.failures.guarding("Dagster does not show the newest batches"):
            self._log()
        if time.monotonic() - self._ops_shown >= OPS_EVERY_S:
            self._show_ops()

    def _show_ops(self) -> None:
        """Report what each op has done so far."""
        self._ops_shown = time.monotonic()
        with self.failures.guarding("Dagster does not show what each op has done"):
            if self._ops is not None:
                self._ops.report(self._sums)

    def _patience_s(self) -> float | None:
        """How long to wait for the next batch before `_without_batch`."""
        if not self.live:
            return None
        return max(self._logged + LIVE_EVERY_S - time.monotonic(), 0.0) if self._unshown else WAITING_EVERY_S

    def _say(self, text: str) -> None:
        with self.failures.guarding("Dagster's log does not show the newest batches"):
            self.context.log.info(text)

    def _waiting(self) -> str:
        batches, seconds = self._sums.batches.total(), self._computing_s()
        if seconds:
            return f"a batch has been computed for {seconds:.0f} s; batches so far: {batches:,}"
        return f"waiting for input; batches so far: {batches:,}"

    def _note(self, progress: BatchProgress) -> None:
        self._sums.add(progress)
        self._passed.update(dict.fromkeys(progress.steps, progress.query))

    def _log(self) -> None:
        self._logged = time.monotonic()
        for step, role in self.seen():
            key = self.assets.key(step)
            self.context.log_event(AssetMaterialization(key, metadata=self.metadata(step, role)))

    def _query_of(self, step: str) -> BatchProgress | None:
        """The latest batch of the query whose batches pass through `step`."""
        query = self._passed.get(step)
        return None if query is None else self._sums.latest[query]


def shown_watermark(watermark: datetime) -> Metadata:
    """A watermark and its distance from the clock; in words if it is not the time of a row."""
    at = moving(watermark)
    if at is None:
        return {"watermark": watermark_in_words(watermark)}
    lag = round((datetime.now(UTC) - at).total_seconds(), 1)
    return {"watermark": MetadataValue.timestamp(at), "watermark_lag_seconds": lag}


def in_words(progress: BatchProgress) -> str:
    """One line about a batch."""
    parts = [
        f"{count_of(progress.rows_in, 'row')} in",
        *(f"{rows:,} to {sink}" for sink, rows in progress.rows_out.items() if rows),
        *([f"{progress.rows_dead:,} dead"] if progress.rows_dead else []),
        *([f"{progress.rows_late:,} late"] if progress.rows_late else []),
        *([f"{count_of(progress.state_rows, 'group')} open"] if progress.state_rows else []),
        *([f"watermark {watermark_in_words(progress.watermark)}"] if progress.watermark is not None else []),
    ]
    return f"{progress.query}, batch {progress.batch_id}: {', '.join(parts)}; {progress.seconds:.1f} s"

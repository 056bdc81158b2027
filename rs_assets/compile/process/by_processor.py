"""Processors: objects of the user's that handle the rows and timers of each key of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from rs_assets.compile.process.answers import Answers, Row, failed
from rs_assets.compile.process.by_key import each_key
from rs_assets.compile.process.runner import Made, ProcessorRunner, ProcessorSpec
from rs_assets.compile.process.touched import Shape, Touched
from rs_assets.compile.process.wire import NO_TIME
from rs_assets.compile.python.contract import RAISED
from rs_assets.operators.window.durations import EPOCH
from rs_assets.records.columns import EVENT_TIME
from rs_assets.topology.nodes.process import MAIN, OUTPUT, rows_of


@dataclass(slots=True)
class ByProcessor:
    """Hands each key to a processor, which is made with the first batch; runs in a Python worker."""

    spec: ProcessorSpec
    shape: Shape
    runner: ProcessorRunner | None = field(default=None, init=False)

    def __call__(self, batch: pa.RecordBatch, watermark_ms: int = NO_TIME) -> bytes:
        """The answer for a batch; StepError for what the processor raised, or for records that do not fit."""
        touched = Touched.of(batch, self.shape)
        answers = Answers(touched)
        watermark = None if watermark_ms == NO_TIME else EPOCH + timedelta(milliseconds=watermark_ms)
        runner = self._runner()
        for key, state, rows in each_key(touched):
            try:
                now, made = runner.touch(key, state, _timed(rows), watermark)
            except RAISED as error:
                raise failed(self.shape, error, key, rows) from error
            answers.add(key, now, self._packed(made))
        return answers.content()

    def close(self) -> None:
        """Let the processor release what it has taken."""
        if self.runner is not None:
            self.runner.close()

    def _runner(self) -> ProcessorRunner:
        if self.runner is None:
            try:
                self.runner = ProcessorRunner(self.spec)
            except RAISED as error:
                raise failed(self.shape, error, {}, []) from error
        return self.runner

    def _packed(self, made: Made) -> list[Row]:
        """Records as they leave the step: with several outputs each in the column of its output."""
        if len(self.spec.outputs) == 1:
            return [record for _, record in made]
        return [{OUTPUT: to or MAIN, rows_of(to or MAIN): record} for to, record in made]


def _timed(rows: list[Row]) -> Iterator[tuple[Row, datetime | None]]:
    for row in rows:
        time = row.pop(EVENT_TIME, None)
        yield row, time

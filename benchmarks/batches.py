"""What small batches cost behind a large one, within one run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from benchmarks.measure import cpu_seconds
from rs_assets.runtime.report import BatchProgress

# Those before it bring the state, and warm the processor up.
FIRST = 5


@dataclass(slots=True)
class Batches:
    """The batches of a run: seconds on the clock, processor seconds between their ends, rows of state."""

    seconds: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=lambda: [cpu_seconds()])
    state_rows: int = 0
    rows: int = 0

    def take(self, batch: BatchProgress) -> None:
        """Note a batch, but not those that only move the watermark."""
        if batch.rows_in:
            self.seconds.append(batch.seconds)
            self.clocks.append(cpu_seconds())
            self.state_rows = max(self.state_rows, batch.state_rows)

    @property
    def small_ms(self) -> float:
        """The median of the small batches, on the clock."""
        return statistics.median(self.seconds[FIRST:]) * 1000

    @property
    def small_cpu_ms(self) -> float:
        """Processor time of a small batch, with what stands between two."""
        clocks = self.clocks[FIRST:]
        return (clocks[-1] - clocks[0]) / (len(clocks) - 1) * 1000

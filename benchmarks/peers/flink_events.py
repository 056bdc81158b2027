"""The generator's events as Flink gets them: the same lines, dealt in turns into as many files as it has threads.

Flink reads files in the order in which a folder happens to list them, and one of a later time moves the watermark past
all of an earlier one: their rows would be late. Of files that go through all of the time side by side none is.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from pipelines.nexmark.schemas import SCHEMAS, SIDE_INPUT


def deal(events: Path, target: Path, *, files: int) -> Path:
    """Write the events below `events` into `target`, and the side input without its header, a row to Flink's CSV."""
    for kind in SCHEMAS:
        (target / kind).mkdir(parents=True)
        with ExitStack() as stack:
            parts = [stack.enter_context((target / kind / f"part-{n}.jsonl").open("wb")) for n in range(files)]
            turns = cycle(parts)
            for path in sorted((events / kind).iterdir()):
                with path.open("rb") as lines:
                    for line, part in zip(lines, turns, strict=False):
                        part.write(line)
    rows = (events / SIDE_INPUT).read_text(encoding="ascii").splitlines(keepends=True)
    (target / SIDE_INPUT).write_text("".join(rows[1:]), encoding="ascii")
    return target

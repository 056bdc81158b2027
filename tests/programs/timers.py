"""A processor with a store, timers by event time and a second output; `CODE` is what a user would write."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from tests.programs import program as p
from tests.programs.windows import is_time

PAUSE = timedelta(seconds=10)
CODE = """class Waiting(Processor):
    seen = ValueStore("rows bigint, last bigint")
    def process(self, key, row, context):
        if row["n"] is None:
            context.forward({"id": row["id"]}, to="other")
            return
        seen = context.seen.get() or {"rows": 0}
        context.seen.put({"rows": seen["rows"] + 1, "last": row["id"]})
        now = context.time if context.watermark is None else max(context.time, context.watermark)
        context.schedule_at(now + timedelta(seconds=10), self.over)
    def over(self, key, at, context):
        context.forward({**key, "at": at, **context.seen.get()})
        context.seen.delete()"""


@dataclass(frozen=True)
class Timers(p.Step):
    """The number of rows and the last id of each key that has been silent for ten seconds."""

    of: str
    keys: tuple[tuple[str, str], ...]
    delay: int
    time: str = "ts"
    preamble = CODE
    schema = (("at", "timestamp"), ("rows", "bigint"), ("last", "bigint"))

    def code(self, label):
        names = [name for name, _ in self.keys]
        schema = p.ddl((*self.keys, *self.schema))
        times = f'time_field="{self.time}", water_mark=Time.seconds({self.delay}), order_by=["id"]'
        what = f'keys={names!r}, schema="{schema}", outputs={{"other": "id bigint"}}, {times}'
        return f'{self.of}.process(Waiting, {what}, name="{label}")'


@dataclass(frozen=True)
class Other(p.Step):
    """The other output of the step."""

    of: str

    def code(self, label):
        return f'{self.of}.output("other")'


def passed(step, batches, before, after):
    """What it passes on, and its other output, as `(batch, row)`; no row is late."""
    keys, made, other = defaultdict(lambda: (0, None, None)), [], []

    def fire(batch, mark):
        for key in [key for key, (_, _, at) in keys.items() if mark is None or at <= mark]:
            rows, last, at = keys.pop(key)
            names = [name for name, _ in step.keys]
            made.append((batch, dict(zip(names, key, strict=True)) | {"at": at, "rows": rows, "last": last}))

    for batch, rows in enumerate(batches):
        there = [row for row in rows if is_time(step, row[step.time])]
        for row in sorted(there, key=lambda row: (row[step.time], row["id"])):
            if row["n"] is None:
                other.append((batch, {"id": row["id"]}))
                continue
            key = tuple(row[name] for name, _ in step.keys)
            now = max(row[step.time], before[batch] or row[step.time])
            keys[key] = keys[key][0] + 1, row["id"], now + PAUSE
        if after[batch] is not None:
            fire(batch, after[batch])
    fire(len(batches), None)
    return made, other

"""Random histories of a processor with stores of every kind and timers, against dictionaries, on all ways back.

Each row is an operation on a store or a timer of its key. The processor passes on what the operation found, and each
firing of a timer with what it finds. `Model` does the same over all batches in plain Python, from the rows alone:

    feed 40 rows -> run -> crash in the sink -> run -> rescale to 3 -> feed -> run -> rewind to batch 0 -> run -> ...
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from rs_assets import (
    ListStore,
    MapStore,
    Processor,
    SessionStore,
    StreamBuilder,
    Time,
    ValueStore,
    VersionedStore,
    WindowStore,
)
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, RsError
from tests.crash import Crash

SCHEMA = "k string, op string, a string, b string, n bigint, m int, ts timestamp"
KEYS = ["ann", "ann ", "", "é\"'`\\", "x" * 5000, None, "bo", "1", "NULL"]
NUMBERS = ["nan", "-nan", "-0.0", "0", "1.5", "-inf", None, "3"]
TEXTS = ["", "a", "a ", "ab", "b", None]
OPS = (
    *("put", "get", "delete", "map_put", "map_put", "map_put", "map_delete", "map_range", "map_prefix", "map_all"),
    *("append", "list", "list_clear", "window", "windows", "session", "sessions", "version", "unversion", "versions"),
    *("once", "once", "every", "cancel", "scheduled"),
)
KEPT = timedelta(minutes=10)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(found):
    """A result as text: numbers, times and records in one way."""
    return json.dumps(found, default=lambda at: at.astimezone(UTC).isoformat(), sort_keys=True).replace("-0.0", "0.0")


class Everything(Processor):
    """Does what the rows say."""

    one = ValueStore("n bigint, x double, at timestamp")
    entries = MapStore("a double, b string", "n bigint, tags array<string>")
    many = ListStore("n bigint, b string")
    starts = WindowStore("n bigint", retention=KEPT)
    visits = SessionStore("n bigint", retention=KEPT)
    prices = VersionedStore("n bigint", retention=KEPT)

    def process(self, key, row, context):
        found = getattr(self, row["op"])(context, row, {"a": number(row["a"]), "b": row["b"]})
        context.forward({"k": key["k"], "what": f"{row['op']} {shown(found)}"})

    def put(self, c, row, inner):
        return c.one.put({"n": row["n"], "x": inner["a"], "at": c.time})

    def get(self, c, row, inner):
        return c.one.get()

    def delete(self, c, row, inner):
        return c.one.delete()

    def map_put(self, c, row, inner):
        before = c.entries.get(inner)
        c.entries.put(inner, {"n": row["n"], "tags": [*(before or {"tags": []})["tags"], row["b"]][-3:]})
        return before, inner in c.entries, len(c.entries)

    def map_delete(self, c, row, inner):
        return c.entries.delete(inner)

    def map_range(self, c, row, inner):
        return c.entries.range(inner, None, reverse=row["m"] > 5)

    def map_prefix(self, c, row, inner):
        return c.entries.prefix(inner["a"], begins=inner["b"] or "")

    def map_all(self, c, row, inner):
        return len(c.entries.items()), c.entries.range()

    def append(self, c, row, inner):
        return c.many.append({"n": row["n"], "b": row["b"]})

    def list(self, c, row, inner):
        return c.many.get()

    def list_clear(self, c, row, inner):
        return c.many.clear() if row["m"] else c.many.put(c.many.get()[:2])

    def window(self, c, row, inner):
        return c.starts.put(early(c.time, row), {"n": row["n"]}), len(c.starts)

    def windows(self, c, row, inner):
        return c.starts.fetch(early(c.time, row), c.time)

    def session(self, c, row, inner):
        start, end = early(c.time, row), c.time
        met = c.visits.find(start, end)
        for first, last, _ in met:
            c.visits.delete(first, last)
        starts, ends = [start, *(each[0] for each in met)], [end, *(each[1] for each in met)]
        c.visits.put(min(starts), max(ends), {"n": len(met)})
        return met

    def sessions(self, c, row, inner):
        return c.visits.find(early(c.time, row), c.time)

    def version(self, c, row, inner):
        return c.prices.put({"n": row["n"]}, early(c.time, row))

    def unversion(self, c, row, inner):
        return c.prices.delete(early(c.time, row))

    def versions(self, c, row, inner):
        return c.prices.get(), c.prices.get(early(c.time, row)), c.prices.versions()

    def once(self, c, row, inner):
        return c.schedule_at(c.time + timedelta(minutes=row["m"], microseconds=row["n"]), self.fires)

    def every(self, c, row, inner):
        return c.schedule(timedelta(minutes=row["m"] + 1), self.ticks)

    def cancel(self, c, row, inner):
        return c.cancel(self.fires if row["m"] else self.ticks)

    def scheduled(self, c, row, inner):
        return c.scheduled(self.fires), c.scheduled(self.ticks)

    def fires(self, key, at, context):
        found = at, context.one.get(), len(context.entries), len(context.many)
        context.forward({"k": key["k"], "what": f"fires {shown(found)}"})
        context.many.clear()

    def ticks(self, key, at, context):
        context.forward({"k": key["k"], "what": f"ticks {shown((at, len(context.starts), len(context.visits)))}"})
        if len(context.many) > 3:
            context.cancel(self.ticks)


def number(text):
    return None if text is None else float(text)


def early(time, row):
    return time - timedelta(minutes=row["m"])


def drawn(rng, clock, many=40):
    """Rows at and after `clock`, in no order, and the clock after them."""
    rows = []
    for _ in range(rng.randrange(1, many)):
        clock += timedelta(milliseconds=rng.choice([0, 0, 1, 500, 20_000, 90_000, 400_000]))
        op = rng.choice(OPS)
        rows.append(
            {
                "k": rng.choice(KEYS),
                "op": op,
                "a": rng.choice(NUMBERS),
                "b": rng.choice(TEXTS),
                # Of `once` the microseconds of a timer.
                "n": rng.choice([0, 1, 999, 5, 2000 if op == "once" else 2**40]),
                "m": rng.randrange(12),
                "ts": (clock - timedelta(seconds=rng.choice([0, 0, 30]))).isoformat(),
            }
        )
    rng.shuffle(rows)
    return rows, clock


class State:
    """What a key has, in dictionaries."""

    def __init__(self):
        self.value, self.entries, self.rows = None, {}, []
        self.windows, self.sessions, self.versions = {}, {}, {}
        self.timers = {}


def inner_of(row):
    a = number(row["a"])
    return ("nan" if a is not None and math.isnan(a) else None if a is None else a + 0.0, row["b"])


def by_value(inner):
    a, b = inner
    return ((a is not None) + (a == "nan"), 0 if a in (None, "nan") else a, b is not None, b or "")


def outer(inner):
    a, b = inner
    return {"a": math.nan if a == "nan" else a, "b": b}


def kept_from(found, newest):
    return {at: each for at, each in found.items() if (at if isinstance(at, datetime) else at[1]) > newest - KEPT}


class Model:
    """All keys, over batches of rows: what was passed on."""

    def __init__(self, batches):
        self.states, self.made = defaultdict(State), []
        self.watermark = EPOCH
        for batch in batches:
            self.batch(batch)

    def batch(self, rows):
        ordered = sorted(((datetime.fromisoformat(row["ts"]), place, row) for place, row in enumerate(rows)))
        for at, _, row in ordered:
            state = self.states[row["k"]]
            early_at = at - timedelta(minutes=row["m"])
            found = getattr(self, row["op"])(state, row, at, early_at)
            self.made.append((row["k"], f"{row['op']} {shown(found)}"))
        if ordered:
            newest = max(at for at, _, _ in ordered) - timedelta(seconds=5)
            self.advance(newest.replace(microsecond=newest.microsecond // 1000 * 1000))

    def advance(self, watermark):
        self.watermark = max(self.watermark, watermark)
        for key, state in self.states.items():
            due = sorted((at, name) for name, (at, _) in state.timers.items() if at <= self.watermark)
            for at, name in due:
                if name not in state.timers or state.timers[name][0] != at:
                    continue
                every = state.timers.pop(name)[1]
                if every is not None:
                    state.timers[name] = (next_after(self.watermark, every), every)
                if name == "fires":
                    found = at, state.value, len(state.entries), len(state.rows)
                    state.rows = []
                else:
                    found = at, len(state.windows), len(state.sessions)
                    if len(state.rows) > 3:
                        state.timers.pop(name, None)
                self.made.append((key, f"{name} {shown(found)}"))

    def put(self, s, row, at, early_at):
        s.value = {"n": row["n"], "x": number(row["a"]), "at": at}

    def get(self, s, row, at, early_at):
        return s.value

    def delete(self, s, row, at, early_at):
        s.value = None

    def map_put(self, s, row, at, early_at):
        before = s.entries.get(inner_of(row))
        tags = [*(before["tags"] if before else []), row["b"]][-3:]
        s.entries[inner_of(row)] = {"n": row["n"], "tags": tags}
        return before, True, len(s.entries)

    def map_delete(self, s, row, at, early_at):
        s.entries.pop(inner_of(row), None)

    def sorted(self, s, reverse=False):
        return [(outer(key), s.entries[key]) for key in sorted(s.entries, key=by_value, reverse=reverse)]

    def map_range(self, s, row, at, early_at):
        low = by_value(inner_of(row))
        keys = sorted((key for key in s.entries if by_value(key) >= low), key=by_value, reverse=row["m"] > 5)
        return [(outer(key), s.entries[key]) for key in keys]

    def map_prefix(self, s, row, at, early_at):
        a, b = inner_of(row)
        keys = [key for key in s.entries if key[0] == a and (not b or (key[1] or "").startswith(b))]
        return [(outer(key), s.entries[key]) for key in sorted(keys, key=by_value)]

    def map_all(self, s, row, at, early_at):
        return len(s.entries), self.sorted(s)

    def append(self, s, row, at, early_at):
        s.rows.append({"n": row["n"], "b": row["b"]})

    def list(self, s, row, at, early_at):
        return list(s.rows)

    def list_clear(self, s, row, at, early_at):
        s.rows = [] if row["m"] else s.rows[:2]

    def window(self, s, row, at, early_at):
        s.windows[early_at] = {"n": row["n"]}
        s.windows = kept_from(s.windows, max(s.windows))
        return None, len(s.windows)

    def windows(self, s, row, at, early_at):
        return [(start, s.windows[start]) for start in sorted(s.windows) if early_at <= start <= at]

    def session(self, s, row, at, early_at):
        met = self.sessions(s, row, at, early_at)
        for first, last, _ in met:
            del s.sessions[first, last]
        new = min([early_at, *(each[0] for each in met)]), max([at, *(each[1] for each in met)])
        s.sessions[new] = {"n": len(met)}
        s.sessions = kept_from(s.sessions, max(end for _, end in s.sessions))
        return met

    def sessions(self, s, row, at, early_at):
        return [
            (start, end, s.sessions[start, end]) for start, end in sorted(s.sessions) if end >= early_at and start <= at
        ]

    def version(self, s, row, at, early_at):
        s.versions[early_at] = {"n": row["n"]}
        self.forget(s)

    def unversion(self, s, row, at, early_at):
        s.versions[early_at] = None
        self.forget(s)

    def forget(self, s):
        times = sorted(s.versions)
        for first, second in itertools.pairwise(times):
            if second <= times[-1] - KEPT:
                del s.versions[first]

    def versions(self, s, row, at, early_at):
        times = sorted(s.versions)
        before = [time for time in times if time <= early_at]
        newest = s.versions[times[-1]] if times else None
        return newest, s.versions[before[-1]] if before else None, [(time, s.versions[time]) for time in times]

    def once(self, s, row, at, early_at):
        s.timers["fires"] = (at + timedelta(minutes=row["m"], microseconds=row["n"]), None)

    def every(self, s, row, at, early_at):
        every = timedelta(minutes=row["m"] + 1)
        if "ticks" not in s.timers or s.timers["ticks"][1] != every:
            s.timers["ticks"] = (next_after(max(at, self.watermark, EPOCH), every), every)

    def cancel(self, s, row, at, early_at):
        s.timers.pop("fires" if row["m"] else "ticks", None)

    def scheduled(self, s, row, at, early_at):
        return tuple(s.timers[name][0] if name in s.timers else None for name in ("fires", "ticks"))


def next_after(now, every):
    return EPOCH + ((now - EPOCH) // every + 1) * every


class World:
    """A followed file of operations, and a table of what they found."""

    def __init__(self, options, folder, begin):
        self.options, self.file, self.clock = options, folder / "ops.jsonl", begin
        self.file.write_text("")
        self.fed, self.batches = [], []

    def pipeline(self):
        rows = StreamBuilder.data_stream("test", "campaign").from_file(self.file, schema=SCHEMA, tail=True)
        made = rows.process(
            Everything,
            keys="k",
            schema="k string, what string",
            time_field="ts",
            water_mark=Time.seconds(5),
            buckets=3,
            name="everything",
        )
        return made.to_delta("found").build()

    def feed(self, rng):
        rows, self.clock = drawn(rng, self.clock)
        with self.file.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        self.fed += rows

    def run(self):
        self.pipeline().run(self.options)
        # After a return the rows of later batches are read again, together.
        waiting = self.fed[sum(map(len, self.batches)) :]
        self.batches = [*self.batches, waiting] if waiting else self.batches

    def differences(self):
        path = self.options.home.table("test", "found")
        have = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(str(path)) else []
        have, want = Counter((row["k"], row["what"]) for row in have), Counter(Model(self.batches).made)
        return [*(have - want)][:4], [*(want - have)][:4]


class Play:
    """What happens to a world, drawn by a seed."""

    def __init__(self, world, monkeypatch, seed, told=print):
        self.world, self.monkeypatch, self.told = world, monkeypatch, told
        self.rng, self.done, self.saved = random.Random(seed), [f"seed {seed}"], []

    def run(self, steps):
        """AssertionError for the first step after which the table differs, with what was done."""
        self.step("advance")
        for _ in range(steps):
            self.step(self.rng.choice(ACTS))

    def step(self, name):
        result = getattr(self, name)()
        self.done.append(f"{name} {'' if result is None else result}")
        self.told(self.done[-1])
        different = self.world.differences()
        assert different == ([], []), f"{self.done}: surplus {different[0]}, missing {different[1]}"

    def advance(self):
        self.world.feed(self.rng)
        self.world.run()

    def crash(self):
        self.world.feed(self.rng)
        with self.monkeypatch.context() as patched:
            Crash(patched, DeltaWriter, behind=self.rng.random() < 0.5)
            try:
                self.world.run()
            except RsError as error:
                if "crash" not in str(error):
                    raise
        self.world.run()

    def rescale(self):
        parts = self.rng.choice([1, 2, 3, 5])
        self.world.pipeline().rescale(parts, self.world.options)
        return parts

    def savepoint(self):
        taken = self.world.pipeline().savepoint(self.world.options)
        self.saved.append((taken.id, self.world.batches))

    def restore(self):
        if not self.saved:
            return "nothing"
        taken, batches = self.rng.choice(self.saved)
        self.world.pipeline().restore(self.world.options, savepoint_id=taken)
        self.world.batches = batches
        if self.rng.random() < 0.5:
            self.world.run()
        return len(batches)

    def rewind(self):
        try:
            self.world.pipeline().rewind(0, self.world.options)
        except CheckpointError as error:
            return f"refused: {error}"
        self.world.batches = self.world.batches[:1]
        self.world.run()
        return None


ACTS = ("advance", "advance", "crash", "rescale", "savepoint", "restore", "rewind")

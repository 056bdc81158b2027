"""Random histories of tables, with crashes and ways back in between, against dictionaries.

A `World` has followed files of changes and a pipeline with many operators, each with a Delta table. `expected` computes
each of these tables from the rows that were fed, in plain Python. `play` draws what happens:

    feed 30 rows -> run -> crash in a sink -> run -> rescale to 3 -> feed -> run -> rewind to batch 0 -> run -> ...

After each step the tables equal the dictionaries, and changes that were emitted add up to the rows of their table.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from datetime import timedelta
from decimal import Decimal

from deltalake import DeltaTable

from rs_assets import StreamBuilder
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, RsError
from tests.crash import Crash

SCHEMAS = {
    "orders": "id bigint, user string, ms int, price decimal(12,2), at timestamp, gone boolean",
    "notes": "nid bigint, note string, gone boolean",
    "users": "uid string, tier string, gone boolean",
    "newest": "sku string, v int, stock int, gone boolean",
    "clicks": "user string, page string, n bigint",
    "beats": "device bigint, load int, ts bigint, gone boolean",
}
KEYS = {"orders": "id", "notes": "nid", "users": "uid", "newest": "sku", "beats": "device"}
# The fields by which a row is newer than another one, and how long rows live, in milliseconds of `ts`.
ORDERS, LIVES = {"newest": "v", "beats": "ts"}, {"beats": 30_000}
USERS = ["ann", "bo", "cy", "dee", "é\"'`", None]
NUMBERS = [None, 0, 1, 2, 3, -5, 2**31 - 1, -(2**31)]


def drawn(rng, size=25):
    """Rows for each source."""

    def gone(share):
        return rng.random() < share

    def order():
        number, user, ms = rng.randrange(20), rng.choice(USERS), rng.choice(NUMBERS)
        price, at = (
            rng.choice([None, "0.10", "7.25"]),
            rng.choice([None, "1969-12-31T23:59:59.5Z", "2026-01-05T10:00:00Z"]),
        )
        return {"id": number, "user": user, "ms": ms, "price": price, "at": at, "gone": gone(0.25)}

    def each(make, many):
        return [make() for _ in range(rng.randrange(many))]

    return {
        "orders": each(order, size),
        "notes": each(lambda: {"nid": rng.randrange(20), "note": rng.choice("xyz"), "gone": gone(0.3)}, size // 2),
        "users": each(
            lambda: {"uid": rng.choice(USERS[:-1]), "tier": rng.choice(["a", "b", None]), "gone": gone(0.3)}, 6
        ),
        "newest": each(
            lambda: {"sku": rng.choice("pqr"), "v": rng.randrange(40), "stock": rng.choice(NUMBERS), "gone": gone(0.3)},
            6,
        ),
        "clicks": each(lambda: {"user": rng.choice(USERS), "page": rng.choice("abc"), "n": rng.randrange(9)}, size),
        # Before or after a time that goes on with each row.
        "beats": each(
            lambda: {
                "device": rng.randrange(12),
                "load": rng.randrange(4),
                "ts": rng.choice([0, 0, 0, -9_000, -40_000]) + rng.randrange(2_000),
                "gone": gone(0.2),
            },
            size // 2,
        ),
    }


class Model:
    """The rows that were fed, in order."""

    def __init__(self):
        self.rows = defaultdict(list)

    def feed(self, batch):
        for source, rows in batch.items():
            self.rows[source] += rows

    def table(self, source):
        """The current rows of a table by key: the last record or the greatest, while it lives."""
        key, order, found = KEYS[source], ORDERS.get(source), {}
        for row in self.rows[source]:
            before = found.get(row[key])
            if order is None or before is None or row[order] >= before[order]:
                found[row[key]] = row
        lives, now = LIVES.get(source), max((row["ts"] for row in self.rows[source] if "ts" in row), default=0)
        return {
            at: {name: value for name, value in row.items() if name != "gone"}
            for at, row in found.items()
            if not row["gone"] and (lives is None or row["ts"] + lives > now)
        }


def grouped(rows, *fields):
    """The rows by fields, of which none is null."""
    groups = defaultdict(list)
    for row in rows:
        if all(row[field] is not None for field in fields):
            groups[tuple(row[field] for field in fields)].append(row)
    return groups


def there(rows, field):
    return [row[field] for row in rows if row[field] is not None]


def total(values):
    return sum(values) if values else None


def joined_in(value, row):
    """Of a table: the sum of milliseconds, and a bag of prices."""
    value = value or {"ms": 0, "bag": []}
    return {"ms": value["ms"] + (row["ms"] or 0), "bag": sorted([*value["bag"], str(row["price"])])}


def taken_out(value, row):
    bag = list(value["bag"])
    bag.remove(str(row["price"]))
    return {"ms": value["ms"] - (row["ms"] or 0), "bag": bag}


def clicked(key, row, value):
    return {**value, "clicks": value["clicks"] + row["n"]}


def bought(key, row, value):
    return {**value, "orders": value["orders"] + 1}


def gave_back(key, row, value):
    return {**value, "orders": value["orders"] - 1}


def money(text):
    return None if text is None else Decimal(text)


def make_left(s):
    return s["orders"].join(s["notes"], how="left", prefix="n_", name="left_join")


def make_outer(s):
    return s["orders"].map_values("user", "ms", name="thin").join(s["notes"], how="outer", name="outer_join")


def make_foreign(s):
    return (
        s["orders"].map_values("user", "ms", name="named").join(s["users"], on={"user": "uid"}, how="left", name="fk")
    )


def make_pairs(s):
    """All orders of a user with all users of the tier that is called like it, and those without a partner."""
    named = s["orders"].map_values("substr(user, 1, 1) AS letter", "ms", name="letters")
    return named.join(s["users"], on={"letter": "tier"}, how="outer", prefix="u_", name="pairs")


def make_signed(s):
    return s["orders"].group_by("user").count("n").sum("ms").sum("price").avg("ms", "mean").to_table(name="signed")


def make_kept(s):
    group = s["orders"].group_by("user").min("ms", "least").max("price", "most").count_distinct("ms", "kinds")
    return group.collect("at", "ats").aggregate(name="kept", latest="max_by(id, struct(ms, id))", n="count(*)")


def make_reduced(s):
    bag = "ms bigint, bag array<string>"
    return s["orders"].group_by("user").reduce(joined_in, subtract=taken_out, schema=bag, name="reduced")


def make_cogroup(s):
    both = s["clicks"].group_by("user").cogroup(clicked)
    both = both.cogroup(s["orders"].group_by("user"), bought, subtract=gave_back)
    return both.aggregate(schema="clicks bigint, orders int", initial=lambda: {"clicks": 0, "orders": 0}, name="both")


def make_top(s):
    return s["orders"].group_by("user").top_n(2, by="ms", rank="place", name="top")


def make_top_group(s):
    top = s["orders"].group_by("user").top_n(3, by=["ms"], descending=False, name="low")
    return top.group_by("ms").count("n").to_table(name="lows")


def make_stream_group(s):
    return (
        s["clicks"].group_by("page").count("n").max("n", "most").count_distinct("user", "users").to_table(name="pages")
    )


def make_filtered(s):
    return s["newest"].filter("stock > 0", name="stocked").map_values("stock % 10 AS last", name="last")


def make_alive(s):
    return s["beats"].group_by("load").count("devices").max("ts", "seen").to_table(name="alive")


def model_alive(m):
    return [
        {"load": load, "devices": len(rows), "seen": max(row["ts"] for row in rows)}
        for (load,), rows in grouped(m.table("beats").values(), "load").items()
    ]


def model_left(m):
    notes = m.table("notes")
    return [
        {**row, "n_nid": key if key in notes else None, "n_note": notes[key]["note"] if key in notes else None}
        for key, row in m.table("orders").items()
    ]


def model_outer(m):
    orders, notes = m.table("orders"), m.table("notes")
    return [
        {"id": key, **{f: orders.get(key, {}).get(f) for f in ("user", "ms")}, "note": notes.get(key, {}).get("note")}
        for key in orders.keys() | notes.keys()
    ]


def model_foreign(m):
    users = m.table("users")
    return [
        {"id": row["id"], "user": row["user"], "ms": row["ms"], "tier": users.get(row["user"], {}).get("tier")}
        for row in m.table("orders").values()
    ]


def model_pairs(m):
    orders = [{"id": r["id"], "letter": r["user"] and r["user"][0], "ms": r["ms"]} for r in m.table("orders").values()]
    users = [{f"u_{name}": value for name, value in row.items()} for row in m.table("users").values()]
    pairs = [{**one, **two} for one in orders for two in users if one["letter"] and one["letter"] == two["u_tier"]]
    left, right = {row["id"] for row in pairs}, {row["u_uid"] for row in pairs}
    alone = [{**one, "u_uid": None, "u_tier": None} for one in orders if one["id"] not in left]
    others = [{"id": None, "letter": None, "ms": None, **two} for two in users if two["u_uid"] not in right]
    return [*pairs, *alone, *others]


def model_signed(m):
    return [
        {
            "user": user,
            "n": len(rows),
            "ms": total(ms := there(rows, "ms")),
            "price": total([money(each) for each in there(rows, "price")]),
            "mean": sum(ms) / len(ms) if ms else None,
        }
        for (user,), rows in grouped(m.table("orders").values(), "user").items()
    ]


def model_kept(m):
    return [
        {
            "user": user,
            "least": min(ms := there(rows, "ms"), default=None),
            "most": max((money(each) for each in there(rows, "price")), default=None),
            "kinds": len(set(ms)),
            "ats": sorted(there(rows, "at")),
            "latest": max((row["ms"] is not None, row["ms"] or 0, row["id"]) for row in rows)[2],
            "n": len(rows),
        }
        for (user,), rows in grouped(m.table("orders").values(), "user").items()
    ]


def model_reduced(m):
    return [
        {"user": user, "ms": sum(there(rows, "ms")), "bag": sorted(str(money(row["price"])) for row in rows)}
        for (user,), rows in grouped(m.table("orders").values(), "user").items()
    ]


def model_cogroup(m):
    clicks, orders = grouped(m.rows["clicks"], "user"), grouped(m.table("orders").values(), "user")
    return [
        {"user": key[0], "clicks": sum(row["n"] for row in clicks.get(key, ())), "orders": len(orders.get(key, ()))}
        for key in clicks.keys() | orders.keys()
    ]


def by_ms(row):
    return row["ms"] is not None, row["ms"] or 0


def model_top(m):
    return [
        {**row, "place": place}
        for rows in grouped(m.table("orders").values(), "user").values()
        for place, row in enumerate(sorted(rows, key=lambda r: (not by_ms(r)[0], -by_ms(r)[1], r["id"]))[:2], 1)
    ]


def model_top_group(m):
    lows = [
        row
        for rows in grouped(m.table("orders").values(), "user").values()
        for row in sorted(rows, key=lambda r: (*by_ms(r), r["id"]))[:3]
    ]
    return [{"ms": ms, "n": len(rows)} for (ms,), rows in grouped(lows, "ms").items()]


def model_stream_group(m):
    return [
        {
            "page": page,
            "n": len(rows),
            "most": max(row["n"] for row in rows),
            "users": len(set(there(rows, "user"))),
        }
        for (page,), rows in grouped(m.rows["clicks"], "page").items()
    ]


def model_filtered(m):
    return [
        {"sku": row["sku"], "last": row["stock"] % 10}
        for row in m.table("newest").values()
        if row["stock"] is not None and row["stock"] > 0
    ]


OPERATORS = {
    "left": (make_left, model_left),
    "outer": (make_outer, model_outer),
    "foreign": (make_foreign, model_foreign),
    "pairs": (make_pairs, model_pairs),
    "signed": (make_signed, model_signed),
    "kept": (make_kept, model_kept),
    "reduced": (make_reduced, model_reduced),
    "cogroup": (make_cogroup, model_cogroup),
    "top": (make_top, model_top),
    "lows": (make_top_group, model_top_group),
    "pages": (make_stream_group, model_stream_group),
    "filtered": (make_filtered, model_filtered),
    "alive": (make_alive, model_alive),
}


class Sources(dict):
    """Sources by name, each made when it is first used."""

    def __init__(self, made):
        self.made = made

    def __missing__(self, name):
        self[name] = self.made(name)
        return self[name]


class World:
    """Files and a pipeline of some of the operators; `shown` also emit their changes to a second table.

    Files are followed, or read whole by the number `seq` of each row, which starts faster.
    """

    def __init__(self, options, folder, operators=tuple(OPERATORS), shown=(), *, tail=False):
        self.options, self.operators, self.shown, self.model, self.tail = options, operators, shown, Model(), tail
        self.folder, self.number, self.compared = folder, 0, {}
        for name in SCHEMAS:
            self.made(name)

    def made(self, name):
        """The folder of a source, with an empty file."""
        (self.folder / name).mkdir(parents=True)
        self.path(name).write_text("")

    def path(self, source):
        """The file to which rows are added, or the next one."""
        return self.folder / source / f"{0 if self.tail else self.number:05}.jsonl"

    def pipeline(self):
        shop = StreamBuilder.data_stream("shop", "campaign")
        sources = Sources(lambda name: self.source(shop, name))
        for name in self.operators:
            table = OPERATORS[name][0](sources)
            last = table.to_delta(f"{name}_out", name=f"{name}_sink")
            if name in self.shown:
                last = table.to_stream(name=f"{name}_changes").to_delta(f"{name}_all", mode="append")
        return last.build()

    def source(self, shop, name):
        """A source as a table, or as a stream if it has no key."""
        if self.tail:
            stream = shop.from_file(self.path(name), schema=SCHEMAS[name], tail=True, name=name)
        else:
            schema = f"{SCHEMAS[name]}, seq bigint"
            files = f"{self.folder / name}/*.jsonl"
            stream = shop.from_file(files, schema=schema, max_files_per_batch=1, name=name)
        key = KEYS.get(name)
        if key is None:
            return stream
        kept = [part.split()[0] for part in SCHEMAS[name].split(", ") if not part.startswith((f"{key} ", "gone "))]
        order = ([ORDERS[name]] if name in ORDERS else []) + ["seq"] * (not self.tail)
        lives = timedelta(milliseconds=LIVES[name]) if name in LIVES else None
        time = {"time_field": "ts", "time_to_live": lives} if lives else {}
        table = stream.to_table(key, order_by=order, deletes="gone", name=f"{name}_table", **time)
        return table.map_values(*kept, name=f"{name}_rows")

    def feed(self, batch):
        number = self.number
        beats = [
            {**row, "ts": row["ts"] + (number + n) * 300 + 100_000} for n, row in enumerate(batch.get("beats", ()))
        ]
        batch = {**batch, "beats": beats}
        for name, rows in batch.items():
            lines = []
            for row in rows:
                self.number += 1
                lines.append(json.dumps({**row, "seq": self.number}) + "\n")
            with self.path(name).open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self.model.feed(batch)

    def run(self):
        return self.pipeline().run(self.options)

    def rows(self, table, version=None):
        path = self.options.home.table("shop", table)
        there = DeltaTable.is_deltatable(str(path))
        return DeltaTable(path, version=version).to_pyarrow_table().to_pylist() if there else []

    def commits(self, table):
        """The generation and the batch of each version that a batch has written."""
        path = self.options.home.table("shop", table)
        entries = DeltaTable(path).history() if DeltaTable.is_deltatable(str(path)) else []
        written = {entry["version"]: entry for entry in entries if "rs.batch_id" in entry}
        return {at: (entry["rs.writer"].split("/")[1], int(entry["rs.batch_id"])) for at, entry in written.items()}

    def batches_that_differ(self, name):
        """The batches since the last comparison after which the sum of changes was not the table."""
        table, found = self.commits(f"{name}_out"), []
        for version, (generation, batch) in sorted(self.commits(f"{name}_all").items()):
            until = [at for at, (of, number) in table.items() if of == generation and number <= batch]
            if version <= self.compared.get(name, -1) or not until:
                continue
            self.compared[name] = version
            have = Counter(map(frozen, self.rows(f"{name}_out", max(until))))
            summed = added_up(self.rows(f"{name}_all", version))
            if summed != have:
                found.append(f"batch {batch} of {generation}: {[*(summed - have)][:3]} {[*(have - summed)][:3]}")
        return found

    def differences(self, operators=None):
        """What is not as it should be: one text for each operator."""
        found = []
        for name in operators or self.operators:
            want = Counter(map(frozen, OPERATORS[name][1](self.model)))
            have = Counter(map(frozen, self.rows(f"{name}_out")))
            if have != want:
                found.append(f"{name}: surplus {[*(have - want)][:3]}, missing {[*(want - have)][:3]}")
            if name in self.shown:
                summed = added_up(self.rows(f"{name}_all"))
                if summed != want:
                    found.append(
                        f"{name}: the sum of changes differs: {[*(summed - want)][:3]} {[*(want - summed)][:3]}"
                    )
                found += [f"{name}: the sum of changes at the end of {each}" for each in self.batches_that_differ(name)]
        return found


def added_up(changes):
    """How often each row is there; a row that went more often than it came has a negative number."""
    summed = Counter()
    for row in changes:
        summed[frozen(row)] += -1 if row["retracted"] else 1
    return Counter({row: times for row, times in summed.items() if times})


def frozen(row):
    return tuple(sorted((name, plain(name, value)) for name, value in row.items() if name != "retracted"))


def plain(name, value):
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return tuple(plain(name, each) for each in value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if name in ("at", "ats"):
        # As it was fed.
        return {"1969-12-31T23:59:59.5Z": "1969-12-31T23:59:59.500000+00:00"}.get(value, value.replace("Z", "+00:00"))
    if name in ("price", "most", "mean") and not isinstance(value, int):
        return f"{Decimal(value):.2f}"
    return value


def crashed(world, monkeypatch, rng):
    """A run in which one sink fails at a commit, before or behind its effect."""
    operator = rng.choice(world.operators)
    with monkeypatch.context() as patched:
        crash = Crash(patched, DeltaWriter, behind=rng.random() < 0.5, name=f"{operator}_sink")
        try:
            world.run()
        except RsError as error:
            if "crash" not in str(error):
                raise
        return f"{operator}, {'armed still' if crash.armed else 'met'}"


class Play:
    """What happens to a world, drawn by a seed."""

    acts = ("advance", "crash", "rewind", "rescale", "savepoint", "restore", "advance", "crash")
    # What leaves input behind that the next run reads.
    unfinished = ("crash", "rewind", "restore")

    def __init__(self, world, monkeypatch, seed, told=print):
        self.world, self.monkeypatch, self.seed, self.told = world, monkeypatch, seed, told
        self.rng, self.done, self.saved = random.Random(seed), [], []

    def run(self, steps):
        """AssertionError for the first step after which a table differs, with what was done."""
        self.step("advance")
        for _ in range(steps):
            self.step(self.rng.choice(self.acts))

    def step(self, name):
        result = getattr(self, name)()
        self.done.append(f"{name} {result or ''}")
        self.told(self.done[-1])
        if name in self.unfinished:
            self.world.run()
        self.check()

    def check(self):
        different = self.world.differences()
        assert not different, f"seed {self.seed}: {self.done}: {different}"

    def advance(self):
        self.world.feed(drawn(self.rng))
        self.world.run()

    def crash(self):
        self.world.feed(drawn(self.rng))
        return crashed(self.world, self.monkeypatch, self.rng)

    def rewind(self):
        pipeline = self.world.pipeline()
        query = self.rng.choice([plan.name for plan in plan_queries(pipeline.topology)])
        try:
            return pipeline.rewind(self.rng.choice([0, 1, 2]), self.world.options, step=query)
        except CheckpointError as error:
            return f"refused: {error}"

    def rescale(self):
        parts = self.rng.choice([1, 2, 3, 5])
        self.world.pipeline().rescale(parts, self.world.options)
        return parts

    def savepoint(self):
        taken = self.world.pipeline().savepoint(self.world.options)
        self.saved.append((taken.id, {name: len(rows) for name, rows in self.world.model.rows.items()}))

    def restore(self):
        if not self.saved:
            return "nothing"
        return self.back_to(*self.rng.choice(self.saved))

    def back_to(self, taken, counts):
        self.world.pipeline().restore(self.world.options, savepoint_id=taken)
        rows = self.world.model.rows
        self.world.model.rows = defaultdict(list, {name: rows[name][:count] for name, count in counts.items()})
        self.check()
        self.world.model.rows = rows
        return taken

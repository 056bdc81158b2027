"""All operators of tables over keys and values that are easily mistaken for each other, against dictionaries.

Texts that differ by a space at the end, -0.0 and NaN, decimals of other digits, moments around 1970. Changes of each
batch add up to the rows, and none of them is a change to the same row.
"""

import math
import random
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from rs_assets import StreamBuilder
from rs_assets.testing import PipelineDriver

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYS = {
    "string": ["", " ", "a", "a ", "a  ", "é", "e\u0301", "x" * 20000, "x" * 19999 + "y", "a\0", "'\"`\\"],
    "double": [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, 5e-324, 2.0**53],
    "float": [0.0, -0.0, math.nan, 1.5, math.inf],
    "decimal(10,2)": [Decimal(each) for each in ("0.00", "-0.00", "1.10", "99999999.99", "-0.01")],
    "timestamp": [EPOCH + timedelta(microseconds=n) for n in (0, -1, 1, -1000, 999, -999999)]
    + [datetime(year, 1, 2, tzinfo=UTC) for year in (1, 1582, 1900, 9999)],
    "date": [date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 2), date(9999, 12, 31), date(1582, 10, 10)],
    "boolean": [True, False],
    "tinyint": [-128, 127, 0],
}
VALUES = [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.0, 3.25, 7.0]


def one(value):
    """The same for all values that are equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return value + 0
    if isinstance(value, list | tuple):
        return tuple(map(one, value))
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def by_value(value):
    """Null first, NaN last."""
    return (0, 0) if value is None else (2, 0) if one(value) == "nan" else (1, value)


def frozen(row):
    return tuple(sorted((name, repr(one(value))) for name, value in row.items()))


def bag(value):
    return repr(one(value))


def put_in(value, row):
    return {"bag": sorted([*(value["bag"] if value else []), bag(row["v"])])}


def taken_out(value, row):
    kept = list(value["bag"])
    kept.remove(bag(row["v"]))
    return {"bag": kept}


def clicked(key, row, value):
    return {**value, "clicks": value["clicks"] + 1}


def came(key, row, value):
    return {**value, "rows": value["rows"] + 1}


def went(key, row, value):
    return {**value, "rows": value["rows"] - 1}


def pipeline_of(kind):
    """Each table with a sink of its name, and a stream that is joined with one."""
    start = StreamBuilder.data_stream("test", "odd")
    rows = start.from_file("a.jsonl", schema=f"k {kind}, g {kind}, v double, gone boolean", tail=True, name="rows")
    others = start.from_file("b.jsonl", schema=f"k2 {kind}, w double, left boolean", tail=True, name="others")
    clicks = start.from_file("c.jsonl", schema=f"g {kind}, p bigint", tail=True, name="clicks")
    table = rows.to_table("k", deletes="gone", name="table").map_values("g", "v", name="values")
    other = others.to_table("k2", deletes="left", name="other").map_values("w", name="other_values")
    groups, initial = table.group_by("g"), lambda: {"clicks": 0, "rows": 0}
    both = clicks.group_by("g").cogroup(clicked).cogroup(groups, came, subtract=went)
    tables = {
        "plain": table,
        "kept": groups.min("v", "lo")
        .max("v", "hi")
        .count_distinct("v", "kinds")
        .collect("v", "all")
        .to_table(name="k"),
        "signed": groups.count("n").sum("v", "total").to_table(name="s"),
        "top": groups.top_n(2, by="v", rank="place", name="t"),
        "foreign": table.join(other, on={"g": "k2"}, how="left", prefix="o_", name="f"),
        "outer": table.join(other, how="outer", name="o"),
        "reduced": groups.reduce(put_in, subtract=taken_out, schema="bag array<string>", name="r"),
        "both": both.aggregate(schema="clicks bigint, rows bigint", initial=initial, name="b"),
        "stream": clicks.group_by("g").count("n").max("p", "most").to_table(name="c"),
    }
    for name, each in tables.items():
        each.to_stream(name=f"{name}_changes").to_print(name=name)
    joined = clicks.join_table(other, on={"g": "k2"}, how="left", prefix="o_", name="j")
    return joined.to_print(name="joined").build(), tuple(tables)


class Model:
    """The rows of both tables by key, and all clicks."""

    def __init__(self):
        self.rows, self.others, self.clicks = {}, {}, []

    def feed(self, rows, others, clicks):
        for table, key, gone, changes in ((self.rows, "k", "gone", rows), (self.others, "k2", "left", others)):
            for row in changes:
                table.pop(one(row[key]), None)
                if not row[gone]:
                    table[one(row[key])] = row
        self.clicks += clicks

    def other(self, key):
        """The fields of the row that a foreign key names."""
        found = self.others.get(one(key)) if key is not None else None
        return {"o_k2": found and found["k2"], "o_w": found and found["w"]}

    def plain(self):
        return [{name: row[name] for name in ("k", "g", "v")} for row in self.rows.values()]

    def kept(self):
        return [
            {"g": g, "lo": min(vs, key=by_value, default=None), "hi": max(vs, key=by_value, default=None)}
            | {"kinds": len(set(map(one, vs))), "all": sorted(vs, key=by_value)}
            for g, _, vs in self.groups()
        ]

    def signed(self):
        return [{"g": g, "n": len(rows), "total": sum(vs) if vs else None} for g, rows, vs in self.groups()]

    def top(self):
        return [
            {name: row[name] for name in ("k", "g", "v")} | {"place": place}
            for _, rows, _ in self.groups()
            for place, row in enumerate(sorted(sorted(rows, key=key_of), key=value_of, reverse=True)[:2], 1)
        ]

    def foreign(self):
        return [row | self.other(row["g"]) for row in self.plain()]

    def outer(self):
        found = []
        for key in self.rows | self.others:
            row, other = self.rows.get(key), self.others.get(key)
            k = row["k"] if row else other["k2"]
            found.append({"k": k, "g": row and row["g"], "v": row and row["v"], "w": other and other["w"]})
        return found

    def reduced(self):
        return [{"g": g, "bag": sorted(bag(row["v"]) for row in rows)} for g, rows, _ in self.groups()]

    def both(self):
        rows, clicks = ({one(g): (g, len(each)) for g, each in found} for found in self.counted())
        return [
            {"g": (rows.get(g) or clicks.get(g))[0], "clicks": clicks.get(g, (g, 0))[1], "rows": rows.get(g, (g, 0))[1]}
            for g in rows | clicks
        ]

    def stream(self):
        return [{"g": g, "n": len(each), "most": max(c["p"] for c in each)} for g, each in self.counted()[1]]

    def counted(self):
        return [(g, rows) for g, rows, _ in self.groups()], [*grouped(self.clicks)]

    def groups(self):
        for g, rows in grouped(self.rows.values()):
            yield g, rows, [row["v"] for row in rows if row["v"] is not None]


def grouped(rows):
    found = defaultdict(list)
    for row in rows:
        if row["g"] is not None:
            found[one(row["g"])].append(row)
    return ((each[0]["g"], each) for each in found.values())


def key_of(row):
    return by_value(row["k"])


def value_of(row):
    return by_value(row["v"])


def drawn(rng, keys):
    """Rows of the table, of the other table, and clicks."""
    maybe = [*keys, None]
    rows, others, clicks = rng.randrange(1, 30), rng.randrange(1, 8), rng.randrange(1, 10)
    return (
        [
            {"k": rng.choice(keys), "g": rng.choice(maybe), "v": rng.choice(VALUES), "gone": rng.random() < 0.25}
            for _ in range(rows)
        ],
        [{"k2": rng.choice(keys), "w": rng.choice(VALUES), "left": rng.random() < 0.3} for _ in range(others)],
        [{"g": rng.choice(maybe), "p": rng.randrange(9)} for _ in range(clicks)],
    )


def changed(current, changes, name):
    """The rows of a table after its changes in a batch; none of them may be a change to the same row."""
    twice = Counter(frozen({n: v for n, v in row.items() if n != "retracted"}) for row in changes)
    assert set(twice.values()) <= {1}, (name, twice)
    for row in changes:
        current[frozen({n: v for n, v in row.items() if n != "retracted"})] += -1 if row["retracted"] else 1
    assert set(current.values()) <= {0, 1}, name
    return +current


@pytest.mark.long
@pytest.mark.parametrize("kind", KEYS)
def test_tables_of_odd_values_equal_dictionaries_after_each_batch(driver, kind):
    rng, model, current = random.Random(kind), Model(), defaultdict(Counter)
    pipeline, names = pipeline_of(kind)
    with PipelineDriver(pipeline, spark=driver) as running:
        for number in range(4):
            if number == 2:
                running.restart()
            batch = drawn(rng, KEYS[kind])
            for source, rows in zip(("rows", "others", "clicks"), batch, strict=True):
                running.push(rows, source)
            running.step()
            model.feed(*batch)
            for name in names:
                current[name] = changed(current[name], running.take(name), name)
                assert current[name] == Counter(map(frozen, getattr(model, name)())), (name, number)
            joined = [click | model.other(click["g"]) for click in batch[2]]
            assert Counter(map(frozen, running.take("joined"))) == Counter(map(frozen, joined)), number

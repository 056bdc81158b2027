"""Random statements of streaming SQL, each with the text that means the same to DuckDB."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

# The columns of streams and of tables with a key, with the kinds of their values.
STREAM = {"id": "int", "k": "int", "j": "int", "t": "text", "x": "int", "d": "real", "ts": "time"}
TABLE = {"id": "int", "k": "int", "j": "int", "t": "text", "x": "int", "d": "real"}
STREAMS, TABLES = ("s1", "s2"), ("p1", "p2")
TYPES = {"int": "BIGINT", "text": "STRING", "real": "DOUBLE", "time": "TIMESTAMP(3)"}
COMPARED = ("=", "<>", "<", "<=", ">", ">=")
TEXTS = ("'a'", "'b'", "'B'", "''", "'ab'")


@dataclass(frozen=True)
class Two:
    """A text here and in DuckDB."""

    ours: str
    duck: str

    @classmethod
    def same(cls, text: str) -> Two:
        return cls(text, text)

    def __add__(self, other: Two | str) -> Two:
        other = Two.same(other) if isinstance(other, str) else other
        return Two(self.ours + other.ours, self.duck + other.duck)

    def __radd__(self, other: str) -> Two:
        return Two.same(other) + self


def joined(parts: Sequence[Two], by: str) -> Two:
    """Texts with another one between them."""
    return Two(by.join(each.ours for each in parts), by.join(each.duck for each in parts))


@dataclass(frozen=True)
class Rows:
    """Rows of FROM: their text, their columns by kind, and what they allow."""

    text: Two
    columns: Mapping[str, str]
    # Rows come once, and have `ts` as their event time.
    stream: bool = True
    timed: bool = True

    def of(self, kind: str) -> list[str]:
        return [name for name, each in self.columns.items() if each == kind]


@dataclass(frozen=True)
class Statement:
    """A query with its columns, and the statements before it."""

    kind: str
    query: Two
    columns: Mapping[str, str]
    views: Sequence[Two] = field(default=())


class Draw:
    """Draws statements from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.views: list[Two] = []

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def statement(self) -> Statement:
        """The next statement."""
        self.views = []
        kinds: Mapping[str, Callable[[], tuple[Two, Mapping[str, str]]]] = {
            "rows": self.rows,
            "group": self.group,
            "windows": self.windows,
            "ranking": self.ranking,
            "over": self.over,
            "union": self.union,
            "kept": self.kept,
            "table": self.table,
            "table group": self.table_group,
            "table join": self.table_join,
            "group of groups": self.nested,
        }
        kind = self.random.choice(list(kinds))
        query, columns = kinds[kind]()
        return Statement(kind, query, columns, tuple(self.views))

    # Expressions.

    def column(self, rows: Rows, kind: str, prefix: str = "") -> str | None:
        names = rows.of(kind)
        return prefix + self.random.choice(names) if names else None

    def value(self, rows: Rows, kind: str, depth: int = 2, prefix: str = "") -> Two:
        """A value of a kind."""
        name = self.column(rows, kind, prefix)
        if depth == 0 or self.chance(0.4):
            return Two.same(name) if name is not None and self.chance(0.9) else self.constant(kind)

        def inner(of: str = kind) -> Two:
            return self.value(rows, of, depth - 1, prefix)

        common = (
            lambda: (
                "(CASE WHEN "
                + self.condition(rows, depth - 1, prefix)
                + " THEN "
                + inner()
                + " ELSE "
                + inner()
                + " END)"
            ),
            lambda: "COALESCE(" + inner() + ", " + self.constant(kind) + ")",
            lambda: "NULLIF(" + inner() + ", " + self.constant(kind) + ")",
        )
        own = {
            "int": (
                lambda: "(" + inner() + self.random.choice((" + ", " - ")) + inner() + ")",
                lambda: "(" + inner() + f" * {self.random.randint(-2, 3)})",
                lambda: "MOD(" + inner() + f", {self.random.randint(2, 5)})",
                lambda: "ABS(" + inner() + ")",
                lambda: Two("CHAR_LENGTH(", "LENGTH(") + inner("text") + ")",
            ),
            "text": (
                lambda: "UPPER(" + inner() + ")",
                lambda: "(" + inner() + " || " + inner() + ")",
                lambda: "SUBSTRING(" + inner() + " FROM 1 FOR 2)",
                lambda: "CAST(" + inner("int") + Two(" AS STRING)", " AS VARCHAR)"),
            ),
            "real": (
                lambda: "(" + inner() + self.random.choice((" + ", " - ")) + inner() + ")",
                lambda: "(" + inner() + " * 2)",
            ),
            "time": (),
        }[kind]
        if kind == "time":
            return Two.same(name) if name is not None else self.constant(kind)
        return self.random.choice((*common, *own))()

    def constant(self, kind: str) -> Two:
        if kind == "int":
            return Two.same(str(self.random.randint(0, 4)))
        if kind == "text":
            return Two.same(self.random.choice(TEXTS))
        number = self.random.randint(-4, 4) / 4
        return Two.same(f"CAST({number} AS DOUBLE)")

    def condition(self, rows: Rows, depth: int = 2, prefix: str = "") -> Two:
        """A condition on rows."""
        kinds = [kind for kind in ("int", "text", "real") if rows.of(kind)]

        def of(kind: str) -> Two:
            return self.value(rows, kind, max(depth - 1, 0), prefix)

        def compared() -> Two:
            kind = self.random.choice(kinds)
            return "(" + of(kind) + f" {self.random.choice(COMPARED)} " + of(kind) + ")"

        def listed() -> Two:
            values = ", ".join(str(self.random.randint(0, 4)) for _ in range(3))
            return "(" + of("int") + self.random.choice((" IN (", " NOT IN (")) + values + "))"

        plain: list[Callable[[], Two]] = [
            compared,
            compared,
            listed,
            lambda: "(" + of(self.random.choice(kinds)) + self.random.choice((" IS NULL)", " IS NOT NULL)")),
            lambda: "(" + of("int") + " BETWEEN " + of("int") + " AND " + of("int") + ")",
            lambda: "(" + of("text") + self.random.choice((" LIKE 'a%')", " NOT LIKE '%b')")),
            lambda: (
                "(" + of("int") + self.random.choice((" IS DISTINCT FROM ", " IS NOT DISTINCT FROM ")) + of("int") + ")"
            ),
        ]
        if depth > 0:

            def both(sign: str) -> Two:
                return (
                    "(" + self.condition(rows, depth - 1, prefix) + sign + self.condition(rows, depth - 1, prefix) + ")"
                )

            plain += [
                lambda: both(" AND "),
                lambda: both(" OR "),
                lambda: "(NOT " + self.condition(rows, depth - 1, prefix) + ")",
            ]
        return self.random.choice(plain)()

    # Rows of FROM.

    def source(self, names: Sequence[str] = STREAMS) -> Rows:
        name = self.random.choice(names)
        stream = name in STREAMS
        return Rows(Two.same(name), STREAM if stream else TABLE, stream=stream, timed=stream)

    def derived(self, rows: Rows, alias: str, *, timed: bool = True) -> Rows:
        """A sub-query over rows: some of its columns are computed, `ts` and `id` stay."""
        items, columns = [], {}
        for name, kind in rows.columns.items():
            if name in ("ts", "id") or (kind == "time" and timed):
                items.append(Two.same(name))
                columns[name] = kind
            elif kind != "time" and self.chance(0.8):
                made = name if self.chance(0.5) else f"{name}{self.random.randint(1, 9)}"
                value = Two.same(name) if self.chance(0.4) else self.value(rows, kind)
                items.append(value + f" AS {made}")
                columns[made] = kind
        where = " WHERE " + self.condition(rows) if self.chance(0.6) else Two.same("")
        text = "(SELECT " + joined(items, ", ") + " FROM " + rows.text + where + f") AS {alias}"
        return replace(rows, text=text, columns=columns)

    def some(self, alias: str = "q", names: Sequence[str] = STREAMS) -> Rows:
        rows = self.source(names)
        return self.derived(rows, alias) if self.chance(0.6) else rows

    def named(self, rows: Rows, alias: str) -> Two:
        """Rows under an alias."""
        cut = rows.text.ours.rsplit(" AS ", 1)[0] if rows.text.ours.startswith("(") else rows.text.ours
        duck = rows.text.duck.rsplit(" AS ", 1)[0] if rows.text.duck.startswith("(") else rows.text.duck
        return Two(cut, duck) + f" AS {alias}"

    def equal(self, left: Rows, right: Rows, aliases: tuple[str, str] = ("a.", "b.")) -> list[Two]:
        """Equal columns of two sides, a column perhaps twice."""
        found: list[Two] = []
        for _ in range(self.random.choice((1, 1, 2, 2, 3))):
            kind = self.random.choice([kind for kind in ("int", "text") if left.of(kind) and right.of(kind)])
            names = [name for name in left.of(kind) if not name.endswith("id")] or left.of(kind)
            others = [name for name in right.of(kind) if not name.endswith("id")] or right.of(kind)
            one, two = aliases[0] + self.random.choice(names), aliases[1] + self.random.choice(others)
            if kind == "int" and self.chance(0.15):
                one = f"({one} + 1)"
            sign = " IS NOT DISTINCT FROM " if self.chance(0.15) else " = "
            pair = (one, two) if self.chance(0.7) else (two, one)
            found.append(Two.same(pair[0] + sign + pair[1]))
        return found

    def pair(self) -> tuple[Rows, bool]:
        """Two streams joined, and whether rows of the join may stay alone."""
        left, right = self.some(), self.some()
        conditions = self.equal(left, right)
        bounded = self.chance(0.6)
        if bounded:
            before, after = self.random.randint(0, 9), self.random.randint(0, 9)
            conditions.append(
                Two.same(f"b.ts BETWEEN a.ts - INTERVAL '{before}' MINUTE AND a.ts + INTERVAL '{after}' MINUTE")
            )
        how = self.random.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")) if bounded else "JOIN"
        if self.chance(0.3):
            conditions.append(
                "a." + Two.same(self.random.choice(left.of("int"))) + " >= b." + self.random.choice(right.of("int"))
            )
        self.random.shuffle(conditions)
        text = self.named(left, "a") + f" {how} " + self.named(right, "b") + " ON " + joined(conditions, " AND ")
        columns = {f"a.{name}": kind for name, kind in left.columns.items()}
        columns |= {f"b.{name}": kind for name, kind in right.columns.items()}
        rows = Rows(text, columns, timed=False)
        return (self.third(rows) if self.chance(0.3) else rows), how != "JOIN"

    def third(self, rows: Rows) -> Rows:
        """A join with one more stream."""
        more = self.some()
        conditions = self.equal(rows, more, ("", "c."))
        self.random.shuffle(conditions)
        text = rows.text + " JOIN " + self.named(more, "c") + " ON " + joined(conditions, " AND ")
        return replace(
            rows, text=text, columns={**rows.columns, **{f"c.{each}": k for each, k in more.columns.items()}}
        )

    # Statements.

    def selected(self, rows: Rows, count: int = 4) -> tuple[Two, dict[str, str]]:
        """A select list, and its columns."""
        kinds = [kind for kind in ("int", "text", "real", "time") if rows.of(kind)]
        items, columns = [], {}
        for number in range(self.random.randint(2, count)):
            kind = self.random.choice(kinds)
            items.append(self.value(rows, kind) + f" AS c{number}")
            columns[f"c{number}"] = kind
        return joined(items, ", "), columns

    def rows(self) -> tuple[Two, Mapping[str, str]]:
        rows = self.pair()[0] if self.chance(0.6) else self.some()
        items, columns = self.selected(rows, 6)
        where = " WHERE " + self.condition(rows) if self.chance(0.5) else Two.same("")
        return "SELECT " + items + " FROM " + rows.text + where, columns

    def aggregates(self, rows: Rows, count: int = 3) -> tuple[list[Two], dict[str, str]]:
        """Aggregates with their names."""
        found, columns = [], {}
        for number in range(self.random.randint(1, count)):
            kind = self.random.choice([kind for kind in ("int", "real") if rows.of(kind)] or ["int"])
            value = self.value(rows, kind, 1)
            text = self.value(rows, "text", 1) if rows.of("text") else value
            made = self.random.choice(
                (
                    (Two.same("COUNT(*)"), "int"),
                    ("COUNT(" + text + ")", "int"),
                    ("SUM(" + value + ")", kind),
                    ("MIN(" + value + ")", kind),
                    ("MAX(" + value + ")", kind),
                    ("COUNT(DISTINCT " + text + ")", "int"),
                    ("SUM(DISTINCT " + value + ")", kind),
                    ("MAX(" + text + ")", "text" if rows.of("text") else kind),
                )
            )
            call, of = made
            if self.chance(0.3):
                call = call + " FILTER (WHERE " + self.condition(rows, 1) + ")"
            found.append(call + f" AS g{number}")
            columns[f"g{number}"] = of
        return found, columns

    def keys(self, rows: Rows) -> tuple[list[Two], dict[str, str]]:
        """Keys of a group with their names, computed or not; a constant is no key in DuckDB."""
        found, columns = [], {}
        for number in range(self.random.randint(1, 2)):
            kind = self.random.choice([kind for kind in ("int", "text") if rows.of(kind)])
            key = self.value(rows, kind, 1 if self.chance(0.4) else 0)
            known = any(name in re.split(r"[^\w.]+", key.ours) for name in rows.columns)
            found.append(key if known else Two.same(self.random.choice(rows.of(kind))))
            columns[f"k{number}"] = kind
        return found, columns

    def grouped(self, rows: Rows, *, having: bool = True) -> tuple[Two, Mapping[str, str]]:
        keys, kinds = self.keys(rows)
        made, columns = self.aggregates(rows)
        items = [key + f" AS {name}" for key, name in zip(keys, kinds, strict=True)] + made
        where = " WHERE " + self.condition(rows) if self.chance(0.4) else Two.same("")
        query = "SELECT " + joined(items, ", ") + " FROM " + rows.text + where + " GROUP BY " + joined(keys, ", ")
        if having and self.chance(0.3):
            query = query + f" HAVING COUNT(*) {self.random.choice(COMPARED)} {self.random.randint(1, 6)}"
        return query, kinds | columns

    def group(self) -> tuple[Two, Mapping[str, str]]:
        return self.grouped(self.pair()[0] if self.chance(0.3) else self.some())

    def nested(self) -> tuple[Two, Mapping[str, str]]:
        query, columns = self.grouped(self.some(), having=self.chance(0.3))
        return self.grouped(Rows("(" + query + ") AS n", columns, stream=False, timed=False))

    def windows(self) -> tuple[Two, Mapping[str, str]]:
        rows = self.source()
        view = self.derived(rows, "v")
        name = f"v{self.random.randint(0, 10**9)}"
        body = Two(*(each.rsplit(") AS ", 1)[0][1:] for each in (view.text.ours, view.text.duck)))
        self.views.append(f"CREATE VIEW {name} AS " + body)
        minutes = self.random.choice((5, 10, 30))
        made, columns = self.aggregates(view)
        keys, kinds = self.keys(view) if self.chance(0.7) else ([], {})
        start = Two("window_start", f"time_bucket(INTERVAL '{minutes} minutes', ts)")
        items = [key + f" AS {each}" for key, each in zip(keys, kinds, strict=True)] + [start + " AS w"] + made
        ours = f"TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(ts), INTERVAL '{minutes}' MINUTE))"
        groups = [*keys, Two("window_start, window_end", start.duck)]
        query = "SELECT " + joined(items, ", ") + " FROM " + Two(ours, name) + " GROUP BY " + joined(groups, ", ")
        return query, kinds | {"w": "time"} | columns

    def ranked(self, rows: Rows) -> tuple[Two, Mapping[str, str]]:
        keys = [name for name in (*rows.of("int"), *rows.of("text")) if name != "id"]
        part = self.random.choice(keys)
        by = [self.random.choice([*rows.of("int"), *rows.of("real")]), "id"]
        order = ", ".join(f"{name} {self.random.choice(('ASC', 'DESC'))}" for name in dict.fromkeys(by))
        names = list(rows.columns)
        limit = self.random.choice(("rn <= 2", "rn = 1", "rn < 4", "rn = 2", "rn BETWEEN 2 AND 3"))
        inner = "SELECT " + ", ".join(names) + f", ROW_NUMBER() OVER (PARTITION BY {part} ORDER BY {order}) AS rn FROM "
        query = "SELECT " + ", ".join(names) + ", rn FROM (" + inner + rows.text + f") AS r WHERE {limit}"
        return Two.same("") + query, {**rows.columns, "rn": "int"}

    def ranking(self) -> tuple[Two, Mapping[str, str]]:
        return self.ranked(self.some())

    def over(self) -> tuple[Two, Mapping[str, str]]:
        rows = self.some()
        part = self.random.choice([name for name in (*rows.of("int"), *rows.of("text")) if name != "id"])
        frame = self.random.choice(
            (
                f"ROWS BETWEEN {self.random.randint(1, 4)} PRECEDING AND CURRENT ROW",
                f"RANGE BETWEEN INTERVAL '{self.random.randint(1, 9)}' MINUTE PRECEDING AND CURRENT ROW",
                "RANGE UNBOUNDED PRECEDING",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            )
        )
        window = f" OVER (PARTITION BY {part} ORDER BY ts {frame})"
        items, columns = [Two.same("id AS c0"), Two.same("ts AS c1")], {"c0": "int", "c1": "time"}
        for number in range(self.random.randint(1, 3)):
            kind = self.random.choice([kind for kind in ("int", "real") if rows.of(kind)])
            call = self.random.choice(("SUM", "MIN", "MAX", "COUNT"))
            items.append(f"{call}(" + self.value(rows, kind, 1) + f"){window} AS g{number}")
            columns[f"g{number}"] = "int" if call == "COUNT" else kind
        return "SELECT " + joined(items, ", ") + " FROM " + rows.text, columns

    def union(self) -> tuple[Two, Mapping[str, str]]:
        kinds = [self.random.choice(("int", "text", "real")) for _ in range(self.random.randint(1, 3))]
        columns = {f"c{number}": kind for number, kind in enumerate(kinds)}

        def side() -> Two:
            rows = self.some()
            items = joined([self.value(rows, kind) + f" AS {name}" for name, kind in columns.items()], ", ")
            return (
                "SELECT "
                + items
                + " FROM "
                + rows.text
                + (" WHERE " + self.condition(rows) if self.chance(0.4) else Two.same(""))
            )

        if self.chance(0.25):
            one = side()
            rest = len("SELECT")
            return "SELECT DISTINCT" + Two(one.ours[rest:], one.duck[rest:]), columns
        return joined(
            [side() for _ in range(self.random.choice((2, 2, 3)))], self.random.choice((" UNION ALL ", " UNION "))
        ), columns

    def kept(self) -> tuple[Two, Mapping[str, str]]:
        """Rows for which a sub-query has a row, or none."""
        left, right = self.source(), self.source()
        conditions = self.equal(left, right)
        conditions.append(Two.same("b.ts BETWEEN a.ts - INTERVAL '7' MINUTE AND a.ts + INTERVAL '7' MINUTE"))
        word = self.random.choice(("EXISTS", "NOT EXISTS"))
        query = "SELECT a.id AS c0, a.k AS c1, a.t AS c2 FROM " + self.named(left, "a")
        inner = "SELECT 1 FROM " + self.named(right, "b") + " WHERE " + joined(conditions, " AND ")
        if self.chance(0.4):
            inner = inner + " AND " + self.condition(right, 1, "b.")
        return query + f" WHERE {word} (" + inner + ")", {"c0": "int", "c1": "int", "c2": "text"}

    def table(self) -> tuple[Two, Mapping[str, str]]:
        rows = self.source(TABLES)
        if self.chance(0.3):
            return self.ranked(rows)
        values = [self.value(rows, kind) + f" AS c{number}" for number, kind in enumerate(("int", "text", "real"))]
        query = "SELECT id, " + joined(values, ", ") + " FROM " + rows.text + " WHERE " + self.condition(rows)
        if self.chance(0.3):
            other = self.source(TABLES)
            word = self.random.choice((" AND EXISTS", " AND NOT EXISTS"))
            match = f"o.{self.random.choice(other.of('int'))} = {rows.text.ours}.{self.random.choice(rows.of('int'))}"
            query = query + word + " (SELECT 1 FROM " + other.text + " AS o WHERE " + match + ")"
        return query, {"id": "int", "c0": "int", "c1": "text", "c2": "real"}

    def table_group(self) -> tuple[Two, Mapping[str, str]]:
        return self.grouped(self.source(TABLES))

    def table_join(self) -> tuple[Two, Mapping[str, str]]:
        how = self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        left, right = self.source(TABLES), self.source(TABLES)
        one, two = self.random.choice(left.of("int")), self.random.choice(("id", *right.of("int")))
        columns = {f"a.{name}": kind for name, kind in left.columns.items()}
        columns |= {f"b.{name}": kind for name, kind in right.columns.items()}
        rows = Rows(
            self.named(left, "a") + f" {how} " + self.named(right, "b") + f" ON a.{one} = b.{two}",
            columns,
            stream=False,
        )
        # Where a row has one partner at most, other conditions may follow.
        one_each = how == "JOIN" or (how, two) == ("LEFT JOIN", "id") or (how, one) == ("RIGHT JOIN", "id")
        if one_each and self.chance(0.4):
            rows = replace(rows, text=rows.text + " AND " + self.condition(rows, 1))
        if self.chance(0.4):
            return self.grouped(rows)
        values = [self.value(rows, kind) + f" AS c{number}" for number, kind in enumerate(("int", "text", "real"))]
        where = " WHERE " + self.condition(rows) if self.chance(0.4) else Two.same("")
        by_keys = how == "FULL JOIN" and one == two == "id"
        key = "COALESCE(a.id, b.id)" if by_keys else "a.id"
        return f"SELECT {key} AS id, b.id AS other, " + joined(values, ", ") + " FROM " + rows.text + where, {
            "id": "int",
            "other": "int",
            "c0": "int",
            "c1": "text",
            "c2": "real",
        }

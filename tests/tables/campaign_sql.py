"""The same histories for tables in SQL; DuckDB computes what they must be."""

from __future__ import annotations

from collections import Counter

import duckdb

from rs_assets import pipeline_from_sql
from tests.tables.campaign import KEYS, SCHEMAS, World, frozen

# The columns of a result, and what gives it.
QUERIES = {
    "whole": (
        "id BIGINT, ms INT, note STRING",
        "SELECT COALESCE(o.id, n.nid) AS id, o.ms, n.note FROM orders AS o FULL JOIN notes AS n ON o.id = n.nid",
    ),
    "groups": (
        "who STRING, n BIGINT, total BIGINT, least INT, kinds BIGINT, paid DECIMAL(22, 2)",
        """SELECT who, COUNT(*) AS n, SUM(ms) AS total, MIN(ms) AS least, COUNT(DISTINCT ms) AS kinds,
            SUM(price) AS paid
        FROM orders GROUP BY who""",
    ),
    "signed": (
        "who STRING, n BIGINT, total BIGINT, given BIGINT",
        """SELECT who, COUNT(*) AS n, SUM(ms) AS total, COUNT(ms) AS given FROM orders
        GROUP BY who HAVING COUNT(*) > 1""",
    ),
    "firsts": (
        "who STRING, rn BIGINT, id BIGINT, ms INT",
        """SELECT who, rn, id, ms FROM (
            SELECT who, id, ms, ROW_NUMBER() OVER (PARTITION BY who ORDER BY ms DESC, id) AS rn FROM orders
        ) AS ranked WHERE rn <= 2""",
    ),
    "different": ("ms INT", "SELECT DISTINCT ms FROM orders WHERE ms <> 1"),
    "inside": (
        "id BIGINT, ms INT",
        "SELECT id, ms FROM orders WHERE who IN (SELECT uid FROM users WHERE tier = 'a')",
    ),
    "outside": (
        "id BIGINT, ms INT",
        """SELECT id, ms FROM orders AS o
        WHERE NOT EXISTS (SELECT 1 FROM notes AS n WHERE n.nid = o.id AND n.note = 'x')""",
    ),
    "named": (
        "id BIGINT, who STRING, tier STRING",
        "SELECT o.id, o.who, u.tier FROM users AS u RIGHT JOIN orders AS o ON o.who = u.uid",
    ),
    "sizes": (
        "n BIGINT, whos BIGINT",
        "SELECT n, COUNT(*) AS whos FROM (SELECT who, COUNT(*) AS n FROM clicks GROUP BY who) AS p GROUP BY n",
    ),
    "pages": (
        "who STRING, page STRING, n BIGINT, most BIGINT",
        "SELECT who, page, COUNT(*) AS n, MAX(n) AS most FROM clicks GROUP BY who, page",
    ),
}


def columns(source):
    """The columns of a source for SQL."""
    parts = [part.split() for part in SCHEMAS[source].replace("user ", "who ").split(", ")]
    return [(name, kind.upper()) for name, kind in parts]


def feeding(row):
    return {"who" if name == "user" else name: value for name, value in row.items()}


class SqlWorld(World):
    """The files of a world, read by a script with an INSERT for each query."""

    def __init__(self, options, folder, operators=tuple(QUERIES)):
        super().__init__(options, folder, operators)

    def script(self):
        made = []
        for name in ("orders", "notes", "users", "clicks"):
            fields = ", ".join(f"{column} {kind}" for column, kind in columns(name))
            key = f", PRIMARY KEY ({KEYS[name]}) NOT ENFORCED" if name in KEYS else ""
            more = ", 'deletes' = 'gone', 'order-by' = 'seq'" if name in KEYS else ""
            made.append(
                f"CREATE TABLE {name} ({fields}, seq BIGINT{key}) WITH ('connector' = 'filesystem',"
                f" 'path' = '{self.folder / name}/*.jsonl', 'format' = 'json'{more});"
            )
        made += [
            f"CREATE TABLE {name}_out ({QUERIES[name][0]}) WITH ('connector' = 'delta', 'table' = '{name}_out');"
            for name in self.operators
        ]
        made += [f"INSERT INTO {name}_out {QUERIES[name][1]};" for name in self.operators]
        return "\n".join(made)

    def pipeline(self):
        return pipeline_from_sql(self.script(), namespace="shop", job="campaign")

    def feed(self, batch):
        super().feed({name: list(map(feeding, rows)) for name, rows in batch.items()})

    def differences(self, operators=None):
        found = []
        with duckdb.connect() as db:
            for name in ("orders", "notes", "users", "clicks"):
                fields = ", ".join(f'"{column}" {kind.replace("STRING", "TEXT")}' for column, kind in columns(name))
                db.execute(f"CREATE TABLE {name} ({fields.replace('TIMESTAMP', 'TEXT')})")
                rows = self.model.table(name).values() if name in KEYS else self.model.rows[name]
                for row in rows:
                    fields = ", ".join(f'"{column}"' for column in row)
                    db.execute(f"INSERT INTO {name} ({fields}) VALUES ({', '.join('?' * len(row))})", [*row.values()])
            for name in operators or self.operators:
                asked = db.execute(QUERIES[name][1].replace("ORDER BY ms DESC", "ORDER BY ms DESC NULLS LAST"))
                names = [each[0] for each in asked.description]
                want = Counter(frozen(dict(zip(names, row, strict=True))) for row in asked.fetchall())
                have = Counter(map(frozen, self.rows(f"{name}_out")))
                if have != want:
                    found.append(f"{name}: surplus {[*(have - want)][:3]}, missing {[*(want - have)][:3]}")
        return found

"""What a table is, in plain Python: dictionaries that batches of rows change."""

import math
import random
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Told:
    """The rows that a table has told, added up."""

    current: Counter = field(default_factory=Counter)

    def add(self, rows):
        """Take the changes of one batch; each row that goes must be there."""
        for told in rows:
            row = dict(told)
            gone = row.pop("retracted")
            self.current[_frozen(row)] += -1 if gone else 1
        assert all(count in (0, 1) for count in self.current.values()), self.current
        self.current = +self.current

    def equals(self, rows):
        """Whether exactly `rows` are there."""
        return self.current == Counter(map(_frozen, rows))


def _frozen(row):
    return tuple(sorted((name, _plain(value)) for name, value in row.items()))


def _plain(value):
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return tuple(value) if isinstance(value, list) else value


def net(before, now):
    """How many changes a batch tells of a table that was `before` and is `now`, by key."""
    both = {key for key in before if key in now and before[key] != now[key]}
    return len(both) * 2 + len(before.keys() ^ now.keys())


def histories(seed, *, batches=3, size=200, keys=40):
    """Batches of upserts and deletions of rows with a key, a group, a foreign key and a value."""
    rng = random.Random(seed)

    def row():
        key = rng.randrange(keys)
        if rng.random() < 0.2:
            return {"id": key, "user": None, "ms": None, "ratio": None, "gone": True}
        user = rng.choice(["ann", "bo", "cy", "dee", None])
        ms = rng.choice([None, *range(-3, 6)])
        ratio = rng.choice([0.5, -0.25, math.inf, -math.inf, math.nan, None])
        return {"id": key, "user": user, "ms": ms, "ratio": ratio, "gone": False}

    return [[row() for _ in range(size)] for _ in range(batches)]


def upserted(table, rows):
    """The table after `rows`, the last of each key."""
    made = dict(table)
    for row in rows:
        if row["gone"]:
            made.pop(row["id"], None)
        else:
            made[row["id"]] = row
    return made


def grouped(table):
    """By user: rows, values, their sum and mean, extremes, different values, and the sum of a double."""
    groups = {}
    for row in table.values():
        if row["user"] is not None:
            groups.setdefault(row["user"], []).append(row)
    return {user: _aggregates(user, rows) for user, rows in groups.items()}


def _aggregates(user, rows):
    values = sorted(row["ms"] for row in rows if row["ms"] is not None)
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    return {
        "user": user,
        "n": len(rows),
        "total": sum(values) if values else None,
        "mean": sum(values) / len(values) if values else None,
        "least": values[0] if values else None,
        "most": values[-1] if values else None,
        "kinds": len(set(values)),
        "all": values,
        "ratios": sum(ratios) if ratios else None,
    }

"""Whether the rows that a sink got are those of the oracle."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC
from decimal import Decimal

from tests.programs.oracle import Oracle, Table
from tests.programs.program import Sink

# What the oracle leaves open, or has no name for.
HIDDEN = ("fire_time", "final", "retracted", "watermark")
SHOWN = 4


def plain(value):
    """A value that is equal to another one if Spark's and Python's are, and can be hashed."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple(sorted((name, plain(of)) for name, of in value.items()))
    if hasattr(value, "isoformat"):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat()
    if isinstance(value, Decimal):
        return f"decimal {value.normalize():f}" if value else "decimal 0"
    if isinstance(value, float):
        return f"double {value + 0.0:.9g}"
    return f"whole {value}"


def frozen(row):
    """The row without hidden fields; -0.0 is 0.0."""
    return tuple(sorted((name, plain(value)) for name, value in row.items() if not name.endswith(HIDDEN)))


def differing(have, want, where):
    """What two bags of rows do not share, as text."""
    if have == want:
        return ""
    surplus, missing = ([dict(row) for row in (one - other).elements()] for one, other in ((have, want), (want, have)))
    return f"{where}: surplus {len(surplus)} {surplus[:SHOWN]}, missing {len(missing)} {missing[:SHOWN]}"


def bag(rows):
    return Counter(map(frozen, rows))


def append(sink, got, want):
    """Each row; in its batch if the oracle knows it."""
    exact = all(batch is not None for batch, _ in want)
    for number, rows in enumerate(got):
        there, known = bag(rows), bag(row for batch, row in want if batch == number)
        text = differing(there if exact else there & known, known, f"batch {number}")
        if text:
            return text
    return differing(bag(row for rows in got for row in rows), bag(row for _, row in want), "all batches")


def net(sink, got, want):
    """Rows less those that were retracted: after each batch of a table, at the end of input for windows."""
    have = Counter()
    states = want.after if isinstance(want, Table) else [None] * (len(got) - 1) + [[row for _, row in want]]
    for number, (rows, now) in enumerate(zip(got, states, strict=True)):
        for row in rows:
            have[frozen(row)] += -1 if row["retracted"] else 1
        left = Counter({row: times for row, times in have.items() if times})
        if now is not None and left != bag(now):
            return differing(left, bag(now), f"after batch {number}")
        if any(times < 0 for times in left.values()):
            return f"after batch {number}: retracted but never emitted: {[dict(r) for r, n in left.items() if n < 0]}"
    return ""


def last(sink, got, want):
    """Of each window the row with the greatest count, which may be emitted twice."""
    newest = defaultdict(list)
    for row in (row for rows in got for row in rows):
        newest[tuple(plain(row[name]) for name in sink.keys)].append(row)
    final = [of for rows in newest.values() for of in {frozen(r): r for r in rows if is_last(r, rows, sink)}.values()]
    return differing(bag(final), bag(row for _, row in want), "the last rows")


def is_last(row, rows, sink):
    return row[sink.count] == max(each[sink.count] for each in rows)


def deltas(sink, got, want):
    """The sums of all parts of a window."""
    summed = {}
    for row in (row for rows in got for row in rows):
        key = tuple(plain(row[name]) for name in sink.keys)
        before = summed.setdefault(key, dict.fromkeys(row) | {name: row[name] for name in (*sink.keys, "end_time")})
        for name in set(row) - {*sink.keys, "end_time", *HIDDEN}:
            if row[name] is not None:
                before[name] = (before[name] or 0) + row[name]
    return differing(bag(summed.values()), bag(row for _, row in want), "the sums of parts")


VIEWS = {"append": append, "upsert": append, "history": append, "net": net, "last": last, "deltas": deltas}


def differences(program, got):
    """What the sinks of a program should not have got, or lack, as text; empty if all is right."""
    oracle, found = Oracle(program), []
    for name, of in program.sink_names().items():
        if isinstance(of, Sink):
            text = VIEWS[of.view](of, got[name], oracle.sink(of))
        else:
            text = differing(bag(row for rows in got[name] for row in rows), bag(oracle.late[of.name]), "late rows")
        if text:
            found.append(f"{name}: {text}")
    return "\n".join(found)

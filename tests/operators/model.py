"""Windows as plain Python: the reference that the operators are held against."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

START = datetime(2024, 1, 1, tzinfo=UTC)


def at(second):
    """An event time so many seconds into the test."""
    return START + timedelta(seconds=second)


def sliced(rows, *, size, slide):
    """Rows by key and window; windows are half-open and aligned to the epoch."""
    groups = defaultdict(list)
    for row in rows:
        second = int((row["ts"] - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        start = second - second % slide
        while start > second - size:
            groups[row["key"], datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + size, UTC)].append(
                row
            )
            start -= slide
    return groups


def sessions(rows, *, gap):
    """Rows by key and session; rows at most a gap apart belong together, a session ends a gap behind its last row."""
    groups = {}
    for key in {row["key"] for row in rows}:
        current = []
        for row in sorted((r for r in rows if r["key"] == key), key=lambda r: r["ts"]):
            if current and row["ts"] > current[-1]["ts"] + timedelta(seconds=gap):
                groups[key, current[0]["ts"], current[-1]["ts"] + timedelta(seconds=gap)] = current
                current = []
            current = [*current, row]
        groups[key, current[0]["ts"], current[-1]["ts"] + timedelta(seconds=gap)] = current
    return groups


def updated(batches, *, size, slide, delay):
    """For each batch what windows that emit on each update make of it: those it changed, with all their rows so far,
    and how many of its rows were late for every window."""
    groups, closed_to = defaultdict(list), datetime.min.replace(tzinfo=UTC)
    for rows in batches:
        changed = {}
        for group, more in sliced(rows, size=size, slide=slide).items():
            if group[2] > closed_to:
                groups[group] += more
                changed[group] = list(groups[group])
        late = sum(all(end <= closed_to for _, _, end in sliced([row], size=size, slide=slide)) for row in rows)
        yield changed, late
        closed_to = max(closed_to, max(row["ts"] for row in rows) - timedelta(seconds=delay))


def counted(groups):
    """What a count per group and window gives: key, start, end, count."""
    return sorted((*group, len(rows)) for group, rows in groups.items())


def windows_of(rows, name="n"):
    """The same of an operator's output."""
    return sorted((row["key"], row["start_time"], row["end_time"], row[name]) for row in rows)

"""Windows as plain Python: the reference that the operators are held against."""

from bisect import bisect
from collections import defaultdict
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

START = datetime(2024, 1, 1, tzinfo=UTC)


def at(second):
    """An event time so many seconds into the test."""
    return START + timedelta(seconds=second)


def second(time):
    """The seconds from START to `time`: what `at` was given."""
    return round((time - START) / timedelta(seconds=1))


def sliced(rows, *, size, slide, offset=0):
    """Rows by key and window; windows are half-open and aligned to the epoch, or to `offset` seconds after it."""
    groups = defaultdict(list)
    for row in rows:
        second = int((row["ts"] - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        start = second - (second - offset) % slide
        while start > second - size:
            groups[row["key"], datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + size, UTC)].append(
                row
            )
            start -= slide
    return groups


# The first dates of what a calendar has windows of.
FIRST_DATES = {
    "day": lambda day: True,
    "week": lambda day: day.weekday() == 0,
    "month": lambda day: day.day == 1,
}


def midnights(unit, zone, *, around):
    """The instants at which the dates that begin a window begin in `zone`, for some months around an instant."""
    days = [around.date() + timedelta(days=n) for n in range(-70, 71)]
    firsts = [datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC) for day in days if FIRST_DATES[unit](day)]
    return sorted(set(firsts))


def dated(rows, *, unit, zone):
    """Rows by key and window of the calendar: between one midnight and the next."""
    groups = defaultdict(list)
    for row in rows:
        edges = midnights(unit, zone, around=row["ts"])
        place = bisect(edges, row["ts"])
        groups[row["key"], edges[place - 1], edges[place]].append(row)
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


def closed(batches, *, delay):
    """For each batch its rows, and how far the windows have closed when it comes."""
    closed_to = datetime.min.replace(tzinfo=UTC)
    for rows in batches:
        yield rows, closed_to
        seen = [row["ts"] - timedelta(seconds=delay) for row in rows if row["ts"] is not None]
        closed_to = max([closed_to, *seen])


def emitted(batches, windows_of, *, delay):
    """The rows of each window in the end, and how many rows were dead (without a time) and late.

    `windows_of` gives rows by window.
    """
    groups, dead, late = defaultdict(list), 0, 0
    for rows, closed_to in closed(batches, delay=delay):
        for row in rows:
            windows = windows_of([row]) if row["ts"] is not None else {}
            still_open = [group for group in windows if group[2] > closed_to]
            dead += row["ts"] is None
            late += row["ts"] is not None and not still_open
            for group in still_open:
                groups[group].append(row)
    return groups, dead, late


def emitted_slices(batches, *, size, slide, delay, offset=0):
    """The same of windows of one size."""
    return emitted(batches, lambda rows: sliced(rows, size=size, slide=slide, offset=offset), delay=delay)


def emitted_sessions(batches, *, gap, delay):
    """The same of sessions: a row is late if the session that it would make alone has closed."""
    waiting, done, dead, late = [], {}, 0, 0
    for rows, closed_to in closed([*batches, []], delay=delay):
        found = sessions(waiting, gap=gap)
        done |= {group: of for group, of in found.items() if group[2] <= closed_to}
        waiting = [row for group, of in found.items() if group[2] > closed_to for row in of]
        for row in rows:
            dead += row["ts"] is None
            if row["ts"] is not None:
                is_late = row["ts"] + timedelta(seconds=gap) <= closed_to
                late += is_late
                waiting += [] if is_late else [row]
    return done | sessions(waiting, gap=gap), dead, late


def counted(groups):
    """What a count per group and window gives: key, start, end, count."""
    return sorted((*group, len(rows)) for group, rows in groups.items())


def windows_of(rows, name="n"):
    """The same of an operator's output."""
    return sorted((row["key"], row["start_time"], row["end_time"], row[name]) for row in rows)

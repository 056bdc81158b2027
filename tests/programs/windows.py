"""Windows over batches of rows, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tests.programs import program as p
from tests.programs.groups import aggregated, by_value, first, there

# The first event time, at which watermarks begin; and one that is more than a day ahead of any clock.
EPOCH, AHEAD = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)


def is_late(time, mark):
    """Whether the watermark has reached a time; None is where it begins."""
    return (mark or EPOCH) >= time


def is_time(step, time):
    """Whether a step takes a time: windows that fire more than once need a watermark after 1970."""
    again = step.delay if getattr(step, "firing", p.Firing()).how not in ("close", "on_window_update") else 0
    return time is not None and EPOCH + timedelta(seconds=again) <= time < AHEAD


def fired(step, batches, before, after):
    """The rows of a window's groups as `(batch, row)`, and the late rows; open windows fire at the end of input."""
    made = ORDERED.get(step.shape) or {"session": sessions, "global": whole}.get(step.shape, sliced)
    return made(step, [[row for row in rows if is_time(step, row[step.time])] for rows in batches], before, after)


def chained(step, rows):
    """The rows of a window over windows, which takes all of `rows`: their times may be before 1970."""
    made = ORDERED.get(step.shape) or {"session": sessions}.get(step.shape, sliced)
    return [row for _, row in made(step, [rows], [FIRST], [None])[0]]


def group_of(step, row):
    """The values of its group fields; null is a group."""
    return tuple(row[name] for name in step.groups)


def shown(step, group, rows, times):
    """The rows that a window emits."""
    made = dict(zip(step.groups, group, strict=True)) | aggregated(step.aggregates, rows, step.time) | times
    if step.path:
        order = sorted(rows, key=lambda row: (row[step.time], row["id"]))
        made[step.path] = " ".join(str(row["id"]) for row in order)
    made |= {each.name: OWN[each.kind](there(rows, each.field)) for each in step.own}
    return [made | each for each in first(step.top, rows)] if step.top else [made]


def timed(start, end):
    """The times of a window."""
    return {"start_time": start, "end_time": end}


# Of the values of a field, without nulls.
OWN = {
    "spread": lambda values: max(values) - min(values) if values else None,
    "mean": lambda values: 1000 * sum(values) // len(values) if values else None,
    "most": lambda values: max(values, default=None),
}


def midnight(date, zone):
    """The first instant of a date; one that the clock leaves out is the instant of the leap."""
    return datetime(date.year, date.month, date.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def calendar(step, time):
    """The day, week or month of a time in its zone."""
    date = time.astimezone(ZoneInfo(step.zone)).date()
    first = {
        "day": date,
        "week": date - timedelta(days=date.weekday()),
        "month": date.replace(day=1),
    }[step.shape]
    following = {
        "day": first + timedelta(days=1),
        "week": first + timedelta(days=7),
        "month": (first + timedelta(days=31)).replace(day=1),
    }[step.shape]
    return midnight(first, step.zone), midnight(following, step.zone)


def slices(step, time):
    """The windows of a row as pairs of times."""
    if step.shape in p.CALENDARS:
        return [calendar(step, time)]
    second, offset = (time - p.START) / timedelta(seconds=1), step.offset
    slide = step.slide if step.shape == "hopping" else step.size
    start, found = (second - offset) // slide * slide + offset, []
    while start > second - step.size:
        if step.shape == "cumulate":
            ends = range(step.slide, step.size + 1, step.slide)
            found += [(p.at(start), p.at(start + end)) for end in ends if start + end > second]
        else:
            found.append((p.at(start), p.at(start + step.size)))
        start -= slide
    return found


def sliced(step, batches, before, after):
    """Windows whose times do not depend on the rows."""
    hold, open_, made, late = timedelta(seconds=step.firing.hold), defaultdict(list), [], []
    exact = step.firing.how == "close"

    def close(batch, mark):
        for key in [key for key in open_ if mark is None or key[1][1] + hold <= mark]:
            rows = open_.pop(key)
            made.extend((batch if exact else None, row) for row in shown(step, key[0], rows, timed(*key[1])))

    for batch, rows in enumerate(judged(step, batches, before)):
        for row, mark in rows:
            windows = [w for w in slices(step, row[step.time]) if not is_late(w[1] + hold, mark)]
            if not windows:
                late.append(row)
            for window in windows:
                open_[group_of(step, row), window].append(row)
        if after[batch] is not None:
            close(batch, after[batch])
    close(len(batches), None)
    return made, late


def judged(step, batches, before):
    """The rows of each batch, each with the watermark by which it is late: that of the batch, or of the rows before."""
    if not step.by_record:
        return [[(row, mark) for row in rows] for rows, mark in zip(batches, before, strict=True)]
    passed, found = None, []
    for rows in batches:
        found.append([])
        for row in rows:
            found[-1].append((row, passed))
            mark = row[step.time] - timedelta(seconds=step.delay)
            passed = max(mark, passed or mark)
    return found


def in_sessions(step, rows):
    """The sessions of rows of one group: rows at most a gap apart belong together."""
    gap, found = timedelta(seconds=step.size), []
    for row in sorted(rows, key=lambda row: row[step.time]):
        if found and row[step.time] <= found[-1][-1][step.time] + gap:
            found[-1].append(row)
        else:
            found.append([row])
    return [(of[0][step.time], of[-1][step.time] + gap, of) for of in found]


def sessions(step, batches, before, after):
    """Sessions, which end by the watermark and never continue."""
    gap, hold = timedelta(seconds=step.size), timedelta(seconds=step.firing.hold)
    open_, made, late = defaultdict(list), [], []
    exact = step.firing.how == "close"

    def close(batch, mark):
        for group, rows in list(open_.items()):
            open_[group] = []
            for start, end, of in in_sessions(step, rows):
                if mark is not None and end + hold > mark:
                    open_[group] += of
                else:
                    made.extend((batch if exact else None, row) for row in shown(step, group, of, timed(start, end)))

    for batch, rows in enumerate(judged(step, batches, before)):
        for row, mark in rows:
            if is_late(row[step.time] + (timedelta(0) if step.by_record else gap) + hold, mark):
                late.append(row)
            else:
                open_[group_of(step, row)].append(row)
        if after[batch] is not None:
            close(batch, after[batch])
    close(len(batches), None)
    return made, late


def ordered(step, batches, before, after):
    """Windows by the order of rows in event time: so many rows, each row with those before it, or near rows."""
    groups, late, made = defaultdict(list), [], []
    for rows in judged(step, batches, before):
        for row, mark in rows:
            if is_late(row[step.time], mark):
                late.append(row)
            else:
                groups[group_of(step, row)].append(row)
    names = [*step.kept, *sorted({each.field for each in step.aggregates if each.field} - {*step.kept})]
    for group, rows in groups.items():
        rows.sort(key=lambda row: (row[step.time], [by_value(row, name) for name in names]))
        for start, end, last, part in ORDERED_PARTS[step.shape](step, rows):
            kept = {name: last[name] for name in step.kept}
            made += [(None, row | kept) for row in shown(step, group, part, timed(start, end))]
    return made, late


def from_to(step, last, part):
    """A window from the time of its first row to that of its last one."""
    return part[0][step.time], last[step.time], last, part


def counted(step, rows):
    """Each so many rows."""
    parts = [rows[at : at + step.size] for at in range(0, len(rows), step.size)]
    return [from_to(step, part[-1], part) for part in parts]


def over_rows(step, rows):
    """Each row with so many before it."""
    size = len(rows) if step.shape == "over_all" else step.size
    return [from_to(step, row, rows[max(0, at - size) : at + 1]) for at, row in enumerate(rows)]


def over_range(step, rows):
    """Each row with those of its time, and of the time before it."""
    reach = timedelta.max if step.shape == "range_all" else timedelta(seconds=step.size)
    found = []
    for row in rows:
        part = [of for of in rows if timedelta(0) <= row[step.time] - of[step.time] <= reach]
        found.append(from_to(step, row, part))
    return found


def sliding(step, rows):
    """A window that ends with each row, and one that begins a microsecond after it, if there are rows in it."""
    size, found = timedelta(seconds=step.size), []
    times = {row[step.time] for row in rows}
    for start in {time - size for time in times} | {time + timedelta(microseconds=1) for time in times}:
        part = [row for row in rows if start <= row[step.time] <= start + size]
        if part:
            found.append((start, start + size, part[-1], part))
    return found


ORDERED_PARTS = {
    "count": counted,
    "over": over_rows,
    "over_all": over_rows,
    "range": over_range,
    "range_all": over_range,
    "sliding": sliding,
}
ORDERED = dict.fromkeys(ORDERED_PARTS, ordered)


def whole(step, batches, before, after):
    """One window for all rows of a group, as a table: its rows after each batch. Groups may live for a time."""
    from tests.programs.oracle import Table

    lives = timedelta(seconds=step.size) if step.size else None
    groups, states, late = defaultdict(list), [], []
    for batch, rows in enumerate([*batches, []]):
        for row in rows:
            if lives and is_late(row[step.time] + lives, before[batch]):
                late.append(row)
            else:
                groups[group_of(step, row)].append(row)
        # The end of input ends no group.
        mark = after[batch] if lives and batch < len(batches) else None
        if mark is not None:
            last = {group: max(row[step.time] for row in of) for group, of in groups.items()}
            for group in [group for group, time in last.items() if is_late(time + lives, mark)]:
                del groups[group]
        states.append([made for group, of in groups.items() for made in shown(step, group, of, {})])
    return Table(states, step.groups), late

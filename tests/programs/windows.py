"""Windows over batches of rows, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

from tests.programs import program as p
from tests.programs.groups import aggregated, by_value, first


def is_late(time, mark):
    """Whether the watermark has reached a time; None is before all."""
    return mark is not None and mark >= time


def fired(step, batches, before, after):
    """The rows of a window's groups as `(batch, row)`, and the late rows; open windows fire at the end of input."""
    made = {"session": sessions, "count": ordered, "over": ordered, "global": whole}.get(step.shape, sliced)
    return made(step, [[row for row in rows if row[step.time] is not None] for rows in batches], before, after)


def group_of(step, row):
    """The values of its group fields; null is a group."""
    return tuple(row[name] for name in step.groups)


def shown(step, group, rows, times):
    """The rows that a window emits."""
    made = dict(zip(step.groups, group, strict=True)) | aggregated(step.aggregates, rows, step.time) | times
    if step.path:
        order = sorted(rows, key=lambda row: (row[step.time], row["id"]))
        made[step.path] = " ".join(str(row["id"]) for row in order)
    return [made | each for each in first(step.top, rows)] if step.top else [made]


def timed(start, end):
    """The times of a window."""
    return {"start_time": start, "end_time": end}


def slices(step, time):
    """The windows of a row as pairs of times."""
    second = (time - p.START) / timedelta(seconds=1)
    offset = step.slide if step.shape == "tumbling" else 0
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
    """Windows by the order of rows in event time: each so many rows, or each row with those before it."""
    groups, late, made = defaultdict(list), [], []
    for batch, rows in enumerate(batches):
        for row in rows:
            if is_late(row[step.time], before[batch]):
                late.append(row)
            else:
                groups[group_of(step, row)].append(row)
    names = [*step.kept, *sorted({each.field for each in step.aggregates if each.field} - {*step.kept})]
    for group, rows in groups.items():
        rows.sort(key=lambda row: (row[step.time], [by_value(row, name) for name in names]))
        if step.shape == "count":
            parts = [rows[at : at + step.size] for at in range(0, len(rows), step.size)]
        else:
            parts = [rows[max(0, at - step.size) : at + 1] for at in range(len(rows))]
        for part in parts:
            times = timed(part[0][step.time], part[-1][step.time])
            kept = {name: part[-1][name] for name in step.kept}
            made += [(None, row | kept) for row in shown(step, group, part, times)]
    return made, late


def whole(step, batches, before, after):
    """One window for all rows of a group, as a table: its rows after each batch."""
    from tests.programs.oracle import Table

    groups, states = defaultdict(list), []
    for rows in [*batches, []]:
        for row in rows:
            groups[group_of(step, row)].append(row)
        states.append([made for group, of in groups.items() for made in shown(step, group, of, {})])
    return Table(states, step.groups), []

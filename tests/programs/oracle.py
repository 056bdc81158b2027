"""What a program's sinks must get: plain Python, from the pages in docs, without a line of the library.

A stream is a list of `(batch, row)`: the batch in which a row is there, None where the pages leave it open. A table is
a list of its rows after each batch. The batch after the last one is the end of input.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tests.programs import program as p
from tests.programs import script_meaning, timers
from tests.programs.groups import aggregated, ranked, summed
from tests.programs.meaning import value
from tests.programs.shapes import names_after
from tests.programs.windows import chained, fired, is_late, is_time

TIMED = p.Window | p.Distinct | p.Join | p.AsOf | timers.Timers


@dataclass
class Marks:
    """The watermarks of one query: before each batch, and after it. None is before every time."""

    before: list = field(default_factory=list)
    after: list = field(default_factory=list)


class Oracle:
    """The rows of the sinks of a program."""

    def __init__(self, program):
        self.program = program
        self.steps = {step.name: step for step in program.steps}
        self.end = len(program.batches)
        self.marks = Marks()
        self.late = {}
        self.known = {}

    def sink(self, sink):
        """The rows of one sink."""
        return self.at(sink.of)

    def at(self, name):
        """The rows after the step `name`, with the watermarks of a query that ends there."""
        self.known = {}
        steps = self.upstream(name)
        points = [point for step in steps for point in self.points(step)]
        kept = any(getattr(step, "by_split", False) for step in steps)
        self.marks = self.watermarks(points, kept=kept)
        return self.rows(name)

    def upstream(self, name):
        """The steps that lead to `name`, itself included, each once."""
        found, waiting = {}, [name]
        while waiting:
            step = self.steps[waiting.pop()]
            found[step.name] = step
            waiting += step.inputs
        return found.values()

    def is_first(self, of):
        """Whether a step that reads `of` is the first one by event time in its query."""
        return not any(isinstance(each, TIMED) for each in self.upstream(of))

    def points(self, step):
        """The times of each batch that a watermark of `step` sees, less its delay: one list for each side."""
        for rows, delay in self.sides(step):
            latest = [[] for _ in range(self.end)]
            for batch, row in rows:
                time = row[getattr(step, "time", "ts")]
                if is_time(step, time):
                    latest[batch].append(cut(time - timedelta(seconds=delay)))
            yield latest

    def sides(self, step):
        """The rows that each watermark of a step sees, with its delay; none if another step has seen them."""
        if isinstance(step, p.ToTable):
            # A row without a key is a bad record, which no watermark sees.
            whole = [(batch, row) for batch, row in self.rows(step.of) if None not in map(row.get, step.keys)]
            return [(whole, 0)] if step.lives else []
        if not isinstance(step, TIMED) or (getattr(step, "shape", "") == "global" and not step.size):
            return []
        if getattr(step, "kind", "") == "any":
            return []
        if isinstance(step, p.Join) and self.is_self_join(step) and self.is_first(step.left):
            # A record counts once if any side has it.
            return [([*self.rows(step.left), *self.rows(step.right)], step.delays[0])]
        if getattr(step, "by_split", False):
            return [(rows, step.delay) for rows in self.by_source(step.of)]
        delays = getattr(step, "delays", None) or (step.delay,)
        first = [(of, delay) for of, delay in zip(step.inputs, delays, strict=True) if self.is_first(of)]
        return [(self.rows(of), delay) for of, delay in first]

    def is_self_join(self, step):
        """Whether both sides of a join come from one source."""
        left, right = ({of for of in self.upstream(of) if isinstance(of, p.Source)} for of in step.inputs)
        return bool(left & right)

    def by_source(self, name):
        """The rows of a step that come from each of its sources."""
        for source in self.upstream(name):
            if isinstance(source, p.Source):
                batches = tuple({source.name: batch.get(source.name, ())} for batch in self.program.batches)
                yield Oracle(replace(self.program, batches=batches)).rows(name)

    def watermarks(self, points, *, kept=False):
        """Of several watermarks in a query the least one counts, once all have seen a row since the last start.

        Those of splits are `kept` over starts.
        """
        marks, greatest, now = Marks(), [None] * len(points), None
        for batch in range(self.end):
            marks.before.append(now)
            for place, latest in enumerate(points):
                seen = [each for each in (greatest[place], *latest[batch]) if each is not None]
                greatest[place] = max(seen, default=None)
            if greatest and None not in greatest:
                now = max(min(greatest), now or min(greatest))
            marks.after.append(now)
            if batch == self.program.restart and not kept:
                greatest = [None] * len(points)
        return marks

    def rows(self, name):
        """The rows of a step, computed once."""
        if name not in self.known:
            step = self.steps[name]
            own = getattr(step, "of_row", None)
            made = self.each(step.of, own) if own else getattr(self, f"_{type(step).__name__.lower()}")(step)
            self.known[name] = made
        return self.known[name]

    # Steps without state.

    def _source(self, step):
        return [(n, row) for n, batch in enumerate(self.program.batches) for row in batch.get(step.name, ())]

    def each(self, name, function):
        """A stream, or each batch of a table, by a function from a row to rows."""
        rows = self.rows(name)
        if isinstance(rows, Table):
            return Table([[made for row in now for made in function(row)] for now in rows.after], rows.keys)
        return [(batch, made) for batch, row in rows for made in function(row)]

    def _filter(self, step):
        return self.each(step.of, lambda row: [row] if value(step.condition, row) else [])

    def _withfields(self, step):
        return self.each(step.of, lambda row: [row | {name: value(term, row) for name, term in step.columns}])

    def _select(self, step):
        return self.each(step.of, lambda row: [{name: row[name] for name in step.kept}])

    def _map(self, step):
        return self.each(step.of, lambda row: [{name: value(term, row) for name, term, _ in step.columns}])

    def _script(self, step):
        def made(row):
            found = script_meaning.after(step.statements, row)
            return [] if found is None else [found]

        return self.each(step.of, made)

    def _flatmap(self, step):
        names = [name for name, _ in step.kept]
        return self.each(
            step.of, lambda row: [{n: row[n] for n in names} | {"item": item} for item in row[step.items] or ()]
        )

    def _pass(self, step):
        return self.rows(step.of)

    def _branch(self, step):
        return self.each(step.of, lambda row: [row] if value(step.condition, row) is step.taken else [])

    def _union(self, step):
        return [*self.rows(step.left), *self.rows(step.right)]

    def _lookup(self, step):
        def found(rows, row):
            key = row[step.on]
            matches = [each for each in rows if key and each[0] == key and holds(row, each)]
            none = [(None, None, None)] if step.how == "left" else []
            return [row | dict(zip(("d_key", "d_tier", "d_rank"), each, strict=True)) for each in matches or none]

        def holds(row, each):
            return not step.condition or (row["n"] is not None and COMPARED[step.condition](row["n"], each[2]))

        if not step.versions:
            return self.each(step.of, lambda row: found(step.rows, row))
        return [(batch, made) for batch, row in self.rows(step.of) for made in found(step.versions[batch], row)]

    # Steps by event time.

    def _window(self, step):
        if not self.is_first(step.of) and step.shape != "global":
            return [(None, row) for row in chained(step, [row for _, row in self.rows(step.of)])]
        made, self.late[step.name] = fired(step, self.batches(step.of), self.marks.before, self.marks.after)
        return made

    def batches(self, name):
        """The rows of a step by batch."""
        found = [[] for _ in range(self.end)]
        for batch, row in self.rows(name):
            found[batch].append(row)
        return found

    def _distinct(self, step):
        found, passed, late = set(), [], []
        for batch, rows in enumerate(self.batches(step.of)):
            for row in rows:
                key = tuple(row[name] for name in step.keys)
                if not is_time(step, row[step.time]):
                    continue
                if is_late(row[step.time], self.marks.before[batch]):
                    late.append(row)
                elif key not in found:
                    found.add(key)
                    passed.append((batch, row))
        self.late[step.name] = late
        return passed

    def sided(self, step):
        """The rows of both sides that are in time: each with its batch, and the windows that are open for it."""
        for of in step.inputs:
            first, side, lag = self.is_first(of), [], self.lag(step)
            if getattr(step, "kind", "") == "any":
                yield [(batch, row, None) for batch, row in self.rows(of)]
                continue
            for batch, row in self.rows(of):
                time, mark = row[step.time], self.marks.before[batch] if first else None
                mark = mark - lag if mark is not None else None
                if not is_time(step, time):
                    continue
                if getattr(step, "kind", "interval") == "interval":
                    open_ = [] if is_late(time, mark) else [None]
                else:
                    size, slide = step.within if step.kind == "hopping" else (step.within[0], step.within[0])
                    open_ = [w for w in aligned(time, size, slide) if not is_late(w[1], mark)]
                side += [(batch, row, window) for window in open_]
            yield side

    def lag(self, step):
        """How far the watermark of a join lies back that follows another join, whose pairs may come so much later."""
        joins = [self.steps[of] for of in step.inputs if isinstance(self.steps[of], p.Join)]
        # A processor's rows need a millisecond less.
        lags = [timedelta(seconds=each.within[1], milliseconds=not each.processor) for each in joins]
        return max(lags, default=timedelta(0))

    def _join(self, step):
        left, right = self.sided(step)
        if step.early:
            return self.early(step, left, right)
        matched, pairs = (set(), set()), []
        for i, (a, one, in_one) in enumerate(left):
            for j, (b, other, in_other) in enumerate(right):
                if in_one == in_other and self.match(step, one, other):
                    matched[0].add(i)
                    matched[1].add(j)
                    batch = None if a is None or b is None else max(a, b)
                    if step.how not in ("semi", "anti"):
                        pairs.append((batch, self.pair(step, one, other, in_one)))
        sides = {"left": left * (step.how != "right"), "right": right * (step.how in ("right", "full"))}
        alone = [
            (None, self.pair(step, of, None, w)) for i, (_, of, w) in enumerate(sides["left"]) if i not in matched[0]
        ]
        alone += [
            (None, self.pair(step, None, of, w)) for j, (_, of, w) in enumerate(sides["right"]) if j not in matched[1]
        ]
        if step.how == "semi":
            return [(None, self.pair(step, left[i][1], None, left[i][2])) for i in matched[0]]
        return {"inner": pairs, "anti": alone}.get(step.how, pairs + alone)

    def early(self, step, left, right):
        """The pairs and the unmatched rows after each batch."""
        after = []
        for now in range(self.end + 1):
            ones, others = ([each for each in side if each[0] <= now] for side in (left, right))
            found = [(i, j) for i, a in enumerate(ones) for j, b in enumerate(others) if self.is_pair(step, a, b)]
            pairs = found if step.how != "anti" else []
            shown = [self.pair(step, ones[i][1], others[j][1], ones[i][2]) for i, j in pairs]
            if step.how != "right":
                matched = {i for i, _ in found}
                shown += [self.pair(step, a[1], None, a[2]) for i, a in enumerate(ones) if i not in matched]
            if step.how in ("right", "full"):
                matched = {j for _, j in found}
                shown += [self.pair(step, None, b[1], b[2]) for j, b in enumerate(others) if j not in matched]
            after.append([row | {"retracted": False} for row in shown])
        return Table(after, ())

    def is_pair(self, step, one, other):
        """Whether two rows of the sides are a pair."""
        return one[2] == other[2] and self.match(step, one[1], other[1])

    @staticmethod
    def match(step, one, other):
        """Whether two rows are a pair, but for windows."""
        # All NaN of a program are one object, and equal as keys.
        no_key = (None,) if step.empties else (None, "")
        if any(one[name] in no_key or [one[name]] != [other[of]] for name, of in step.pairs):
            return False
        if step.kind == "interval":
            before, after = (timedelta(seconds=each) for each in step.within)
            if not -before <= other[step.time] - one[step.time] <= after:
                return False
        if step.condition is None:
            return True
        names = dict(zip(("a", "b"), (step.condition[0], step.condition[2]), strict=True))
        a, b = one[names["a"]], other[names["b"]]
        return a is not None and b is not None and COMPARED[step.condition[1]](a, b)

    def pair(self, step, one, other, window):
        """The row of a pair, or of one side alone."""
        times = dict(zip(("start_time", "end_time"), window, strict=True)) if window else {}
        if step.how in ("semi", "anti"):
            return one | times
        lefts, rights = self.names_of(step.left), self.names_of(step.right)
        made = dict.fromkeys(lefts) | (one or {})
        if step.prefix:
            return made | {f"{step.prefix}{name}": (other or {}).get(name) for name in rights} | times
        return dict.fromkeys([*lefts, *rights]) | made | (other or {}) | times

    def names_of(self, name):
        """The fields of a step."""
        return names_after(self.steps, name)

    def _asof(self, step):
        left, right = self.sided(step)
        made = []
        for _, one, _ in left:
            there = [other for _, other, _ in right if self.is_before(step, one, other)]
            newest = max(there, key=lambda other: self.order(step, other), default=None)
            newest = None if newest is not None and ends(step, newest) else newest
            if newest is not None or step.how == "left":
                row = {f"r_{name}": (newest or {}).get(name) for name in self.names_of(step.right)}
                made.append((None, one | row))
        return made

    @staticmethod
    def order(step, other):
        """The newest right row is the greatest by time; of one time a row that ends none, then by its fields.

        Rows of one id are one record, with several rows of a dimension.
        """
        added = ((value is not None, value) for name, value in other.items() if name.startswith("d_"))
        return other[step.time], not ends(step, other), other["id"], *added

    @staticmethod
    def is_before(step, one, other):
        """Whether a right row may be the newest one before a left row."""
        if one[step.on] in (None, "") or one[step.on] != other[step.on]:
            return False
        age = one[step.time] - other[step.time]
        return timedelta(0) <= age and (step.tolerance is None or age <= timedelta(seconds=step.tolerance))

    # Tables.

    def _totable(self, step):
        newest, after, batches = {}, [], self.batches(step.of)
        for rows in [*batches, []]:
            for row in rows:
                order = tuple(row[name] for name in step.order)
                key = tuple(row[name] for name in step.keys)
                if None not in key and (key not in newest or order >= newest[key][0]):
                    newest[key] = order, row
            there = [row for _, row in newest.values()]
            after.append([row for row in there if step.deletes is None or not value(step.deletes, row)])
            mark = self.marks.after[min(len(after), self.end) - 1] if step.lives else None
            if mark is not None:
                lives = timedelta(seconds=step.lives)
                after[-1] = [row for row in after[-1] if row["ts"] + lives > mark]
        return Table(after, step.keys)

    def _retable(self, step):
        table = self.rows(step.of)
        names = (step.key, *step.kept)
        states = [[row for row in now if row[step.key] is not None] for now in table.after]
        return Table([[{name: row[name] for name in names} for row in now] for now in states], (step.key,))

    def _process(self, step):
        sums, made = defaultdict(lambda: [0, 0]), []
        for batch, rows in enumerate(self.batches(step.of)):
            for row in rows:
                of = sums[row[step.key]]
                of[0], of[1] = of[0] + (row[step.field] or 0), of[1] + 1
                made.append((batch, {step.key: row[step.key], "id": row["id"], "total": of[0], "rows": of[1]}))
            if step.most is not None:
                sums = defaultdict(sums.default_factory, {key: of for key, of in sums.items() if of[0] < step.most})
        return made

    def _timers(self, step):
        made, _ = timers.passed(step, self.batches(step.of), self.marks.before, self.marks.after)
        return made

    def _other(self, step):
        of = self.steps[step.of]
        return timers.passed(of, self.batches(of.of), self.marks.before, self.marks.after)[1]

    def _mapvalues(self, step):
        keys = self.rows(step.of).keys
        return self.each(
            step.of,
            lambda row: [{key: row[key] for key in keys} | {name: value(term, row) for name, term in step.columns}],
        )

    def all_rows(self, name):
        """The rows of a table, or all rows of a stream so far, after each batch."""
        rows = self.rows(name)
        if isinstance(rows, Table):
            return rows.after
        batches = self.batches(name)
        return [[row for batch in batches[: n + 1] for row in batch] for n in range(self.end + 1)]

    @staticmethod
    def grouped(states, names, made):
        """A table of what `made` makes of the rows of each group; null is in no group."""
        after = []
        for now in states:
            groups = defaultdict(list)
            for row in now:
                if all(row[name] is not None for name in names):
                    groups[tuple(row[name] for name in names)].append(row)
            after.append([dict(zip(names, key, strict=True)) | made(of) for key, of in groups.items()])
        return Table(after, names)

    def _group(self, step):
        return self.grouped(self.all_rows(step.of), step.groups, lambda of: aggregated(step.aggregates, of))

    def _reduced(self, step):
        return self.grouped(self.all_rows(step.of), (step.group,), lambda of: summed(of, step.field))

    def _cogroup(self, step):
        both = zip(self.all_rows(step.left), self.all_rows(step.right), strict=True)
        return self.grouped([[*one, *other] for one, other in both], (step.group,), lambda of: summed(of, step.field))

    def _tablejoin(self, step):
        left, right = self.rows(step.left), self.rows(step.right)
        own = [of for of, _ in step.on or zip(left.keys, right.keys, strict=True)]
        names = [name for name in self.names_of(step.right) if name not in right.keys]
        lefts = self.names_of(step.left)
        after = []
        for ones, others in zip(left.after, right.after, strict=True):
            by_key = {tuple(row[name] for name in right.keys): row for row in others}
            made, seen = [], set()
            for one in ones:
                at = tuple(one[name] for name in own)
                seen.add(at)
                other = by_key.get(at)
                if other is not None or step.how != "inner":
                    made.append(one | {name: (other or {}).get(name) for name in names})
            if step.how == "outer":
                made += [
                    dict.fromkeys(lefts) | dict(zip(left.keys, at, strict=True)) | {name: row[name] for name in names}
                    for at, row in by_key.items()
                    if at not in seen
                ]
            after.append(made)
        return Table(after, left.keys)

    def _tablepairs(self, step):
        left, right, rights = self.rows(step.left), self.rows(step.right), self.names_of(step.right)
        nothing = dict.fromkeys([*self.names_of(step.left), *map(step.shown, rights)])

        def made(one, other):
            theirs = {step.shown(name): other[name] for name in rights} if other else {}
            return nothing | theirs | (one or {})

        after = []
        for ones, others in zip(left.after, right.after, strict=True):
            found = [(i, j) for i, one in enumerate(ones) for j, other in enumerate(others) if alike(step, one, other)]
            rows = [made(ones[i], others[j]) for i, j in found]
            met = [{of[side] for of in found} for side in (0, 1)]
            rows += [made(one, None) for i, one in enumerate(ones) if i not in met[0] and step.how != "inner"]
            rows += [made(None, other) for j, other in enumerate(others) if j not in met[1] and step.how == "outer"]
            after.append(rows)
        return Table(after, tuple(dict.fromkeys((*left.keys, *map(step.shown, right.keys)))))

    def versions(self, step, batch, row):
        """The version of a table that is valid at the time of a row, of those that are known after a batch."""
        table = self.steps[step.right]
        own, key = step.on
        known = [of for rows in self.batches(table.of)[: batch + 1] for of in rows if of[key] is not None]
        there = [of for of in known if row[own] == of[key] and row["ts"] is not None and of["ts"] <= row["ts"]]
        newest = max(enumerate(there), key=lambda each: (each[1]["ts"], each[0]), default=(0, None))[1]
        ended = newest is not None and table.deletes is not None and value(table.deletes, newest)
        return None if ended else newest

    def _streamtable(self, step):
        if step.timed:
            found = [(batch, row, self.versions(step, batch, row)) for batch, row in self.rows(step.left)]
            return [
                (batch, row | {f"r_{name}": (of or {}).get(name) for name in self.names_of(step.right)})
                for batch, row, of in found
                if of is not None or step.how == "left"
            ]
        table = self.rows(step.right)
        own, key = step.on
        names = [name for name in self.names_of(step.right) if name != key]
        made = []
        for batch, row in self.rows(step.left):
            found = {each[key]: each for each in table.after[batch]}.get(row[own])
            if found is not None or step.how == "left":
                made.append((batch, row | {name: (found or {}).get(name) for name in names}))
        return made

    def _tabletop(self, step):
        rows, after = self.rows(step.of), []
        for now in rows.after:
            groups = defaultdict(list)
            for row in now:
                if row[step.group] is not None:
                    groups[row[step.group]].append(row)
            after.append([row for of in groups.values() for row in ranked(step, of, rows.keys)])
        return Table(after, rows.keys)

    def _changes(self, step):
        return self.rows(step.of)


@dataclass
class Table:
    """The rows of a table after each batch, and at the end of input."""

    after: list
    keys: tuple[str, ...]


def cut(time):
    """A time in whole milliseconds."""
    return time - timedelta(microseconds=time.microsecond % 1000)


COMPARED = {"<=": lambda a, b: a <= b, "<>": lambda a, b: a != b, ">": lambda a, b: a > b}


def alike(step, one, other):
    """Whether the fields of two rows of tables are equal; null equals nothing."""
    return all(one[name] is not None and [one[name]] == [other[of]] for name, of in step.on)


def ends(step, row):
    """Whether a right row of an as-of join ends the one before it."""
    return step.deletes is not None and value(step.deletes, row) is True


def aligned(time, size, slide):
    """The windows of one size that contain a time."""
    second = (time - p.START) / timedelta(seconds=1)
    # START is a multiple of all sizes that are drawn.
    start = second // slide * slide
    found = []
    while start > second - size:
        found.append((p.at(start), p.at(start + size)))
        start -= slide
    return found

"""Which version of a table holds what a checkpoint stands for: the answer from a history, against a plain model."""

import json
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rs_assets.connectors.delta.log.history import NO_ROWS, CannotReturn, History, strange_changes
from rs_assets.connectors.generations import Point
from rs_assets.connectors.sink import BatchMark

MARK = BatchMark("p1", 1, "rows", 0)


@dataclass
class Model:
    """A table as a list of versions, each with the rows in it; and what each point of the pipeline stands for."""

    entries: list = field(default_factory=list)
    ours: list = field(default_factory=list)  # by version: the rows of ours in it
    theirs: list = field(default_factory=list)
    point: Point = field(default_factory=lambda: Point(1, -1))
    generations: int = 1
    stands: dict = field(default_factory=lambda: {Point(1, -1): frozenset()})
    rows: int = 0
    fresh: set = field(default_factory=lambda: {1})  # generations that began with nothing, and wrote nothing yet

    def commit(self, ours, theirs, operation, parameters=None, **noted):
        entry = {"version": len(self.entries), "operation": operation, "operationParameters": parameters or {}}
        self.entries.append({**entry, **noted})
        self.ours.append(frozenset(ours))
        self.theirs.append(frozenset(theirs))

    @property
    def now(self):
        return (self.ours[-1], self.theirs[-1]) if self.entries else (frozenset(), frozenset())

    def at(self, version):
        return (self.ours[version], self.theirs[version]) if version >= 0 else (frozenset(), frozenset())

    def row(self):
        self.rows += 1
        return self.rows

    def batch(self, empty):
        self.point = self.point._replace(batch=self.point.batch + 1)
        logical = self.stands[self.point._replace(batch=self.point.batch - 1)]
        self.stands[self.point] = logical
        if empty:
            return
        new, (ours, theirs) = self.row(), self.now
        self.stands[self.point] = logical | {new}
        begins = self.point.generation in self.fresh and self.point.generation > 1
        self.fresh.discard(self.point.generation)
        noted = {"rs.writer": f"p1/g{self.point.generation}/rows", "rs.batch_id": str(self.point.batch)}
        if begins and any("rs.writer" in entry or "rs.rewound_by" in entry for entry in self.entries):
            self.commit({new}, (), "WRITE", {"mode": "Overwrite"}, **noted)
        else:
            self.commit(ours | {new}, theirs, "WRITE", {"mode": "Append"}, **noted)

    def afresh(self):
        self.generations += 1
        self.point = Point(self.generations, -1)
        self.stands[self.point] = frozenset()
        self.fresh.add(self.generations)

    def go(self, kept, keep=10_000):
        """Go to `kept` if the history (its newest `keep` entries) knows how; whether it did."""
        version = NO_ROWS
        if self.entries:
            history = History(self.entries[-keep:], MARK)
            version = history.version_for(kept)
            ours, theirs = self.at(version)
            assert ours == self.stands[kept]
            assert self.now[1] <= theirs
            self.returned(history, version, kept)
        self.generations += 1
        begun = Point(self.generations, kept.batch)
        for point, rows in list(self.stands.items()):
            if point.generation == kept.generation and point.batch <= kept.batch:
                self.stands[Point(begun.generation, point.batch)] = rows
        self.point = begun

    def returned(self, history, version, kept):
        begun = f"p1/g{self.generations + 1}/rows"
        noted = {"rs.rewound_by": begun, "rs.rewound_to": str(kept.batch)}
        noted["rs.rewound_from"] = f"p1/g{kept.generation}/rows"
        if history.same(version):
            assert self.now == self.at(version)
            self.commit(*self.now, "WRITE", {"mode": "Append"}, **noted)
        elif version == NO_ROWS:
            self.commit((), (), "WRITE", {"mode": "Overwrite"}, **noted)
        else:
            self.commit(self.ours[version], self.theirs[version], "RESTORE", {"version": str(version)}, **noted)

    def backfill(self):
        """One of the rows is computed again, of the batches up to now; refused in a table with rows of others."""
        ours, theirs = self.now
        if self.point.generation in self.fresh or theirs or not ours or ours != self.stands[self.point]:
            return
        gone, writer = min(ours), f"p1/g{self.point.generation}/rows"
        self.stands[self.point] = ours - {gone} | {self.row()}
        noted = {"rs.backfilled_by": writer, "rs.backfilled_batch": str(self.point.batch)}
        self.commit(self.stands[self.point], theirs, "WRITE", {"mode": "Append"}, **noted)

    def redrive(self):
        """A row of a dead letter is added, after the batches up to now; refused before the first of a generation."""
        (ours, theirs), writer = self.now, f"p1/g{self.point.generation}/rows"
        own = (entry.get("rs.writer") or entry.get("rs.rewound_by") for entry in reversed(self.entries))
        if next(filter(None, own), None) != writer or ours != self.stands[self.point]:
            return
        self.stands[self.point] = ours | {self.row()}
        noted = {"rs.redriven_by": writer, "rs.redriven_batch": str(self.point.batch)}
        self.commit(self.stands[self.point], theirs, "WRITE", {"mode": "Append"}, **noted)

    def others(self, what):
        if not self.entries:
            return
        ours, theirs = self.now
        if what == "append":
            self.commit(ours, theirs | {self.row()}, "WRITE", {"mode": "Append"})
        elif what == "truncate":
            self.commit((), (), "DELETE")
        elif what == "overwrite":
            self.commit((), {self.row()}, "WRITE", {"mode": "Overwrite"})
        else:
            self.commit(ours, theirs, "OPTIMIZE")

    def restore_by_hand(self, back):
        if self.entries:
            version = max(0, len(self.entries) - 1 - back)
            self.commit(self.ours[version], self.theirs[version], "RESTORE", {"version": str(version)})


def step_of(world, step, keep):
    match step:
        case ("batch", empty):
            world.batch(empty)
        case ("afresh",):
            world.afresh()
        case ("backfill",):
            world.backfill()
        case ("redrive",):
            world.redrive()
        case ("others", what):
            world.others(what)
        case ("by hand", back):
            world.restore_by_hand(back)
        case ("go", number):
            points = sorted(point for point in world.stands if point.batch >= 0)
            if points:
                world.go(points[number % len(points)], keep)


BATCH = st.tuples(st.just("batch"), st.booleans())
GO = st.tuples(st.just("go"), st.integers(0, 1000))
OURS = st.one_of(BATCH, BATCH, GO, *map(st.just, (("others", "compact"), ("afresh",), ("backfill",), ("redrive",))))
THEIRS = st.one_of(
    st.tuples(st.just("others"), st.sampled_from(["append", "truncate", "overwrite"])),
    st.tuples(st.just("by hand"), st.integers(1, 4)),
)


@given(st.lists(OURS, max_size=25))
@settings(max_examples=200, deadline=None)
@example([("batch", False)] * 4 + [("go", 2), ("go", 0), ("go", 3), ("batch", False), ("go", 1)])
@example([("batch", False), ("batch", True), ("backfill",), ("go", 1), ("go", 0)])
@example([("batch", False), ("batch", True), ("redrive",), ("batch", False), ("go", 1), ("go", 0), ("go", 4)])
def test_going_back_and_forward_always_finds_the_rows_of_the_batch(steps):
    world = Model()
    for step in steps:
        step_of(world, step, keep=10_000)


@given(st.lists(st.one_of(OURS, OURS, THEIRS), max_size=25))
@settings(max_examples=300, deadline=None)
@example([("batch", False)] * 3 + [("by hand", 2), ("batch", False), ("go", 3)])
@example([("batch", False), ("others", "overwrite"), ("batch", False), ("go", 1)])
def test_with_others_at_the_table_the_rows_are_right_or_it_is_refused(steps):
    world = Model()
    for step in steps:
        attempt(world, step, keep=10_000)


@given(st.lists(st.one_of(OURS, OURS, THEIRS), max_size=25), st.integers(1, 12))
@settings(max_examples=300, deadline=None)
@example([("batch", False), ("backfill",), ("by hand", 1), ("batch", False), ("go", 1)], 1)
@example([("batch", False), ("redrive",), ("by hand", 1), ("batch", False), ("go", 1)], 1)
def test_with_a_cleaned_log_the_rows_are_right_or_it_is_refused(steps, keep):
    world = Model()
    for step in steps:
        # No batch is written to a table that others took rows of: a start refuses it, and so does the sink.
        changes = strange_changes(History(world.entries, MARK)) if world.entries else ()
        if step[0] != "batch" or {change.kind for change in changes} <= {"removed", "edited"}:
            attempt(world, step, keep)


def attempt(world, step, keep):
    with suppress(CannotReturn):
        step_of(world, step, keep)


def written(*batches, generation=1, **others):
    return [
        {
            "version": number,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "rs.writer": f"p1/g{generation}/rows",
            "rs.batch_id": str(batch),
        }
        for number, batch in enumerate(batches)
    ]


def test_a_history_with_a_gap_is_none():
    entries = written(0, 1, 2)
    for broken in ([], [entries[0], entries[2]]):
        with pytest.raises(ValueError, match="gap"):
            History(broken, MARK)


def test_a_history_that_does_not_reach_back_is_refused_with_what_is_possible():
    with pytest.raises(CannotReturn, match="reaches back to version 3") as refused:
        History(written(0, 1, 2, 3, 4)[3:], MARK).version_for(Point(1, 2))
    assert "batch 3 of generation 1 or later" in refused.value.remedy
    assert refused.value.older


def test_rows_that_were_there_before_us_come_back_when_all_of_ours_go():
    entries = [{"version": 0, "operation": "WRITE", "operationParameters": {"mode": "Append"}}]
    entries += [entry | {"version": entry["version"] + 1} for entry in written(3, 4)]
    assert History(entries, MARK).version_for(Point(1, 2)) == 0


def test_commits_of_the_connector_inside_spark_are_known_by_their_user_metadata():
    entries = [
        {**entry, "userMetadata": json.dumps({key: entry.pop(key) for key in ("rs.writer", "rs.batch_id")})}
        for entry in written(0, 1)
    ]
    assert History(entries, MARK).version_for(Point(1, 0)) == 0


@pytest.mark.parametrize("what", ["rs.backfilled", "rs.redriven"])
def test_rows_of_a_backfill_or_redrive_that_others_undid_are_told(what):
    again = {"version": 2, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    again |= {f"{what}_by": "p1/g1/rows", f"{what}_batch": "1"}
    undone = {"version": 3, "operation": "RESTORE", "operationParameters": {"version": "1"}}
    entries = [*written(0, 1), again]
    assert list(strange_changes(History(entries, MARK))) == []
    [change] = strange_changes(History([*entries, undone], MARK))
    assert (change.version, change.kind) == (3, "restore")
    # The rows of the batch are those with the backfill or redrive.
    assert History([*entries, undone], MARK).version_for(Point(1, 1)) == 2


@pytest.mark.parametrize(
    ("later", "kinds"),
    [
        ([("OPTIMIZE", {}), ("VACUUM END", {})], []),
        ([("WRITE", {"mode": "Append"})], []),
        ([("RESTORE", {"version": "0"})], ["restore"]),
        ([("DELETE", {})], ["wiped"]),
        ([("TRUNCATE", {})], ["wiped"]),
        ([("DELETE", {"predicate": '["true"]'})], ["wiped"]),
        ([("WRITE", {"mode": "Overwrite"})], ["wiped"]),
        ([("DELETE", {"predicate": "n = 4"})], ["removed"]),
        ([("WRITE", {"mode": "Overwrite", "predicate": "n = 4"})], ["edited"]),
        ([("DELETE", {}), ("RESTORE", {"version": "1"})], []),
    ],
)
def test_what_others_did_since_our_last_commit_is_told(later, kinds):
    entries = written(0, 1)
    for operation, parameters in later:
        entries.append({"version": len(entries), "operation": operation, "operationParameters": parameters})
    assert [change.kind for change in strange_changes(History(entries, MARK))] == kinds

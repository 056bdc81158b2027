"""The state of a join as rows, what may change about it, and the letters of each side."""

import json
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from rs_assets import Time
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import RsError, TopologyChangedError
from rs_assets.operators.state.snapshot import state_at
from rs_assets.runtime.upkeep.state import snapshot_state, state_path
from tests.crash import Crash
from tests.operators.model import at
from tests.recovery.join_world import ByProcessorWorld, JoinWorld


@pytest.fixture
def world(options, tmp_path):
    return JoinWorld(options, tmp_path)


def test_rows_that_wait_are_a_table_and_a_preview_tells_who_waits(world):
    report = world.run(40)
    pipeline = world.pipeline()
    [taken] = snapshot_state(pipeline.topology, world.options)
    kept = state_at(state_path(pipeline.topology, "join", world.options.home)).to_pylist()
    assert (taken.rows, len({row["key"] for row in kept})) == (len(kept), len(kept))
    assert {tuple(json.loads(row["key"])) for row in kept} == {("side", "guard", "k", "index")}
    assert {json.loads(row["key"])["k"] for row in kept} == {None, "a", "b", "c", "d"}
    waiting = pipeline.state("join", world.options).to_pylist()
    assert len(waiting) == len(kept) == report.rows_open > 0
    alone = {(row["left"] or {}).get("v") or (row["right"] or {}).get("w") for row in waiting if not row["matched"]}
    assert {row["side"] for row in waiting} == {"left", "right"}
    assert all(row["right" if row["side"] == "left" else "left"] is None for row in waiting)
    before = world.result()
    world.run(finish=True)
    gone = [pair for pair in world.result() if pair not in before]
    assert {int(v) if v != "None" else int(w) for v, w in gone if "None" in (v, w)} == alone
    [empty] = snapshot_state(pipeline.topology, world.options)
    assert (empty.rows, world.result()) == (0, world.expected())


def test_a_processor_keeps_rows_by_key_and_time_and_a_batch_changes_those_that_it_reaches(options, tmp_path):
    world = ByProcessorWorld(options, tmp_path)
    report = world.run(40)
    topology = world.pipeline().topology
    [taken] = snapshot_state(topology, options)
    kept = state_at(state_path(topology, "join", options.home)).to_pylist()
    assert len({row["key"] for row in kept}) == len(kept) == taken.rows == report.rows_open
    places = [json.loads(row["key"])["_part"] for row in kept]
    assert {place["side"] for place in places} == {"left", "right"}
    assert len({place["since"] for place in places}) > 2
    waiting = world.pipeline().state("join", options).to_pylist()
    assert len(waiting) == sum(len(value["left"] or value["right"]) for value in (json.loads(r["value"]) for r in kept))
    assert {row["side"] for row in waiting} == {"left", "right"}
    world.append(two=[{"k": "c", "w": -5, "ts": at(80)}])
    world.run()
    [again] = snapshot_state(topology, options)
    # Its own stretch; the left rows that it meets have met others before or lie in two stretches at most.
    assert again.changed <= 4 < again.rows
    with pytest.raises(TopologyChangedError, match="kept by a processor, by time"):
        _by_spark(world).run(options)


def _by_spark(world):
    """The same join by Spark's own operator."""
    world.joined = lambda left, right, **how: JoinWorld.joined(world, left, right, **how)
    return world.pipeline()


def test_what_is_in_state_does_not_depend_on_the_steps_behind(world, monkeypatch):
    """A later version may ask for fields that nobody asked for before, and for rows that a filter dropped."""
    whole = world.pipeline
    monkeypatch.setattr(world, "pipeline", lambda: _narrow(world, whole()))
    world.run(40)
    monkeypatch.undo()
    world.run(20)
    world.run(finish=True)
    assert set(world.result()) < set(world.expected())
    assert max(int(v) for v, _ in world.result() if v != "None") == 59


def _narrow(world, pipeline):
    """The same pipeline with a filter that nothing passes behind the join."""
    nodes = tuple(
        replace(node, condition=replace(node.condition, text="v < -1")) if node.kind == "filter" else node
        for node in pipeline.topology
    )
    return replace(pipeline, topology=replace(pipeline.topology, nodes=nodes))


def test_another_join_is_refused_and_its_state_can_be_kept_or_forgotten(world):
    world.run(40)
    for changed in ({"within": Time.seconds(5)}, {"how": "left"}, {"condition": "left.v > 3"}):
        with pytest.raises(TopologyChangedError, match=r"(?s)- stream_join join.*\+ stream_join join"):
            world.pipeline(**changed).run(world.options)
    # Rows that wait are the same for each kind of join.
    before = world.result()
    world.pipeline(how="left").run(replace(world.options, keep_state=True), finish=True)
    left = [pair for pair in world.expected() if pair[0] != "None" or pair in before]
    assert world.result() == left != before
    world.pipeline(how="inner").run(replace(world.options, reset_steps=("join",)))


def test_bad_and_late_rows_are_letters_of_the_side_that_they_came_to(world):
    world.policy = "dead_letter"
    world.run(40)
    world.append(one=[{"k": "a", "v": -1, "ts": at(1)}, {"k": "a", "v": -2, "ts": None}])
    world.append(two=[{"k": "a", "w": -3, "ts": at(2)}, {"k": "a", "w": -4, "ts": at(3)}])
    report = world.run(10)
    assert (report.rows_in, report.rows_late, report.rows_dead) == (24, 3, 1)
    letters = DeltaTable(world.options.home.dead_letters).to_pyarrow_table().to_pylist()
    assert {row["step"] for row in letters} == {"join"}
    told = sorted(
        (row["split"].rsplit("/", 1)[-1].partition(".")[0], row["line"], row["reason"][:4]) for row in letters
    )
    assert told == [("one", 41, "late"), ("one", 42, "no e"), ("two", 41, "late"), ("two", 42, "late")]
    world.run(finish=True)
    assert world.result() == world.expected()


def test_a_crash_before_and_behind_a_commit_writes_every_row_once(world, monkeypatch):
    world.run(30)
    for behind in (False, True):
        with monkeypatch.context() as patched:
            Crash(patched, DeltaWriter, behind=behind)
            with pytest.raises(RsError, match="crash"):
                world.run(20)
    world.run(finish=True)
    assert world.result() == world.expected()

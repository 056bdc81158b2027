"""State as rows, as a served copy and as a preview: equal to what the windows fire later."""

import shutil
from dataclasses import replace

import pytest

from rs_assets import CalendarWindow, CumulateWindow, HoppingWindow, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.catalog import Catalog
from rs_assets.cli.rows.state_view import StateQuestion, answer
from rs_assets.common.plural import count_of
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import CheckpointError, ConfigurationError
from rs_assets.operators.state.served import ServedState
from rs_assets.operators.state.snapshot import difference, state_at
from rs_assets.runtime.upkeep.state import preview, snapshot_state, state_path
from tests.operators.model import at

SCHEMA = "page string, user string, n bigint, x double, ts timestamp"
WINDOWS = {
    "tumbling": TumblingWindow.of(Time.seconds(10), "ts"),
    "hopping": HoppingWindow.of(Time.seconds(10), Time.seconds(5), "ts"),
    "session": SessionWindow.of(Time.seconds(3), "ts"),
    "fired": TumblingWindow.of(Time.seconds(10), "ts"),
    "merging": SessionWindow.of(Time.seconds(3), "ts"),
    "days": CalendarWindow.days("Europe/Berlin", "ts"),
    "cumulating": CumulateWindow.of(Time.seconds(10), Time.seconds(5), "ts"),
    "offset": TumblingWindow.of(Time.seconds(10), "ts", offset=Time.seconds(4)),
}
# What Spark keeps in a form of its own.
UNSEEN = ("all", "different", "p50")


def rows(first, last):
    return [
        {
            "page": None if n % 5 == 0 else f"p{n % 3}",
            "user": f"u{n % 2}",
            "n": None if n % 4 == 0 else -n,
            "x": n / 4,
            "ts": at(n % 30),
        }
        for n in range(first, last)
    ]


def pipeline(channel, kind="tumbling", group_by=("page",)):
    stream = StreamBuilder.data_stream("shop", "kept").from_memory(channel).window(WINDOWS[kind]).group_by(*group_by)
    stream = stream.count("rows").sum("n", "total").distinct("n", "different").count_distinct("n", "distinctly")
    stream = stream.avg("x", "mean").min("n", "low").max("x", "high").collect("n", "all").avg("x", "same_mean")
    stream = stream.aggregate(p50="percentile_approx(n, 0.5)")
    stream = stream.emit_after(Time.seconds(5)) if kind in {"fired", "merging"} else stream
    return stream.water_mark(Time.seconds(60)).to_data_stream().to_delta("kept").build()


QUICK = [
    ("days", ("page", "user")),
    ("fired", ("page", "user")),
    ("hopping", ()),
    ("merging", ("page",)),
    ("session", ("page",)),
    ("session", ()),
]
REST = [(k, g) for k in WINDOWS for g in (("page",), ("page", "user"), ()) if (k, g) not in QUICK]


@pytest.mark.parametrize(
    ("kind", "group_by"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in REST)]
)
def test_a_preview_is_what_the_windows_fire_later(options, kind, group_by):
    from deltalake import DeltaTable

    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel, kind, group_by)
    channel.put(*rows(0, 40))
    job.run(options)
    seen = preview(job.topology, "window", options).to_pylist()
    assert all(row.pop("open") and all(row.pop(name) is None for name in UNSEEN) for row in seen)
    job.run(options, finish=True)
    fired = DeltaTable(options.home.table("shop", "kept")).to_pyarrow_table().drop_columns(list(UNSEEN)).to_pylist()
    if kind == "merging":
        assert not any(row.pop("retracted") for row in fired)
    if kind in {"fired", "merging"}:
        # At the end of input it closes without the firings until then.
        assert all(row.pop("final") and row.pop("fire_time") for row in fired)
        assert {row.pop("fire_time") - row["end_time"] for row in seen} == {Time.seconds(60)}

    def order(row):
        return str([row["start_time"], row["end_time"], *(row[name] for name in group_by)])

    assert sorted(seen, key=order) == sorted(fired, key=order)


def test_each_snapshot_is_a_version_of_a_table_and_a_copy_that_answers(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel)
    channel.put(*rows(0, 40))
    job.run(options)
    [first] = snapshot_state(job.topology, options)
    channel.put(*rows(40, 43))
    job.run(options)
    [second] = snapshot_state(job.topology, options)
    [again] = snapshot_state(job.topology, options)
    assert (first.whole, second.whole, second.changed, again.version) == (True, False, 3, second.version)
    path = state_path(job.topology, "window", options.home)
    before, after = state_at(path, first.batch_id), state_at(path)
    assert (before.num_rows, after.num_rows) == (first.rows, second.rows)
    changed = difference(before, after).to_pylist()
    assert {row["change"] for row in changed} <= {"changed", "added"}
    assert len(changed) == 3
    with ServedState(options.home.served / "shop" / "kept" / "window") as served:
        assert served.batch_id == second.batch_id
        assert served.age.total_seconds() < 60
        for row in after.to_pylist():
            assert served.get(row["key"]).value == row["value"]
        assert served.get("{}") is None
        assert {"p1" in found.key for found in served.find({"page": "p1"})} == {True}
    kinds = [row["kind"] for row in Catalog(options.home.catalog).rows("snapshots")]
    assert kinds == ["state", "state"]


@pytest.mark.canary
def test_a_question_about_snapshots_says_which_were_found_and_follows_its_keys(options, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(options.home.root))
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel)
    taken = []
    for first, last in ((0, 40), (40, 43)):
        channel.put(*rows(first, last))
        job.run(options)
        taken += snapshot_state(job.topology, options)
        channel.put(*rows(last, last + 2))
        job.run(options)
    before, now = (each.batch_id for each in taken)

    def asked(**question):
        return answer(job.topology, StateQuestion(step="window", limit=99, **question))

    said, found = asked(batch=now - 1)
    assert said == f"{count_of(taken[0].rows, 'row')} of state at batch {before} (the last snapshot up to {now - 1})"
    said, found = asked(batch=now, keys=("page=p1",))
    assert said == f"{count_of(len(found), 'row')} of state at batch {now}"
    assert {"p1" in row["key"] for row in found} == {True}
    said, found = asked(diff=before, keys=("page=null",))
    assert said == f"{count_of(len(found), 'change')} from batch {before} to now"
    assert {'"page":null' in row["key"].replace(" ", "") for row in found} == {True}
    assert {row["page"] for row in asked(open_now=True, keys=("page=p1",))[1]} == {"p1"}
    for how in ({}, {"batch": now}, {"diff": before}, {"open_now": True}):
        with pytest.raises(ConfigurationError, match="no key has the field 'pgae'") as refused:
            asked(keys=("pgae=p1",), **how)
        assert "page" in refused.value.remedy
    with pytest.raises(CheckpointError, match="no snapshot up to batch 0") as refused:
        asked(diff=0)
    assert refused.value.remedy == f"the earliest one is of batch {before}"


def test_windows_that_fired_leave_the_table_and_the_copy(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel)
    channel.put(*rows(0, 40))
    job.run(options)
    snapshot_state(job.topology, options)
    job.run(options, finish=True)
    [empty] = snapshot_state(job.topology, options)
    assert empty.rows == 0
    with ServedState(options.home.served / "shop" / "kept" / "window") as served:
        assert list(served.find({})) == []


def test_state_can_be_read_while_the_pipeline_runs(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel)
    channel.put(*rows(0, 40))
    job.run(options)
    with job.start(options):
        [taken] = snapshot_state(job.topology, replace(options, run_id="other"))
        assert taken.rows > 0


def test_damaged_state_that_cannot_be_read_is_a_finding_of_verify(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel)
    channel.put(*rows(0, 40))
    job.run(options)
    state = options.home.job("shop", "kept") / "g0001" / "window" / "checkpoint" / "state"
    shutil.move(state, state.with_name("moved"))
    with pytest.raises(CheckpointError, match="the state cannot be read") as refused:
        snapshot_state(job.topology, options)
    assert "rs-assets verify" in refused.value.remedy
    assert {finding.code for query in job.verify(options) for finding in query.found} == {"state"}
    shutil.move(state.with_name("moved"), state)
    [taken] = snapshot_state(job.topology, options)
    assert taken.rows > 0


def test_what_is_not_there_is_said(options):
    job = pipeline(MemoryChannel(schema=SCHEMA))
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        snapshot_state(job.topology, options)
    with pytest.raises(CheckpointError, match="no snapshot"):
        state_at(state_path(job.topology, "window", options.home))
    with pytest.raises(CheckpointError, match="no served copy"):
        ServedState(options.home.served / "x")

"""Rules and kills: a batch is judged by the version noted before it was computed, in every sink, however it ends."""

import json
import shutil

import pytest
from deltalake import DeltaTable

from rs_assets import Rules, StreamBuilder
from rs_assets.catalog.catalog import Catalog
from rs_assets.connectors.delta.writer import DeltaWriter
from rs_assets.errors import CheckpointError, RsError
from tests.crash import Crash


class World:
    """`run(n)` adds n rows; `rules(name)` replaces the only rule, which holds for each row."""

    def __init__(self, options, folder):
        self.options, self.count, self.log, self.table = options, 0, folder / "in.jsonl", folder / "rules.jsonl"
        self.log.write_text("")

    def rules(self, *names):
        fresh = self.table.with_suffix(".new")
        fresh.write_text("".join(json.dumps({"rule": name, "condition": "(v,>=,0)"}) + "\n" for name in names))
        fresh.rename(self.table)

    def run(self, rows=0):
        with self.log.open("a") as log:
            for _ in range(rows):
                log.write(json.dumps({"v": self.count}) + "\n")
                self.count += 1
        return self.pipeline().run(self.options)

    def pipeline(self):
        lines = StreamBuilder.data_stream("shop", "judged").from_file(self.log, schema="v bigint", tail=True)
        judged = lines.match(Rules.from_file(self.table), name="judge")
        return judged.to_delta("one").to_delta("two").build()

    def cut_short(self, monkeypatch, *, behind, name):
        with monkeypatch.context() as patched:
            Crash(patched, DeltaWriter, behind=behind, name=name)
            with pytest.raises(RsError, match="crash"):
                self.run(1)

    def result(self, table):
        rows = DeltaTable(self.options.home.table("shop", table)).to_pyarrow_table().to_pylist()
        return sorted((row["v"], *row["rules"], row["rules_version"]) for row in rows)


@pytest.fixture
def world(options, tmp_path):
    return World(options, tmp_path)


@pytest.mark.canary
def test_a_batch_that_was_cut_short_is_judged_by_the_version_noted_before(world, monkeypatch):
    """One sink has the batch, the other has not: both have the same verdicts in the end, and the catalog has both."""
    world.rules("old")
    world.run(1)
    world.cut_short(monkeypatch, behind=True, name="one_table")
    world.rules("new", "newer")
    world.run()
    world.run(1)
    assert world.result("one") == world.result("two") == [(0, "old", 1), (1, "old", 1), (2, "new", "newer", 2)]
    rows = Catalog(world.options.home.catalog).rows("dimensions", pipeline="shop.judged")
    assert [(row["step"], row["batch_id"], row["rows"]) for row in rows] == [("judge", 0, 1), ("judge", 2, 2)]


def test_a_row_is_followed_back_by_the_version_that_has_judged_it(world):
    for names in (["old"], ["new", "newer"]):
        world.rules(*names)
        world.run(1)
    found = [world.pipeline().records_of({"rules_version": n}, world.options, sink="two_table") for n in (1, 2, 3)]
    assert [[json.loads(record.text)["v"] for record in each.records] for each in found] == [[0], [1], []]
    (explained,) = world.pipeline().why(world.options, where="v = 1")
    assert [(each.step, each.outcome) for each in explained.steps[:2]] == [("file", "read"), ("judge", "passed")]


def test_a_version_that_is_gone_is_not_replaced_for_a_batch_that_it_has_judged(world, monkeypatch):
    world.rules("old")
    world.cut_short(monkeypatch, behind=True, name="one_table")
    world.rules("new")
    root = world.options.home.dimension("shop", "judged", "judge")
    shutil.rmtree(next(root.glob("v000001-*")))
    with pytest.raises(CheckpointError, match="(?s)v000001-.* is gone.*new-generation"):
        world.run()


def test_an_alert_of_a_batch_that_was_cut_short_comes_once(options, tmp_path, monkeypatch):
    """Three matches fire the rule, in a batch that one sink has and the other has not; more of them fire nothing."""
    log = tmp_path / "in.jsonl"
    rules = Rules.of([{"rule": "three", "condition": "(v,>=,0)", "having": "count >= 3 within 1 hour by who"}])

    def run(*rows):
        with log.open("a") as lines:
            lines.writelines(json.dumps({"v": 1, "who": who, "ts": ts}) + "\n" for who, ts in rows)
        read = StreamBuilder.data_stream("shop", "fired").from_file(
            log, schema="v bigint, who string, ts timestamp", tail=True
        )
        alerts = read.match(rules, form="per_match", carry=["having"], name="judge").alerts("ts")
        return alerts.to_delta("first").to_delta("second").build().run(options)

    run(("ann", "2026-01-01T10:00:00Z"), ("bob", "2026-01-01T10:01:00Z"), ("ann", "2026-01-01T10:02:00Z"))
    with monkeypatch.context() as patched:
        Crash(patched, DeltaWriter, behind=True, name="first_table")
        with pytest.raises(RsError, match="crash"):
            run(("ann", "2026-01-01T10:00:30Z"))
    run()
    run(("ann", "2026-01-01T10:59:00Z"), ("bob", "2026-01-01T10:00:00Z"), ("ann", "2026-01-01T11:00:00Z"))
    for table in ("first", "second"):
        rows = DeltaTable(options.home.table("shop", table)).to_pyarrow_table().to_pylist()
        assert [(dict(row["by"]), row["value"], row["start_time"].hour) for row in rows] == [({"who": "ann"}, 3.0, 10)]

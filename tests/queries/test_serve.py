"""Stores of pipelines on Spark: runs, crashes, returns, rescales, a running stream, and a window that updates."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.connectors.store.writer import StoreWriter
from rs_assets.errors import RsError, TopologyError
from tests.crash import Crash


class Shop:
    """A followed file of orders, and its table by id in a store."""

    def __init__(self, options, folder):
        self.options, self.file, self.table = options, folder / "orders.jsonl", {}
        self.file.write_text("")

    def pipeline(self):
        shop = StreamBuilder.data_stream("shop", "served")
        schema = "id bigint, user string, ms decimal(9,2), gone boolean"
        orders = shop.from_file(self.file, schema=schema, tail=True, name="orders")
        orders = orders.to_table("id", deletes="gone").map_values("user", "ms")
        return orders.serve("orders").build()

    def run(self, **orders):
        """A batch of orders `o1=("ann", 5)`; None removes one."""
        with self.file.open("a") as file:
            for name, order in orders.items():
                user, ms = order or (None, None)
                row = {"id": int(name[1:]), "user": user, "ms": ms, "gone": order is None}
                file.write(json.dumps(row) + "\n")
        self.table = {name: order for name, order in {**self.table, **orders}.items() if order is not None}
        return self.pipeline().run(self.options)

    def check(self):
        answer = self.pipeline().query("orders", self.options).all()
        ids = [(row["id"], row["user"], float(row["ms"])) for row in answer.rows]
        assert ids == sorted((int(name[1:]), user, float(ms)) for name, (user, ms) in self.table.items())
        return answer


@pytest.fixture
def shop(options, tmp_path):
    return Shop(options, tmp_path)


@pytest.mark.long
def test_a_store_has_the_rows_of_its_table_over_crashes_and_a_rewind(shop, monkeypatch):
    shop.run(o1=("ann", 5), o2=("bo", 7))
    assert shop.check().batch == 0
    for behind, orders in ((False, {"o1": ("bo", 5), "o3": ("cy", 1)}), (True, {"o2": None, "o3": ("cy", 2)})):
        with monkeypatch.context() as patched:
            Crash(patched, StoreWriter, behind=behind)
            with pytest.raises(RsError, match="crash"):
                shop.run(**orders)
        shop.run()
        shop.check()
    shop.pipeline().rewind(1, shop.options)
    answer = shop.pipeline().query("orders", shop.options).all()
    assert [(row["id"], row["user"]) for row in answer.rows] == [(1, "bo"), (2, "bo"), (3, "cy")]
    shop.run()
    shop.check()


@pytest.mark.long
def test_a_store_has_the_rows_of_its_table_over_a_rescale_and_a_restore(shop):
    shop.run(o1=("ann", 5), o2=("bo", 7))
    saved, table = shop.pipeline().savepoint(shop.options), dict(shop.table)
    shop.pipeline().rescale(3, shop.options)
    shop.run(o2=None, o4=("ann", 3))
    shop.check()
    shop.pipeline().restore(shop.options, savepoint_id=saved.id)
    now, shop.table = shop.table, table
    shop.check()
    shop.table = now
    shop.run()
    shop.check()


@pytest.mark.long
def test_a_lost_store_is_refused_and_a_new_generation_makes_it_again(shop):
    shop.run(o1=("ann", 5))
    shop.run(o2=("bo", 5))
    shop.options.home.store("shop", "orders").unlink()
    with pytest.raises(RsError, match="sink|store"):
        shop.run(o3=("cy", 5))
    shop.pipeline().run(replace(shop.options, new_generation=True))
    shop.check()


@pytest.mark.long
def test_windows_that_update_are_found_by_key_and_time_with_the_watermark(options, tmp_path):
    file = tmp_path / "hits.jsonl"
    rows = [
        {"user": user, "ts": f"2026-01-01T00:0{minute}:00Z"} for minute in (0, 0, 1, 2, 3) for user in ("ann", "bo")
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hits = StreamBuilder.data_stream("shop", "windows").from_file(file, schema="user string, ts timestamp", tail=True)
    windows = hits.window(TumblingWindow.of(Time.minutes(1), "ts")).group_by("user").count("n")
    pipeline = windows.serve("minutes", ["user", "start_time"]).build()
    pipeline.run(options)
    with pipeline.query("minutes", options) as store:
        first = store.windows("ann", end=datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
        assert [row["n"] for row in first.rows] == [2, 1]
        assert first.rows[0]["start_time"] == datetime(2026, 1, 1, tzinfo=UTC)
        assert first.watermark == datetime(2026, 1, 1, 0, 3, tzinfo=UTC)


def test_what_a_store_cannot_hold_is_refused(shop):
    begun = StreamBuilder.data_stream("shop", "refused").from_array([{"id": 1, "of": {"a": 1}}], name="rows")
    with pytest.raises(TopologyError, match="the name of a store must be"):
        begun.serve("a/b", "id")
    nested = StreamBuilder.data_stream("shop", "nested").from_file("a", schema="id bigint, of struct<a: int>")
    with pytest.raises(TopologyError, match="which has no order"):
        nested.serve("a", "of").build()
    begun.serve("totals", keys=["id"]).build()
    with pytest.raises(TopologyError, match="name the fields that identify a row"):
        begun.serve("totals", [])
    with pytest.raises(TopologyError, match="share the target"):
        begun.serve("a", "id", name="one").serve("a", "id", name="two").build()
    with pytest.raises(RsError, match="serves no store 'other'"):
        shop.pipeline().query("other")
    with pytest.raises(TopologyError, match="would keep rows that the table"):
        begun.to_table("id", order_by="id").to_stream().serve("a", "id").build()

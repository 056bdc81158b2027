"""Tables whose rows go when the watermark has passed them by a time to live."""

import json
import random

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time
from rs_assets.errors import TopologyError
from rs_assets.runtime.upkeep.state import snapshot_state
from tests.tables.model import Told

SCHEMA = "id bigint, user string, ms bigint, ts bigint, gone boolean"
LIVES = 10_000


def table_of(stream, **more):
    return stream.to_table("id", deletes="gone", time_field="ts", time_to_live=Time.seconds(10), **more)


def followed(schema=SCHEMA, **options):
    return StreamBuilder.data_stream("test", "living").from_file("in.jsonl", schema=schema, tail=True, **options)


def row(number, ts, user="ann", ms=1, *, gone=False):
    return {"id": number, "user": user, "ms": ms, "ts": ts, "gone": gone}


def living(rows):
    """The table after `rows`, in whatever batches: newest rows that are younger than the greatest time by `LIVES`."""
    newest = {}
    for each in rows:
        if each["id"] not in newest or each["ts"] >= newest[each["id"]]["ts"]:
            newest[each["id"]] = each
    now = max((each["ts"] for each in rows), default=0)
    return [each for each in newest.values() if not each["gone"] and each["ts"] + LIVES > now]


def history(seed, batches=6, size=30):
    """Rows in about the order of their times, some of them much too late, with gaps in which all rows go."""
    rng, clock, made = random.Random(seed), 100_000, []
    for _ in range(batches):
        clock += rng.choice([1_000, 4_000, 25_000])
        rows = []
        for _ in range(rng.randrange(size)):
            ts = clock + rng.randrange(3_000) - rng.choice([0, 0, 0, 5_000, 12_000, 60_000])
            ts += rng.choice([0, LIVES - 3_000]) * (rng.random() < 0.1)
            rows.append(
                row(rng.randrange(12), ts, rng.choice(["ann", "bo", None]), rng.randrange(9), gone=rng.random() < 0.2)
            )
        made.append(rows)
    return made


def test_time_to_live_ends_rows_that_no_newer_one_replaces(follow):
    told = follow(
        table_of(followed()).to_stream(),
        [
            [row(1, 1_000), row(2, 1_000), row(3, 6_000)],
            # 1 goes; 2 is renewed in the batch that passes it; an old row is not there at all.
            [row(9, 11_000), row(2, 5_000, ms=2), row(4, 1_000)],
        ],
        restart=False,
    )
    changes = [sorted((each["id"], each["ms"], each["retracted"]) for each in rows) for rows in told]
    assert changes[0] == [(1, 1, False), (2, 1, False), (3, 1, False)]
    assert [each for each in changes[1] if each[0] != 4] == [(1, 1, True), (2, 1, True), (2, 2, False), (9, 1, False)]
    # It may come and go with the batch that moves the watermark.
    assert [each for each in changes[1] if each[0] == 4] in ([], [(4, 1, False), (4, 1, True)])


@pytest.mark.parametrize("seed", [3, 4])
def test_time_to_live_of_a_random_history_depends_on_the_rows_alone(follow, seed):
    batches, rows, told = history(seed), [], Told()
    for batch, changes in zip(batches, follow(table_of(followed()).to_stream(), batches), strict=True):
        rows += batch
        told.add(changes)
        assert told.equals(living(rows))


def test_groups_of_a_table_with_time_to_live_lose_the_rows_that_go(follow):
    batches, rows, told = history(7), [], Told()
    totals = table_of(followed()).group_by("user").count("n").sum("ms", "total")
    for batch, changes in zip(batches, follow(totals.to_stream(), batches), strict=True):
        rows += batch
        told.add(changes)
        groups = {}
        for each in living(rows):
            if each["user"] is not None:
                groups.setdefault(each["user"], []).append(each["ms"])
        assert told.equals([{"user": user, "n": len(ms), "total": sum(ms)} for user, ms in groups.items()])


def test_tables_with_time_to_live_are_joined_and_each_loses_its_rows(follow):
    shop = StreamBuilder.data_stream("test", "joined")
    left, right = (
        table_of(shop.from_file(f"{name}.jsonl", schema=SCHEMA, tail=True, name=name), name=f"{name}_table")
        for name in ("left", "right")
    )
    batches = [{"left": one, "right": two} for one, two in zip(history(1), history(2), strict=True)]
    joined = left.map_values("ms", name="thin").join(right.map_values("ms AS other", name="beside"), how="outer")
    rows, told = {"left": [], "right": []}, Told()
    for batch, changes in zip(batches, follow(joined.to_stream(), batches), strict=True):
        for side in rows:
            rows[side] += batch[side]
        told.add(changes)
        # The query has one watermark, that of the slower side.
        now = min(max((each["ts"] for each in side), default=0) for side in rows.values())
        there = {side: {each["id"]: each["ms"] for each in at(rows[side], now)} for side in rows}
        ids = there["left"].keys() | there["right"].keys()
        assert told.equals([{"id": i, "ms": there["left"].get(i), "other": there["right"].get(i)} for i in ids])


def at(rows, now):
    """The living rows at a watermark. Each batch of both histories moves it on, so no row is older than it was."""
    newest = {}
    for each in rows:
        if each["id"] not in newest or each["ts"] >= newest[each["id"]]["ts"]:
            newest[each["id"]] = each
    return [each for each in newest.values() if not each["gone"] and each["ts"] + LIVES > now]


def test_rows_with_time_to_live_go_from_delta_and_from_state_across_restarts_and_rescales(options, tmp_path):
    file, rows = tmp_path / "in.jsonl", []
    file.write_text("")

    def pipeline():
        stream = StreamBuilder.data_stream("shop", "living").from_file(file, schema=SCHEMA, tail=True, name="orders")
        return table_of(stream).map_values("user", "ms").to_delta("orders").build()

    for number, batch in enumerate(history(11)):
        with file.open("a") as out:
            out.writelines(json.dumps(each) + "\n" for each in batch)
        rows += batch
        if number == 3:
            pipeline().rescale(3, options)
        pipeline().run(options)
        have = DeltaTable(options.home.table("shop", "orders")).to_pyarrow_table().to_pylist()
        want = [{name: each[name] for name in ("id", "user", "ms")} for each in living(rows)]
        assert sorted(have, key=lambda r: r["id"]) == sorted(want, key=lambda r: r["id"]), number
    now = max(each["ts"] for each in rows)
    (taken,) = snapshot_state(pipeline().topology, options)
    # A key that was removed is remembered as long.
    newest = {each["id"]: max(r["ts"] for r in rows if r["id"] == each["id"]) for each in rows}
    assert DeltaTable(taken.path).count() == sum(ts + LIVES > now for ts in newest.values())


def test_the_end_of_input_leaves_rows_with_time_to_live():
    rows = [row(1, 1_000), row(2, 2_000), row(1, 9_000, ms=5)]
    table = table_of(StreamBuilder.data_stream("shop", "ended").from_array(rows, schema=SCHEMA))
    assert sorted((each["id"], each["ms"]) for each in table.to_stream().preview()) == [(1, 5), (2, 1)]


def test_time_to_live_without_an_event_time_is_refused():
    with pytest.raises(TopologyError, match="no event time"):
        followed().to_table("id", time_to_live=Time.seconds(10))

"""Tables of streams: the newest row of each key, for ever or while it lives."""

import json
import random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import F, StreamBuilder, Time, TumblingWindow
from rs_assets.errors import BadRecordError, TopologyError
from rs_assets.runtime.upkeep.state import snapshot_state
from tests.tables.model import Told, histories, net, upserted

SCHEMA = "id bigint, user string, ms bigint, ratio double, gone boolean"


def source(schema=SCHEMA, **options):
    return StreamBuilder.data_stream("test", "tables").from_file("in.jsonl", schema=schema, tail=True, **options)


def test_to_table_of_rows_of_one_key_tells_the_row_that_goes_and_the_one_that_comes(follow):
    users = source("id bigint, tier string").to_table("id", deletes="tier IS NULL")
    told = follow(
        users.to_stream(),
        [
            [{"id": 1, "tier": "free"}, {"id": 2, "tier": "free"}, {"id": 1, "tier": "paid"}],
            [{"id": 1, "tier": "paid"}, {"id": 2, "tier": "gold"}, {"id": 3, "tier": None}],
            [{"id": 2, "tier": None}],
        ],
    )
    assert sorted(told[0], key=lambda row: row["id"]) == [
        {"id": 1, "tier": "paid", "retracted": False},
        {"id": 2, "tier": "free", "retracted": False},
    ]
    assert told[1] == [{"id": 2, "tier": "free", "retracted": True}, {"id": 2, "tier": "gold", "retracted": False}]
    assert told[2] == [{"id": 2, "tier": "gold", "retracted": True}]


@pytest.mark.parametrize("seed", [1, 2])
def test_to_table_of_a_random_history_equals_a_dictionary_after_each_batch(follow, seed):
    batches = histories(seed)
    table, told = {}, Told()
    for rows, changes in zip(
        batches, follow(source().to_table("id", deletes="gone").to_stream(), batches), strict=True
    ):
        before, table = table, upserted(table, rows)
        told.add(changes)
        assert told.equals(table.values())
        assert len(changes) == net(before, table)


def test_changes_that_become_a_table_again_are_aggregated_as_its_rows(follow):
    users = source("id bigint, tier string").to_table("id")
    again = users.to_stream().to_table("id", deletes="retracted", name="again")
    told = follow(
        again.group_by("tier").aggregate(n="count(*)").to_stream(),
        [
            [{"id": 1, "tier": "free"}, {"id": 2, "tier": "free"}],
            [{"id": 1, "tier": "paid"}],
            [{"id": 2, "tier": "paid"}],
        ],
    )
    rows = Told()
    for changes in told:
        rows.add(changes)
    assert rows.equals([{"tier": "paid", "n": 2}])
    assert sorted((row["tier"], row["n"], row["retracted"]) for row in told[1]) == [
        ("free", 1, False),
        ("free", 2, True),
        ("paid", 1, False),
    ]


def test_to_table_ordered_by_a_field_keeps_the_greatest_whenever_it_comes(follow):
    table = source("id bigint, v bigint, tier string").to_table("id", order_by="v", deletes="tier IS NULL")
    told = follow(
        table.to_stream(),
        [
            [{"id": 1, "v": 5, "tier": "b"}, {"id": 1, "v": 4, "tier": "a"}, {"id": 2, "v": 1, "tier": "a"}],
            [{"id": 1, "v": 3, "tier": "old"}, {"id": 2, "v": 9, "tier": None}],
            # The key is gone since 9: an older row does not bring it back, an equal or newer one does.
            [{"id": 2, "v": 8, "tier": "old"}, {"id": 1, "v": 5, "tier": "c"}],
        ],
    )
    assert [(row["id"], row["tier"], row["retracted"]) for row in told[1]] == [(2, "a", True)]
    assert [(row["id"], row["tier"], row["retracted"]) for row in told[2]] == [(1, "b", True), (1, "c", False)]


def test_to_table_with_filter_and_python_map_keeps_rows_and_retractions_together(follow):
    users = (
        source("id bigint, ms bigint").to_table("id").filter("ms > 0").map_values(_half, schema="id bigint, h double")
    )
    told = follow(
        users.to_stream(), [[{"id": 1, "ms": 4}, {"id": 2, "ms": 6}], [{"id": 1, "ms": -1}], [{"id": 2, "ms": 8}]]
    )
    assert told[1] == [{"id": 1, "h": 2.0, "retracted": True}]
    assert told[2] == [{"id": 2, "h": 3.0, "retracted": True}, {"id": 2, "h": 4.0, "retracted": False}]


def _half(row):
    return {"h": row["ms"] / 2}


def test_to_table_of_a_null_key_is_a_bad_record(follow):
    table = source("id bigint, ms bigint").to_table("id")
    with pytest.raises(BadRecordError, match="the key of the table is null: id"):
        follow(table.to_stream(), [[{"id": None, "ms": 4}]], restart=False)


def test_to_table_drops_a_null_key_where_bad_records_are_dropped(follow):
    table = source("id bigint, ms bigint", bad_records="skip").to_table("id")
    told = follow(table.to_stream(), [[{"id": None, "ms": 4}, {"id": 1, "ms": 4}]], restart=False)
    assert told == [[{"id": 1, "ms": 4, "retracted": False}]]


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def letters_of(pipeline, options, *rows):
    """What a run over `rows` reported as bad, and its dead letters: line, reason and step."""
    (options.home.root.parent / "in.jsonl").write_text(lines(*rows))
    report = pipeline.run(options)
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    return report.rows_dead, sorted((letter["line"], letter["reason"], letter["step"]) for letter in letters)


NULL_KEY = "the key of the table is null: id"


@pytest.mark.parametrize("policy", ["dead_letter", pytest.param("quarantine", marks=pytest.mark.long)])
def test_a_null_key_is_counted_and_becomes_a_dead_letter(options, policy):
    file = options.home.root.parent / "in.jsonl"
    users = StreamBuilder.data_stream("test", "letters").from_file(
        file, schema="id bigint, ms bigint", tail=True, bad_records=policy, name="users"
    )
    made = users.to_table("id").to_delta("rows").build()
    rows = [{"id": None, "ms": 1}, {"id": 1, "ms": 2}, {"ms": 3}, {"id": 1, "ms": 4}]
    assert letters_of(made, options, *rows) == (2, [(1, NULL_KEY, "table"), (3, NULL_KEY, "table")])
    assert DeltaTable(options.home.table("test", "rows")).to_pyarrow_table().to_pylist() == [{"id": 1, "ms": 4}]


def test_a_null_key_that_another_sources_policy_ends_a_run_for_names_that_source(options):
    """The source of the record has a policy already: only the other one's can be changed."""
    folder = options.home.root.parent
    stream = StreamBuilder.data_stream("test", "strictest")

    def made(policy):
        users = stream.from_file(folder / "in.jsonl", schema="id bigint", tail=True, bad_records="skip", name="users")
        bosses = folder / "more.jsonl"
        bosses = stream.from_file(bosses, schema="id bigint", tail=True, bad_records=policy, name="bosses")
        joined = users.to_table("id", name="ids").join(bosses.to_table("id", name="boss_ids"), on="id")
        return joined.to_delta("rows").build()

    (folder / "in.jsonl").write_text(lines({"id": None}, {"id": 1}))
    (folder / "more.jsonl").write_text(lines({"id": 1}))
    with pytest.raises(BadRecordError, match="the key of the table is null: id") as refused:
        made("fail").run(options)
    assert "'skip' for bosses: the strictest policy of the sources" in refused.value.remedy
    assert made("skip").run(options).rows_dead == 1


def test_a_null_key_among_changes_is_counted_when_it_comes_and_not_when_it_goes(options):
    file = options.home.root.parent / "in.jsonl"
    users = StreamBuilder.data_stream("test", "letters").from_file(
        file, schema="id bigint, boss bigint", tail=True, bad_records="skip", name="users"
    )
    changes = users.to_table("id", name="users_table").to_stream()
    bosses = changes.to_table("boss", deletes="retracted", order_by="id").map_values("id")
    made = bosses.to_stream().to_delta("rows").build()
    seen = []
    for row in ({"id": 1, "boss": None}, {"id": 1, "boss": 7}, {"id": 1, "boss": None}, {"id": 1, "boss": None}):
        with file.open("a") as content:
            content.write(lines(row))
        seen.append(made.run(options).rows_dead)
    assert seen == [1, 0, 1, 0]


def test_a_record_on_which_the_condition_of_deletions_fails_is_quarantined(options):
    file = options.home.root.parent / "in.jsonl"
    users = StreamBuilder.data_stream("test", "letters").from_file(
        file, schema="id bigint, ms bigint", tail=True, bad_records="quarantine", name="users"
    )
    made = users.to_table("id", deletes="10 / ms > 5").to_delta("rows").build()
    dead, letters = letters_of(made, options, {"id": 1, "ms": 5}, {"id": 2, "ms": 0}, {"id": 1, "ms": 4})
    assert (dead, [(line, step) for line, _, step in letters]) == (1, [(2, "table")])
    assert DeltaTable(options.home.table("test", "rows")).to_pyarrow_table().to_pylist() == [{"id": 1, "ms": 4}]


def test_a_record_on_which_a_step_before_versions_fails_is_quarantined(options):
    folder, shop = options.home.root.parent, StreamBuilder.data_stream("test", "letters")
    (folder / "sales.jsonl").write_text(lines({"item": 1, "at": 100_500}))
    prices, sales = (
        shop.from_file(folder / f"{name}.jsonl", schema=schema, tail=True, bad_records="quarantine", name=name)
        for name, schema in (("in", LIVING), ("sales", "item bigint, at bigint"))
    )
    table = prices.with_fields(half="10 / ms").to_table("id", time_field="ts", history=Time.seconds(10))
    made = sales.join_table(table, on={"item": "id"}, time_field="at").to_delta("rows").build()
    dead, letters = letters_of(made, options, beat(1, 100_000, ms=5), beat(1, 100_100, ms=0))
    assert (dead, [line for line, _, _ in letters]) == (1, [2])
    assert DeltaTable(options.home.table("test", "rows")).to_pyarrow_table()["half"].to_pylist() == [2.0]


@pytest.mark.canary
def test_a_version_without_a_key_counts_once_in_two_queries(options):
    folder, shop = options.home.root.parent, StreamBuilder.data_stream("test", "twice")
    (folder / "prices.jsonl").write_text(lines(beat(None, 100_000), beat(1, 100_000)))
    (folder / "sales.jsonl").write_text(lines({"item": 1, "at": 100_500}))
    prices, sales = (
        shop.from_file(folder / f"{name}.jsonl", schema=schema, tail=True, bad_records="dead_letter", name=name)
        for name, schema in (("prices", LIVING), ("sales", "item bigint, at bigint"))
    )
    table = prices.to_table("id", time_field="ts", history=Time.seconds(10))
    for name in ("one", "two"):
        made = sales.join_table(table, on={"item": "id"}, time_field="at", name=name).to_delta(f"{name}_rows")
    report = made.build().run(options)
    assert (report.rows_in, report.rows_dead) == (3, 1)
    assert [(each.rows_on, each.rows_dead) for each in report.queries] == [(2, 1), (2, 1)]
    letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
    assert [(each["line"], each["step"]) for each in letters] == [(1, "table_versions")]


def test_a_null_key_and_a_time_that_is_none_are_two_reasons_of_a_table_whose_rows_expire(options):
    file = options.home.root.parent / "in.jsonl"
    beats = StreamBuilder.data_stream("test", "letters").from_file(
        file, schema=LIVING, tail=True, bad_records="dead_letter", name="beats"
    )
    made = living_table(beats).to_delta("rows").build()
    rows = [beat(None, 100_000), beat(1, 100_000), beat(2, None), beat(3, 101_000)]
    dead, letters = letters_of(made, options, *rows)
    assert (dead, letters[0]) == (2, (1, NULL_KEY, "table"))
    assert [(line, step) for line, _, step in letters[1:]] == [(3, "table")]


def test_a_version_without_a_key_or_a_time_becomes_a_dead_letter(options):
    shop = StreamBuilder.data_stream("test", "letters")
    folder = options.home.root.parent
    prices = shop.from_file(
        folder / "in.jsonl", schema=LIVING, tail=True, bad_records="dead_letter", name="prices"
    ).to_table("id", time_field="ts", history=Time.seconds(10))
    (folder / "sales.jsonl").write_text(lines({"item": 1, "at": 100_500}))
    sales = shop.from_file(
        folder / "sales.jsonl", schema="item bigint, at bigint", tail=True, bad_records="dead_letter", name="sales"
    )
    made = sales.join_table(prices, on={"item": "id"}, time_field="at", how="left").to_delta("rows").build()
    rows = [beat(None, 100_000), beat(1, 100_000), beat(2, None)]
    dead, letters = letters_of(made, options, *rows)
    assert (dead, [letter[0] for letter in letters]) == (2, [1, 3])
    assert letters[0][1] == NULL_KEY


@pytest.mark.canary
def test_of_files_that_took_each_others_place_the_newest_is_read_last(options, tmp_path):
    # So the splits of a file are called that was rotated eight and nine times.
    (tmp_path / "in").mkdir()
    for name, ms in (("a.jsonl", 1), ("a.jsonl@9", 2), ("a.jsonl@10", 3)):
        (tmp_path / "in" / name).write_text(lines({"id": 1, "ms": ms, "ts": 1_000}))

    def read(job):
        stream = StreamBuilder.data_stream("test", job)
        return stream.from_file(tmp_path / "in", schema="id bigint, ms bigint, ts bigint", tail=True)

    table = read("forever").to_table("id").to_delta("forever")
    living = read("living").to_table("id", time_field="ts", time_to_live=Time.seconds(10)).to_delta("living")
    reduced = read("reduced").group_by("id").reduce(lambda value, row: {"ms": row["ms"]}, schema="ms bigint")
    for made in (table, living, reduced.to_delta("reduced")):
        made.build().run(options)
    tables = [DeltaTable(options.home.table("test", name)) for name in ("forever", "living", "reduced")]
    assert [each.to_pyarrow_table()["ms"].to_pylist() for each in tables] == [[3], [3], [3]]


def test_to_table_of_compound_keys_of_any_name(follow):
    table = source("row string, `left key` bigint, v double").to_table("row", "left key")
    told = follow(
        table.to_stream(),
        [[{"row": "a", "left key": 1, "v": 0.5}], [{"row": "a", "left key": 1, "v": 1.5}]],
    )
    assert told[1] == [
        {"row": "a", "left key": 1, "v": 0.5, "retracted": True},
        {"row": "a", "left key": 1, "v": 1.5, "retracted": False},
    ]


REFUSED = [
    (lambda: source().to_table(), "at least one field"),
    (lambda: source().to_table("nope"), "nope"),
    (lambda: source("id array<int>").to_table("id"), "not a plain value"),
    (lambda: source().to_table("id", deletes="ms"), "not a boolean"),
    (lambda: source().to_table("id", deletes="CAST(ms AS INT)"), "is int, not a condition"),
    (lambda: source().to_table("id").filter("rand() > 0.5"), "would differ"),
    (lambda: source().to_table("id").filter("rand(7) > 0.5"), "would differ"),
    (lambda: source().to_table("id").with_fields(any="shuffle(array(ms, 1))"), "would differ"),
    (lambda: source().to_table("id").filter("unix_timestamp() > ms"), "would differ"),
    (lambda: source().to_table("id").with_fields(today="curdate()"), "would differ"),
    (lambda: source().to_table("id").filter(F.rand() > F.col("ratio")), "would differ"),
    (lambda: source().to_table("id").with_fields(id="1"), "would change the key"),
    (lambda: source().to_table("id").with_fields(ID="1"), "would change the key"),
    (
        lambda: source().to_table("id").to_stream().window(TumblingWindow.of(Time.minutes(1))).count().to_data_stream(),
        "would count retractions",
    ),
    (lambda: source().to_table("id").to_stream().to_delta("t", mode="upsert", keys=["id"]), "would keep rows"),
    (
        lambda: StreamBuilder.data_stream("test", "whole").from_file("in.jsonl", schema=SCHEMA).to_table("id"),
        "no order of reading",
    ),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_to_table_refuses_what_would_give_wrong_rows(make, why):
    def built():
        made = make()
        made = made.to_stream() if hasattr(made, "to_stream") else made
        return made.to_print().build()

    with pytest.raises(TopologyError, match=why):
        built()


def test_to_table_of_files_that_are_read_whole_takes_the_greatest_by_its_order(options, tmp_path):
    file = tmp_path / "whole.jsonl"
    file.write_text('{"id": 1, "v": 5}\n{"id": 1, "v": 7}\n{"id": 2, "v": 1}\n{"id": 1, "v": 6}\n')
    stream = StreamBuilder.data_stream("test", "whole").from_file(file, schema="id bigint, v bigint")
    stream.to_table("id", order_by="v").to_delta("newest").build().run(options)
    rows = DeltaTable(options.home.table("test", "newest")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["v"]) for row in rows) == [(1, 7), (2, 1)]


LIVING = "id bigint, user string, ms bigint, ts bigint, gone boolean"
LIVES = 10_000


def living_table(stream, **more):
    return stream.to_table("id", deletes="gone", time_field="ts", time_to_live=Time.seconds(10), **more)


def living_source(schema=LIVING, **options):
    return StreamBuilder.data_stream("test", "living").from_file("in.jsonl", schema=schema, tail=True, **options)


def beat(number, ts, user="ann", ms=1, *, gone=False):
    return {"id": number, "user": user, "ms": ms, "ts": ts, "gone": gone}


def alive(rows, now=None):
    """The table after `rows`, in whatever batches: newest rows that are younger than the watermark by `LIVES`.

    The watermark is `now`, or their greatest time.
    """
    newest = {}
    for each in rows:
        if each["id"] not in newest or each["ts"] >= newest[each["id"]]["ts"]:
            newest[each["id"]] = each
    now = max((each["ts"] for each in rows), default=0) if now is None else now
    return [each for each in newest.values() if not each["gone"] and each["ts"] + LIVES > now]


def beats(seed, batches=6, size=30):
    """Rows in about the order of their times, some of them much too late, with gaps in which all rows go."""
    rng, clock, made = random.Random(seed), 100_000, []
    for _ in range(batches):
        clock += rng.choice([1_000, 4_000, 25_000])
        rows = []
        for _ in range(rng.randrange(size)):
            ts = clock + rng.randrange(3_000) - rng.choice([0, 0, 0, 5_000, 12_000, 60_000])
            ts += rng.choice([0, LIVES - 3_000]) * (rng.random() < 0.1)
            rows.append(
                beat(rng.randrange(12), ts, rng.choice(["ann", "bo", None]), rng.randrange(9), gone=rng.random() < 0.2)
            )
        made.append(rows)
    return made


def test_time_to_live_ends_rows_that_no_newer_one_replaces(follow):
    told = follow(
        living_table(living_source()).to_stream(),
        [
            [beat(1, 1_000), beat(2, 1_000), beat(3, 6_000)],
            # 1 goes; 2 is renewed in the batch that passes it; an old one changes nothing.
            [beat(9, 11_000), beat(2, 5_000, ms=2), beat(4, 1_000)],
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
    batches, rows, told = beats(seed), [], Told()
    for batch, changes in zip(batches, follow(living_table(living_source()).to_stream(), batches), strict=True):
        rows += batch
        told.add(changes)
        assert told.equals(alive(rows))


def test_groups_of_a_table_with_time_to_live_lose_the_rows_that_go(follow):
    batches, rows, told = beats(7), [], Told()
    totals = living_table(living_source()).group_by("user").count("n").sum("ms", "total")
    for batch, changes in zip(batches, follow(totals.to_stream(), batches), strict=True):
        rows += batch
        told.add(changes)
        groups = {}
        for each in alive(rows):
            if each["user"] is not None:
                groups.setdefault(each["user"], []).append(each["ms"])
        assert told.equals([{"user": user, "n": len(ms), "total": sum(ms)} for user, ms in groups.items()])


def test_tables_with_time_to_live_are_joined_and_each_loses_its_rows(follow):
    shop = StreamBuilder.data_stream("test", "joined")
    left, right = (
        living_table(shop.from_file(f"{name}.jsonl", schema=LIVING, tail=True, name=name), name=f"{name}_table")
        for name in ("left", "right")
    )
    batches = [{"left": one, "right": two} for one, two in zip(beats(1), beats(2), strict=True)]
    joined = left.map_values("ms", name="thin").join(right.map_values("ms AS other", name="beside"), how="outer")
    rows, told = {"left": [], "right": []}, Told()
    for batch, changes in zip(batches, follow(joined.to_stream(), batches), strict=True):
        for side in rows:
            rows[side] += batch[side]
        told.add(changes)
        # The query has one watermark, that of the slower side, which each batch moves on.
        now = min(max((each["ts"] for each in side), default=0) for side in rows.values())
        there = {side: {each["id"]: each["ms"] for each in alive(rows[side], now)} for side in rows}
        ids = there["left"].keys() | there["right"].keys()
        assert told.equals([{"id": i, "ms": there["left"].get(i), "other": there["right"].get(i)} for i in ids])


def test_rows_with_time_to_live_go_from_delta_and_from_state_across_restarts_and_rescales(options, tmp_path):
    file, rows = tmp_path / "in.jsonl", []
    file.write_text("")

    def pipeline():
        stream = StreamBuilder.data_stream("shop", "living").from_file(file, schema=LIVING, tail=True, name="orders")
        return living_table(stream).map_values("user", "ms").to_delta("orders").build()

    for number, batch in enumerate(beats(11)):
        with file.open("a") as out:
            out.writelines(json.dumps(each) + "\n" for each in batch)
        rows += batch
        if number == 3:
            pipeline().rescale(3, options)
        pipeline().run(options)
        have = DeltaTable(options.home.table("shop", "orders")).to_pyarrow_table().to_pylist()
        want = [{name: each[name] for name in ("id", "user", "ms")} for each in alive(rows)]
        assert sorted(have, key=lambda r: r["id"]) == sorted(want, key=lambda r: r["id"]), number
    now = max(each["ts"] for each in rows)
    (taken,) = snapshot_state(pipeline().topology, options)
    # A key that was removed is remembered as long.
    newest = {each["id"]: max(r["ts"] for r in rows if r["id"] == each["id"]) for each in rows}
    assert DeltaTable(taken.path).count() == sum(ts + LIVES > now for ts in newest.values())


def test_the_end_of_input_leaves_rows_with_time_to_live():
    rows = [beat(1, 1_000), beat(2, 2_000), beat(1, 9_000, ms=5)]
    table = living_table(StreamBuilder.data_stream("shop", "ended").from_array(rows, schema=LIVING))
    assert sorted((each["id"], each["ms"]) for each in table.to_stream().preview()) == [(1, 5), (2, 1)]


def test_time_to_live_without_an_event_time_is_refused():
    with pytest.raises(TopologyError, match="no event time"):
        living_source().to_table("id", time_to_live=Time.seconds(10))


def test_to_table_of_a_change_feed_takes_the_row_that_comes_in_the_commit_that_removes_it(options):
    """A table that was replaced has both in one version; the greater row won, also if it was the one that went."""
    place = options.home.table("test", "cur")
    rows = pa.table({"id": [1, 2, 3], "ms": [5, 5, 5]})
    write_deltalake(place, rows, configuration={"delta.enableChangeDataFeed": "true"})
    feed = StreamBuilder.data_stream("test", "copy").from_delta(str(place), changes=True, name="feed")
    table = feed.filter("_change_type <> 'update_preimage'").to_table(
        "id", order_by="_commit_version", deletes="_change_type = 'delete'"
    )
    copy = table.map_values("ms").to_delta("copy").build()
    copy.run(options)
    write_deltalake(place, pa.table({"id": [1, 2], "ms": [9, 1]}), mode="overwrite")
    copy.run(options)
    found = DeltaTable(options.home.table("test", "copy")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["ms"]) for row in found) == [(1, 9), (2, 1)]

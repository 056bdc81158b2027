"""Tables of streams: the newest row of each key."""

import pytest
from deltalake import DeltaTable

from rs_assets import StreamBuilder, Time, TumblingWindow
from rs_assets.errors import BadRecordError, TopologyError
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
    (lambda: source().to_table("id").filter("rand() > 0.5"), "would differ"),
    (lambda: source().to_table("id").filter("rand(7) > 0.5"), "would differ"),
    (lambda: source().to_table("id").with_fields(any="shuffle(array(ms, 1))"), "would differ"),
    (lambda: source().to_table("id").with_fields(id="1"), "would change the key"),
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

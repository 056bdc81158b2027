"""Tables as Kafka Streams documents its own: the timelines of its joins and of a changed grouping, record by record.

The records and results are those of the developer guide of Kafka Streams 4.1 (Apache License 2.0), "Joining" and
"Aggregating" of https://kafka.apache.org/41/streams/developer-guide/dsl-api. Each record is a batch.
"""

from rs_assets import StreamBuilder
from rs_assets.testing import PipelineDriver

LEFT, RIGHT = "left", "right"
# The record of a side, its value or a tombstone, and what each join has for the key afterwards; None for no row.
JOINS = [
    (LEFT, None, None, None, None),
    (RIGHT, None, None, None, None),
    (LEFT, "A", None, "A,-", "A,-"),
    (RIGHT, "a", "A,a", "A,a", "A,a"),
    (LEFT, "B", "B,a", "B,a", "B,a"),
    (RIGHT, "b", "B,b", "B,b", "B,b"),
    (LEFT, None, None, None, "-,b"),
    (RIGHT, None, None, None, None),
    (LEFT, "C", None, "C,-", "C,-"),
    (RIGHT, "c", "C,c", "C,c", "C,c"),
    (RIGHT, None, None, "C,-", "C,-"),
    (LEFT, None, None, None, None),
    (RIGHT, None, None, None, None),
    (RIGHT, "d", None, None, "-,d"),
    (LEFT, "D", "D,d", "D,d", "D,d"),
]
# Of a stream with a table: a record of the stream gives a row at once, one of the table gives none.
STREAM_JOINS = [
    (LEFT, "A", None, "A,-"),
    (RIGHT, "a", None, None),
    (LEFT, "B", "B,a", "B,a"),
    (RIGHT, "b", None, None),
    (RIGHT, None, None, None),
    (LEFT, "C", None, "C,-"),
    (RIGHT, "d", None, None),
    (LEFT, "D", "D,d", "D,d"),
]
# The region of a user, and the letters of the names in each region afterwards. Kafka Streams keeps a region that has
# lost its last user with 0; here a group without rows has no row.
REGIONS = [
    ("alice", "E", {"E": 5}),
    ("bob", "A", {"E": 5, "A": 3}),
    ("charlie", "A", {"E": 5, "A": 10}),
    ("alice", "A", {"A": 15}),
    ("charlie", "C", {"A": 8, "C": 7}),
    ("bob", None, {"A": 5, "C": 7}),
    ("kate", "E", {"A": 5, "C": 7, "E": 4}),
]


def tables():
    start = StreamBuilder.data_stream("test", "streams")
    sides = (
        start.from_file(f"{side}.jsonl", schema=f"k string, {side}_value string", tail=True, name=side)
        for side in (LEFT, RIGHT)
    )
    return tuple(sides)


def table(stream, side):
    return stream.to_table("k", deletes=f"{side}_value IS NULL", name=f"{side}_table")


def shown(row):
    return f"{row['left_value'] or '-'},{row['right_value'] or '-'}"


def test_joins_of_tables_follow_the_documented_timeline(driver):
    left, right = tables()
    one, other = table(left, LEFT), table(right, RIGHT)
    kinds = ("inner", "left", "outer")
    for how in kinds:
        stream = (
            one.join(other, how=how, name=f"{how}_join").to_stream(name=f"{how}_changes").to_print(name=f"{how}_out")
        )
    current = dict.fromkeys(kinds)
    with PipelineDriver(stream.build(), spark=driver) as pipeline:
        for number, (side, value, *results) in enumerate(JOINS):
            pipeline.push([{"k": "k", f"{side}_value": value}], side)
            pipeline.step()
            for how, result in zip(kinds, results, strict=True):
                changes = pipeline.take(f"{how}_out")
                came = [shown(row) for row in changes if not row["retracted"]]
                gone = [shown(row) for row in changes if row["retracted"]]
                before, current[how] = current[how], result
                expected = ([result] if result else [], [before] if before else [])
                assert (came, gone) == (([], []) if before == result else expected), (number, how)


def test_a_join_of_a_stream_with_a_table_follows_the_documented_timeline(driver):
    left, right = tables()
    other = table(right, RIGHT)
    for how in ("inner", "left"):
        stream = left.join_table(other, on="k", how=how, name=f"{how}_join").to_print(name=f"{how}_out")
    with PipelineDriver(stream.build(), spark=driver) as pipeline:
        for number, (side, value, *results) in enumerate(STREAM_JOINS):
            pipeline.push([{"k": "k", f"{side}_value": value}], side)
            pipeline.step()
            for how, result in zip(("inner", "left"), results, strict=True):
                assert list(map(shown, pipeline.take(f"{how}_out"))) == ([result] if result else []), (number, how)


def test_a_row_that_changes_its_group_is_subtracted_and_added(driver):
    users = StreamBuilder.data_stream("test", "regions").from_file(
        "users.jsonl", schema="name string, region string", tail=True, name="users"
    )
    lengths = users.to_table("name", deletes="region IS NULL").with_fields(letters="length(name)")
    stream = lengths.group_by("region").sum("letters").to_stream().to_print()
    current = {}
    with PipelineDriver(stream.build(), spark=driver) as pipeline:
        for name, region, expected in REGIONS:
            pipeline.push([{"name": name, "region": region}], "users")
            pipeline.step()
            changes = pipeline.take()
            for row in sorted(changes, key=lambda row: not row["retracted"]):
                if row["retracted"]:
                    assert current.pop(row["region"]) == row["letters"]
                else:
                    current[row["region"]] = row["letters"]
            assert current == expected


# A key of the left side with its foreign key, or a row of the right side; and what the joins have afterwards.
FOREIGN = [
    (LEFT, "k", "1", {}, {"k": "1,-"}),
    (RIGHT, "1", "foo", {"k": "1,foo"}, {"k": "1,foo"}),
    (LEFT, "k", "2", {}, {"k": "2,-"}),
    (LEFT, "k", "3", {}, {"k": "3,-"}),
    (RIGHT, "3", "bar", {"k": "3,bar"}, {"k": "3,bar"}),
    (LEFT, "k", None, {}, {}),
    (LEFT, "k", "1", {"k": "1,foo"}, {"k": "1,foo"}),
    (LEFT, "q", "10", {"k": "1,foo"}, {"k": "1,foo", "q": "10,-"}),
    (RIGHT, "10", "baz", {"k": "1,foo", "q": "10,baz"}, {"k": "1,foo", "q": "10,baz"}),
    (RIGHT, "1", None, {"q": "10,baz"}, {"k": "1,-", "q": "10,baz"}),
]


def test_joins_by_a_foreign_key_follow_the_documented_timeline(driver):
    left, right = tables()
    one, other = table(left, LEFT), table(right, RIGHT)
    kinds = ("inner", "left")
    for how in kinds:
        joined = one.join(other, on={"left_value": "k"}, how=how, name=f"{how}_join")
        stream = joined.to_stream(name=f"{how}_changes").to_print(name=f"{how}_out")
    current = {how: {} for how in kinds}
    with PipelineDriver(stream.build(), spark=driver) as pipeline:
        for number, (side, key, value, *results) in enumerate(FOREIGN):
            pipeline.push([{"k": key, f"{side}_value": value}], side)
            pipeline.step()
            for how, result in zip(kinds, results, strict=True):
                for row in sorted(pipeline.take(f"{how}_out"), key=lambda row: not row["retracted"]):
                    if row["retracted"]:
                        assert current[how].pop(row["k"]) == shown(row)
                    else:
                        current[how][row["k"]] = shown(row)
                assert current[how] == result, (number, how)


# What a `KStream` without a cache emits for a record: of `count` and of `reduce` by a sum; None for nothing.
AGGREGATED = [
    ("a", 1, 1, 1),
    ("b", 2, 1, 2),
    (None, 3, None, None),
    ("a", None, None, None),
    ("a", 4, 2, 5),
    ("b", 0, 2, 2),
]


def test_aggregates_of_a_stream_emit_what_is_documented_for_each_record(driver):
    rows = StreamBuilder.data_stream("test", "aggregated").from_file("a.jsonl", schema="k string, v bigint", tail=True)
    groups = rows.filter("v IS NOT NULL").group_by("k")

    def total(value, row):
        return {"total": (value["total"] if value else 0) + row["v"]}

    groups.count("n").to_table(name="counted").to_stream(name="counts").to_print(name="count")
    table = groups.reduce(total, schema="total bigint", name="summed")
    with PipelineDriver(table.to_stream(name="sums").to_print(name="sum").build(), spark=driver) as pipeline:
        for number, (key, value, *results) in enumerate(AGGREGATED):
            pipeline.push([{"k": key, "v": value}])
            pipeline.step()
            made = [[row for row in pipeline.take(sink) if not row["retracted"]] for sink in ("count", "sum")]
            before = [after[2:] for after in AGGREGATED[:number] if after[0] == key and after[1] is not None][-1:]
            # A sum that stays the same is no change here.
            wanted = [None if before and before[0][at] == each else each for at, each in enumerate(results)]
            assert [(rows and (rows[0]["k"], *list(rows[0].values())[1:-1])) or None for rows in made] == [
                each and (key, each) for each in wanted
            ], number


# A record of `filter("v > 0")` of a table, whether a row comes, and whether one goes.
FILTERED = [("a", 1, True, False), ("a", 2, True, True), ("a", -1, False, True), ("a", -2, False, False)]
FILTERED += [("a", 3, True, False), ("a", None, False, True), ("a", None, False, False), ("b", -1, False, False)]


def test_a_filter_of_a_table_emits_what_is_documented_for_each_record(driver):
    rows = StreamBuilder.data_stream("test", "filtered").from_file("a.jsonl", schema="k string, v bigint", tail=True)
    table = rows.to_table("k", deletes="v IS NULL").filter("v > 0").map_values("v * 10 AS tens")
    with PipelineDriver(table.to_stream().to_print().build(), spark=driver) as pipeline:
        for number, (key, value, comes, goes) in enumerate(FILTERED):
            pipeline.push([{"k": key, "v": value}])
            pipeline.step()
            changes = sorted(pipeline.take(), key=lambda row: row["retracted"])
            assert [row["retracted"] for row in changes] == [False] * comes + [True] * goes, number
            assert not comes or changes[0] == {"k": key, "tens": value * 10, "retracted": False}


# A record of one of two streams, and the value of its key afterwards; an order of 0 removes it.
COGROUPED = [
    ("clicks", "a", 1, "1 0"),
    ("orders", "a", 5, "1 5"),
    ("orders", None, 5, None),
    ("clicks", "b", 1, "1 0"),
    ("orders", "a", 0, None),
    ("clicks", "a", 1, "1 0"),
]


def test_a_cogroup_emits_what_is_documented_for_each_record(driver):
    start = StreamBuilder.data_stream("test", "cogrouped")
    clicks, orders = (
        start.from_file(f"{name}.jsonl", schema="k string, v bigint", tail=True, name=name)
        for name in ("clicks", "orders")
    )

    def clicked(key, row, value):
        return {**value, "clicks": value["clicks"] + row["v"]}

    def ordered(key, row, value):
        return {**value, "spent": value["spent"] + row["v"]} if row["v"] else None

    both = clicks.group_by("k").cogroup(clicked).cogroup(orders.group_by("k"), ordered)
    table = both.aggregate(schema="clicks bigint, spent bigint", initial=lambda: {"clicks": 0, "spent": 0})
    current = {}
    with PipelineDriver(table.to_stream().to_print().build(), spark=driver) as pipeline:
        for number, (source, key, value, result) in enumerate(COGROUPED):
            pipeline.push([{"k": key, "v": value}], source)
            pipeline.step()
            for row in sorted(pipeline.take(), key=lambda row: not row["retracted"]):
                text = f"{row['clicks']} {row['spent']}"
                if row["retracted"]:
                    assert current.pop(row["k"]) == text
                else:
                    current[row["k"]] = text
            assert current.get(key) == result, number

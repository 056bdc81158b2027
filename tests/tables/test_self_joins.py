"""A table joined with itself, which is read once, against dictionaries."""

import random

import pytest

from rs_assets import StreamBuilder
from rs_assets.errors import TopologyError
from tests.tables.model import Told

SCHEMA = "id bigint, boss bigint, pay bigint, gone boolean"
FIELDS = ("id", "boss", "pay")


def staff_of():
    shop = StreamBuilder.data_stream("test", "self")
    rows = shop.from_file("staff.jsonl", schema=SCHEMA, tail=True, name="rows")
    return rows.to_table("id", deletes="gone", name="staff").map_values("boss", "pay")


def histories(seed, batches=4):
    rng = random.Random(seed)

    def row():
        boss = rng.choice([None, *range(8)])
        return {"id": rng.randrange(8), "boss": boss, "pay": rng.randrange(3), "gone": rng.random() < 0.25}

    return [{"rows": [row() for _ in range(rng.randrange(12))]} for _ in range(batches)]


def after(staff, batch):
    staff = dict(staff)
    for row in batch["rows"]:
        staff.pop(row["id"], None)
        if not row["gone"]:
            staff[row["id"]] = {field: row[field] for field in FIELDS}
    return staff


def pairs_of(left, right, on, how):
    """The rows of the join, of which right fields begin with b_."""
    (own, theirs) = on
    found, met = [], set()
    nothing = dict.fromkeys(FIELDS)
    for one in left:
        partners = [other for other in right if one[own] is not None and one[own] == other[theirs]]
        met |= {other["id"] for other in partners}
        others = partners or [nothing] * (how != "inner")
        found += [one | {f"b_{name}": value for name, value in other.items()} for other in others]
    if how == "outer":
        found += [nothing | {f"b_{name}": of for name, of in row.items()} for row in right if row["id"] not in met]
    return found


CASES = [
    *((how, ("boss", "id")) for how in ("inner", "left", "outer")),
    *((how, ("pay", "pay")) for how in ("inner", "left", "outer")),
    *((how, ("id", "id")) for how in ("inner", "left")),
]
QUICK = [("left", ("boss", "id"), "none"), ("outer", ("pay", "pay"), "both")]
SLOW = [(how, on, steps) for how, on in CASES for steps in ("none", "both") if (how, on, steps) not in QUICK]


@pytest.mark.parametrize(
    ("how", "on", "steps"), [*QUICK, *(pytest.param(*case, marks=pytest.mark.long) for case in SLOW)]
)
def test_a_table_joined_with_itself_equals_dictionaries_after_each_batch(follow, how, on, steps):
    staff = staff_of()
    left, right = staff, staff
    if steps == "both":
        left, right = staff.filter("pay < 2", name="low"), staff.with_fields(pay="pay + 1").filter("pay > 1")
    made = left.join(right, on=dict([on]), how=how, prefix="b_")
    batches, rows, told, expected = histories(f"{how} {on} {steps}"), {}, Told(), []
    for batch, changes in zip(batches, follow(made.to_stream(), batches), strict=True):
        rows = after(rows, batch)
        ones = others = list(rows.values())
        if steps == "both":
            ones = [row for row in ones if row["pay"] < 2]
            others = [more for row in others if (more := row | {"pay": row["pay"] + 1})["pay"] > 1]
        expected = pairs_of(ones, others, on, how)
        told.add(changes)
        assert told.equals(expected)


def test_two_tables_of_one_source_are_refused_with_what_computes_them():
    def with_sizes(second):
        shop = StreamBuilder.data_stream("test", "twice")
        rows = {
            name: shop.from_file("staff.jsonl", schema=SCHEMA, tail=True, name=name) for name in {"rows": 0, second: 0}
        }
        sizes = rows[second].to_table("id", name="again").group_by("boss").count("n").to_table(name="sizes")
        return rows["rows"].to_table("id", name="staff").join(sizes, on={"boss": "boss"}, name="both")

    with pytest.raises(TopologyError, match=r"(?s)both sides of the join 'both' come from step 'rows'.*source twice"):
        with_sizes("rows").to_delta("out").build()
    assert with_sizes("rows_again").to_delta("out").build()

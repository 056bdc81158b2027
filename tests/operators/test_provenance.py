"""What each column is said to be made of, held against what it really depends on: an input is changed, and compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from rs_assets import Dimension, EventTimePartitions, SessionWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.provenance import ANY, Fields, fields_of, provenance
from rs_assets.stream.pipeline import Pipeline
from rs_assets.testing import PipelineDriver
from tests.operators.model import at

# `variant` tells the runs of the experiment apart, and is never changed itself.
SCHEMA = "variant int, id bigint, a bigint, b bigint, c bigint, s string, k string, ts timestamp, o struct<a: bigint>"
COLUMNS = [part.strip().split()[0] for part in SCHEMA.split(",")][1:]
ROWS = [
    {"id": n, "a": n, "b": 10 * n, "c": 7 - n, "s": f"s{n}", "k": "x", "ts": at(600 + n), "o": {"a": n}}
    for n in range(1, 4)
]
CHANGES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("id", "a", "b", "c"), lambda value: value + 1000),
    "s": lambda value: f"{value}!",
    "k": lambda _: "y",
    "ts": lambda value: value + timedelta(hours=1),
    "o": lambda value: {"a": value["a"] + 500},
}


def source(name: str = "rows", job: str = "made"):
    return StreamBuilder.data_stream("test", job).from_file(f"{name}.jsonl", schema=SCHEMA, name=name)


def variants(changed: Iterable[str] = COLUMNS) -> Iterator[dict[str, Any]]:
    """The rows as they are, as variant 0, and again with each of the columns changed."""
    for number, column in enumerate(["", *changed]):
        for row in ROWS:
            made = {name: CHANGES[name](value) if name == column else value for name, value in row.items()}
            yield {"variant": number, **made}


def dependent(taken: list[dict[str, Any]], changed: list[str]) -> dict[str, set[str]]:
    """For each column those inputs whose change has changed its values, where there are as many rows as before."""
    of = [[row for row in taken if row["variant"] == number] for number in range(len(changed) + 1)]
    assert of[0], "the case gives no rows"
    return {
        column: {
            name
            for name, rows in zip(changed, of[1:], strict=True)
            if len(rows) == len(of[0]) and values(rows, column) != values(of[0], column)
        }
        for column in of[0][0]
        if not column.endswith("variant")
    }


def values(rows: list[dict[str, Any]], column: str) -> list[str]:
    return sorted(repr(row[column]) for row in rows)


def reads(row: dict[str, Any]) -> dict[str, Any]:
    return {"variant": row["variant"], "made": row["a"] + row["b"]}


# Each made of a stream; all of them in one query.
STATELESS: dict[str, Callable[[Any], Any]] = {
    "with_fields": lambda s: s.filter("c > -5").with_fields(
        d="a + B", a="b * 2", e="upper(concat('c', s))", f=F_sum(), g="transform(array(a), b -> b + 1)[0]"
    ),
    "listed": lambda s: s.map("variant", "a AS x", "x + b AS y", "o.a AS inner", "named_struct('p', c).p AS q", "k"),
    "starred": lambda s: s.map("*", "a + 1 AS more").select_fields("variant", "a", "s", "more"),
    "generated": lambda s: s.flat_map("inline(array(struct(variant, a AS x, b AS y)))"),
    "called": lambda s: s.map(reads, schema="variant int, made bigint"),
    "scripted": lambda s: s.script("x=concat(a,b);if(c>500){y=s}else{y=k};x=upper(x)"),
    "united": lambda s: s.split("IF(c > -9, 'a', 'b')").select("a").with_fields(d="a").union(s.with_fields(d="b")),
}  # fmt: skip
# All that a function, a generator or a branch looks at may have a part in all that it makes.
MAY_BE_MORE = {"generated", "called", "scripted"}
USERS = "k string, tier string, s string"
LOOKED_UP: dict[str, Callable[[Any, Dimension], Any]] = {
    "found": lambda s, users: s.dim_join(users, on="k", prefix="u_", name="one").with_fields(d="concat(u_tier, s)"),
    "replaced": lambda s, users: s.dim_join(users, on="k", name="two").select_fields("variant", "k", "tier", "s", "a"),
    "left": lambda s, users: s.dim_join(users, on="k", how="left", name="three").with_fields(d="s"),
}
MINUTES = TumblingWindow.of(Time.minutes(10), "ts")
STATEFUL: dict[str, Callable[[Any], Any]] = {
    "window": lambda s: s.window(MINUTES, name="w").group_by("variant").sum("a").count("n").aggregate(x="max(b - c)"),
    "sessions": lambda s: s.window(SessionWindow(Time.minutes(5), "ts"), name="x").group_by("variant").max("b", "most"),
    "top": lambda s: s.window(MINUTES, name="t").group_by("variant").top_n(2, by="c", fields=["s"]),
    "reduced": lambda s: s.window(MINUTES, name="r").group_by("variant").reduce(
        lambda made, row: {"most": max(row["a"], made["most"] if made else 0)}, schema="most bigint", fields=["a"]
    ),
    "pairs": lambda s: pairs(s, prefix="r_", name="j").with_fields(d="a + r_z"),
    "semi": lambda s: pairs(s, how="semi", name="h").with_fields(d="b"),
    "first": lambda s: s.distinct("variant", "id", within=Time.minutes(5), time_field="ts").with_fields(d="b"),
}  # fmt: skip


def pairs(s: Any, **settings: Any) -> Any:
    other = s.map("variant", "id", "a AS a", "c AS z", "ts", name=f"other_{settings.get('how', 'inner')}")
    return s.join(other, on=["variant", "id"], time_field="ts", within=Time.minutes(5), **settings)


def F_sum():  # noqa: N802
    from rs_assets import F

    return F.col("a") + F.col("c")


def pipeline_of(cases: dict[str, Callable[[Any], Any]], job: str) -> Pipeline:
    streams, read = [], source(job=job)
    for name, case in cases.items():
        made = case(read)
        made = made.to_data_stream() if hasattr(made, "to_data_stream") else made
        streams.append(made.to_print(name=name))
    return streams[-1].build()


def fields_named(made: Fields) -> set[str]:
    return {name for _, name in made}


@pytest.mark.parametrize(
    ("cases", "job"),
    [(STATELESS, "records"), pytest.param(STATEFUL, "windows", marks=pytest.mark.long)],
    ids=["records", "windows"],
)
def test_provenance_a_changed_input_changes_only_columns_that_are_made_of_it(driver, cases, job):
    pipeline = pipeline_of(cases, job)
    with PipelineDriver(pipeline, spark=driver) as driven:
        driven.push(variants())
        driven.finish()
        taken = {name: driven.take(name) for name in cases}
    wrong = []
    for name in cases:
        columns = provenance(pipeline.topology, name)
        for column, found in dependent(taken[name], COLUMNS).items():
            told = fields_named(fields_of(columns, column))
            more = name in MAY_BE_MORE or column in {"start_time", "end_time", "fire_time", "rank", "s"}
            if not (found <= told and (more or found == told)) or not told <= {*COLUMNS, "variant"}:
                wrong.append(f"{name}.{column}: depends on {sorted(found)}, told {sorted(told)}")
    assert not wrong, "\n".join(wrong)


def test_provenance_of_a_dimension_is_the_dimension_and_the_keys_that_found_it(driver, tmp_path):
    path = tmp_path / "users.jsonl"
    write(path, [{"k": "x", "tier": "gold", "s": "from x"}, {"k": "y", "tier": "iron", "s": "from y"}])
    users, read = Dimension.from_file(path, schema=USERS), source(job="looked_up")
    last = None
    for name, case in LOOKED_UP.items():
        last = case(read, users).to_print(name=name)
    pipeline = last.build()
    with PipelineDriver(pipeline, spark=driver) as driven:
        driven.push(variants())
        driven.step()
        taken = {name: driven.take(name) for name in LOOKED_UP}
        # The same rows, and each field of the dimension changed.
        after = {}
        for changed in ("tier", "s"):
            write(path, [{"k": "x", "tier": "gold", "s": "from x", changed: f"other {changed}"}])
            for step in ("one", "two", "three"):
                driven.reload(step)
            driven.push(variants([]))
            driven.step()
            after[changed] = {name: driven.take(name) for name in LOOKED_UP}
    for name, step in zip(LOOKED_UP, ("one", "two", "three"), strict=True):
        columns = provenance(pipeline.topology, name)
        base = [row for row in taken[name] if row["variant"] == 0]
        for column, found in dependent(taken[name], COLUMNS).items():
            changed = {each for each in after if values(after[each][name], column) != values(base, column)}
            told = fields_of(columns, column)
            # Whether a row was found decides whether its own field stays.
            stays = {"s"} if name == "left" and column in ("s", "d") else set()
            assert {n for of, n in told if of == "rows"} == found | stays, (name, column)
            # Its key is not changed here: another row would be found.
            assert {n for of, n in told if of == step} - {"k"} == changed, (name, column)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_provenance_of_an_unknown_schema_names_the_field_or_all_of_them():
    stream = StreamBuilder.data_stream("test", "open").from_delta("orders", name="orders")
    loaded = Dimension.from_loader(lambda: [{"sku": "a", "category": "b"}])
    joined = stream.dim_join(loaded, on="sku", prefix="p_", name="products").with_fields(d="upper(p_category)")
    called = joined.map(lambda row: {"n": len(row)}, schema="n bigint")
    topology = joined.to_print(name="joined").with_fields(x="1").to_print(name="more")
    topology = called.to_print(name="called").build().topology
    columns = provenance(topology, "joined")
    assert fields_of(columns, "amount") == {("orders", "amount")}
    assert fields_of(columns, "d") == fields_of(columns, "p_category")
    assert fields_of(columns, "d") == {("products", "category"), ("orders", "sku")}
    assert fields_of(provenance(topology, "called"), "n") == {
        *(("orders", each) for each in (ANY, "sku")),
        *(("products", each) for each in (ANY, "category")),
    }
    assert fields_of(provenance(topology, "called"), "m") == frozenset()


def test_provenance_of_a_script_that_needs_the_types_of_its_fields_names_all_of_them():
    """It raised, and with it the description of the asset in Dagster."""
    topology = source().script("retain(a,o);expand_json(o)").to_print(name="made").build().topology
    assert {("rows", "a"), ("rows", "o")} <= fields_of(provenance(topology, "made"), "a")


def test_provenance_of_the_column_of_partitions_is_their_time():
    hits = StreamBuilder.data_stream("shop", "hits").from_file("hits.jsonl", schema="page string, ts timestamp")
    counted = hits.window(TumblingWindow.of(Time.minutes(10), "ts")).group_by("page").count("n").to_data_stream()
    parts = EventTimePartitions.hourly("start_time", since="2024-01-01")
    made = provenance(counted.to_delta("hits", partitions=parts).build().topology, "hits_table")
    assert fields_of(made, "hour") == fields_of(made, "start_time") == {("file", "ts")}

"""Sources and outputs under other names: what a stored version has read and written is known again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from dagster import EnvVar

from rs_assets import EventTimePartitions, SessionWindow, StreamBuilder, Time
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.deploy import io_compatibility as deployed
from rs_assets.errors import TopologyChangedError
from rs_assets.runtime.identity import queries_of_now
from rs_assets.runtime.io_compatibility import refuse_renamed, refuse_ruled, rules_of, targets_of
from rs_assets.topology.topology import Topology

# How a release before wrote the place of a table, and how the code of then and now may have it.
PLACES = [("file:///data/t", "file:///data/t"), ("file:/data/t", "/data/t/"), ("s3://bucket/t/", "s3://bucket/t/")]


def upserts(place: str, sink: str, *keys: str) -> Topology:
    stream = StreamBuilder.data_stream("shop", "ends").from_array([{"id": 1, "n": 2}])
    return stream.to_delta(place, name=sink, mode="upsert", keys=list(keys)).build().topology


def stored(topology: Topology, place: str) -> Manifest:
    """The manifest of a release that noted places as the code had them, of a version that has written rows."""
    (plan,) = plan_queries(topology)
    rules = {sink: (place, *rule[1:]) for sink, rule in rules_of(topology, plan).items()}
    facts = QueryFacts(
        generation=1,
        sinks=dict.fromkeys(plan.sinks, 3),
        sources=plan.sources,
        targets=dict.fromkeys(plan.sinks, place),
        rules=rules,
        ruled=((1, rules),),
    )
    return Manifest(pipeline_id="p", generation=1, partitions=2, queries={"q": facts})


@pytest.mark.parametrize(("noted", "place"), PLACES)
def test_refuse_renamed_output_of_a_release_before_is_known_by_its_place(noted: str, place: str) -> None:
    manifest, now = stored(upserts(place, "out", "id"), noted), upserts(place, "written", "id")
    with pytest.raises(TopologyChangedError, match="'written' writes to the location of the removed output 'out'"):
        refuse_renamed(now, queries_of_now(now, manifest))


@pytest.mark.parametrize(("noted", "place"), PLACES)
def test_refuse_ruled_output_of_a_release_before_is_known_by_its_place(noted: str, place: str) -> None:
    manifest, now = stored(upserts(place, "out", "id"), noted), upserts(place, "out", "n")
    (plan,) = plan_queries(now)
    with pytest.raises(TopologyChangedError, match="would upsert by n, but has rows .* did upsert by id"):
        refuse_ruled(now, plan, queries_of_now(now, manifest)["q"])
    (facts,) = queries_of_now(now, manifest).values()
    assert facts.targets == targets_of(now, plan)
    assert facts.ruled == ((1, facts.rules),)


def test_queries_of_now_rules_of_then_are_those_of_the_output_that_was_renamed() -> None:
    manifest = stored(upserts("/data/t", "out", "id"), "/data/t")
    stream = StreamBuilder.data_stream("shop", "ends").from_array([{"id": 1, "n": 2}])
    now = stream.to_delta("/data/t", name="new", mode="upsert", keys=["id"]).build(renamed={"out": "new"}).topology
    (facts,) = queries_of_now(now, manifest).values()
    assert [set(rules) for rules in (facts.rules, *(rules for _, rules in facts.ruled))] == [{"new"}, {"new"}]


@pytest.mark.parametrize(("field", "zone"), [("ts", "Europe/Berlin"), ("end", "UTC")])
def test_refuse_ruled_partitions_by_another_zone_or_field_are_refused(field: str, zone: str) -> None:
    """Days of two zones in one table would mix, and a backfill would replace a day of one by that of the other."""

    def days(field: str, zone: str) -> Topology:
        stream = StreamBuilder.data_stream("shop", "ends").from_array([], schema="ts timestamp, end timestamp")
        partitions = EventTimePartitions.daily(field, since="2026-01-01", zone=zone, settle=Time.minutes(1))
        return stream.to_delta("/data/t", name="out", partitions=partitions).build().topology

    manifest, now = stored(days("ts", "UTC"), "/data/t"), days(field, zone)
    (plan,) = plan_queries(now)
    with pytest.raises(TopologyChangedError, match=f"by {field} in {zone}, but has rows .* by ts in UTC"):
        refuse_ruled(now, plan, queries_of_now(now, manifest)["q"])
    again = days("ts", "UTC")
    refuse_ruled(again, plan, queries_of_now(again, manifest)["q"])


def union(**paths: str) -> Topology:
    builder = StreamBuilder.data_stream("shop", "ends")
    first, *others = (builder.from_file(path, schema="id long", name=name) for name, path in paths.items())
    return first.union(*others).to_delta("every", name="out").build().topology


def test_refuse_reread_deployed_version_whose_sources_exchange_their_paths_is_refused() -> None:
    before = union(one="/a", two="/b")
    known = QueryFacts(generation=1, sinks={"out": 3}, sources=("one", "two"))
    for now, former in ((union(one="/b", two="/a"), "two"), (union(one="/c", two="/a"), "one")):
        (plan,) = plan_queries(now)
        with pytest.raises(TopologyChangedError, match=f"already, as those of '{former}'") as refused:
            deployed.refuse_reread(before, now, plan, known)
        assert "each read the same input as before; or start over: `reset`" in refused.value.remedy
    for now in (before, union(one="/a", two="/c")):
        (plan,) = plan_queries(now)
        deployed.refuse_reread(before, now, plan, known)


# Each output that a row of a table can leave.
OUTPUTS = {
    "delta": lambda table: table.to_delta("/data/t", name="out"),
    "store": lambda table: table.serve("t", name="out"),
    "kafka": lambda table: table.to_kafka("localhost:9092", "t", name="out"),
    "database": lambda table: table.to_database("postgresql://localhost/shop", "t", name="out"),
    "redis": lambda table: table.to_redis(EnvVar("REDIS_URL"), prefix="a/b:", name="out"),
    "search": lambda table: table.to_search("http://localhost:9200", "t", name="out"),
}


def current(*conditions: str, output: str = "delta") -> Topology:
    rows = [{"id": 1, "n": 2}, {"id": 1, "n": 3}]
    table = StreamBuilder.data_stream("shop", "current").from_array(rows).to_table("id")
    for number, condition in enumerate(conditions):
        table = table.filter(condition, name=f"where_{number}").map_values("n", name=f"row_{number}")
    return OUTPUTS[output](table).build().topology


def multiplied(factor: int, *conditions: str) -> Topology:
    table = StreamBuilder.data_stream("shop", "current").from_array([{"id": 1, "n": 2}]).to_table("id")
    table = table.with_fields(d=f"n * {factor}")
    for condition in conditions:
        table = table.filter(condition)
    return table.to_delta("/data/t", name="out").build().topology


@pytest.mark.parametrize(
    ("then", "now"), [(("n > 1",), ("n > 2",)), ((), ("n > 1",)), (("n > 1", "n < 9"), ("n > 1",)), (("n > 1",), ())]
)
def test_refuse_ruled_another_filter_over_a_table_is_refused(then: tuple[str, ...], now: tuple[str, ...]) -> None:
    manifest, topology = stored(current(*then), "/data/t"), current(*now)
    (plan,) = plan_queries(topology)
    with pytest.raises(
        TopologyChangedError, match="would upsert by id, have .*, but has rows .* did upsert by id, have "
    ):
        refuse_ruled(topology, plan, queries_of_now(topology, manifest)["q"])
    refuse_ruled(topology, plan, queries_of_now(topology, stored(topology, "/data/t"))["q"])


@pytest.mark.parametrize("output", OUTPUTS)
def test_refuse_ruled_another_filter_is_refused_before_each_output_that_a_row_can_leave(output: str) -> None:
    then, now = current("n > 1", output=output), current("n > 2", output=output)
    (plan,) = plan_queries(now)
    manifest = stored(then, str(targets_of(now, plan).get("out", "t")))
    if output in {"kafka", "search"}:
        facts = manifest.queries["q"]
        # They store no batches: those of the query count.
        manifest = replace(manifest, queries={"q": replace(facts, sinks={"out": -1}, catalogued=3)})
    with pytest.raises(TopologyChangedError, match="n > 2.*, but has rows of a version that did.* n > 1") as error:
        refuse_ruled(now, plan, queries_of_now(now, manifest)["q"])
    replaced = output in {"delta", "store"}
    assert ("which replaces the rows of out" in error.value.remedy) == replaced
    assert ("remove its rows there" in error.value.remedy) == (not replaced)
    refuse_ruled(then, plan, queries_of_now(then, manifest)["q"])


def test_refuse_ruled_other_fields_are_refused_where_a_filter_reads_them() -> None:
    """A row that goes would not pass the same filter either, once it reads other values."""

    def refused(*conditions: str) -> str:
        manifest, now = stored(multiplied(2, *conditions), "/data/t"), multiplied(3, *conditions)
        (plan,) = plan_queries(now)
        try:
            refuse_ruled(now, plan, queries_of_now(now, manifest)["q"])
        except TopologyChangedError as error:
            return str(error)
        return ""

    assert "would upsert by id, have rows for which d > 2 with d=n * 3, but has rows" in refused("d > 2")
    assert refused() == ""


def sessions(condition: str) -> Topology:
    rows = StreamBuilder.data_stream("shop", "visits").from_file("v.jsonl", schema="page string, ts timestamp")
    window = SessionWindow.of(Time.minutes(5), "ts")
    visits = rows.window(window, emit="on_window_update").group_by("page").count("n").to_data_stream().filter(condition)
    keys = ["page", "start_time"]
    return visits.to_delta("/data/t", name="out", mode="upsert", keys=keys, deletes="retracted").build().topology


def early(condition: str) -> Topology:
    shop = StreamBuilder.data_stream("shop", "paid")
    left, right = (shop.from_file(f"{n}.jsonl", schema="id int, n int, ts timestamp", name=n) for n in ("sold", "paid"))
    joined = left.join(
        right, on="id", within=Time.minutes(5), how="left", time_field="ts", prefix="paid_", early=True
    ).filter(condition)  # fmt: skip
    return joined.to_delta("/data/t", name="out", mode="upsert", keys=["id"], deletes="retracted").build().topology


@pytest.mark.parametrize("made", [sessions, early])
def test_refuse_ruled_another_filter_over_rows_that_are_retracted_is_refused(made: Callable[[str], Topology]) -> None:
    manifest, now = stored(made("n > 1"), "/data/t"), made("n > 2")
    (plan,) = plan_queries(now)
    with pytest.raises(TopologyChangedError, match="have rows for which n > 2, but has rows"):
        refuse_ruled(now, plan, queries_of_now(now, manifest)["q"])


def test_refuse_ruled_filters_of_a_release_before_are_not_known() -> None:
    manifest, topology = stored(current("n > 1"), "/data/t"), current("n > 2")
    facts = manifest.queries["q"]
    before = replace(manifest, queries={"q": replace(facts, rules={"out": facts.rules["out"][:2]})})
    (plan,) = plan_queries(topology)
    refuse_ruled(topology, plan, queries_of_now(topology, before)["q"])

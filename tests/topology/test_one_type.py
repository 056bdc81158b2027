"""Keys of two types, and a union of them, are refused; the remedy is followed to the letter, and loses no value.

A remedy that said `cast(k as date)` of a timestamp, or `cast(k as bigint)` of a double, made rows equal that were not.
"""

import re

import pytest

from rs_assets import Dimension, Range, StreamBuilder, Time, pipeline_from_sql
from rs_assets.errors import SqlError, TopologyError

# Two types, and the one that holds the values of both; None: there is none, then that of the first is named.
PAIRS = [
    ("bigint", "decimal(38,0)", "decimal(38,0)"),
    ("decimal(10,2)", "decimal(20,4)", "decimal(20,4)"),
    ("decimal(12,2)", "decimal(10,4)", "decimal(14,4)"),
    ("int", "decimal(10,2)", "decimal(12,2)"),
    ("bigint", "double", "double"),
    ("float", "double", "double"),
    ("smallint", "float", "double"),
    ("date", "timestamp", "timestamp"),
    ("string", "bigint", "string"),
    # Spark rounds before it compares these. Values that the last one cannot hold end the run.
    ("bigint", "decimal(20,19)", "decimal(38,19)"),
    ("decimal(38,0)", "decimal(38,10)", "decimal(38,10)"),
]
BOTH = [each for one, two, wide in PAIRS for each in ((one, two, wide), (two, one, wide))]


def streams(**kinds):
    """Streams of one pipeline, by their names, with the types of their keys."""
    builder = StreamBuilder.data_stream("test", "one_type")
    return {
        name: builder.from_file(f"{name}.jsonl", schema=f"{name}_id bigint, {name}_k {kind}", tail=True, name=name)
        for name, kind in kinds.items()
    }


def followed(remedy, **streams):
    """The streams with the steps that a remedy names."""
    for field, kind in re.findall(r"\.with_fields\((\w+)='cast\(\1 as ([^']+)\)'\)", remedy):
        name = field.removesuffix("_k")
        streams[name] = streams[name].with_fields(**{field: f"cast({field} as {kind})"})
    return streams


def tables(a, b):
    a, b = (each.to_table(f"{name}_id", name=f"{name}_table") for name, each in (("a", a), ("b", b)))
    a, b = a.map_values("a_k", name="a_only"), b.map_values("b_k", name="b_only")
    return a.join(b, on={"a_k": "b_k"}).to_stream().to_print().build()


def refused(make):
    with pytest.raises(TopologyError, match="cannot compare|cannot look for|union") as error:
        make()
    return error.value.remedy


@pytest.mark.parametrize(("one", "two", "wide"), BOTH)
def test_a_join_of_tables_by_two_types_says_which_one_holds_both(one, two, wide):
    sides = streams(a=one, b=two)
    remedy = refused(lambda: tables(**sides))
    assert set(re.findall(r" as ([^']+)\)'", remedy)) == {wide}
    assert tables(**followed(remedy, **sides))


@pytest.mark.parametrize(("one", "two", "wide"), BOTH)
def test_a_lookup_by_two_types_says_what_the_dimension_should_declare(one, two, wide):
    def looked_up(left, declared):
        dimension = Dimension.from_file("/data/d.jsonl", schema=f"k {declared}, v string")
        return left.dim_join(dimension, on={"a_k": "k"}).to_print().build()

    remedy = refused(lambda: looked_up(streams(a=one)["a"], two))
    declared = re.search(r"declare 'k' as (\S+) in the schema of the dimension", remedy)
    assert {*re.findall(r" as ([^']+)\)'", remedy), *(declared.groups() if declared else ())} == {wide}
    left = followed(remedy, **streams(a=one))["a"]
    assert looked_up(left, declared[1] if declared else two)


@pytest.mark.parametrize(("one", "two", "wide"), BOTH)
def test_a_union_of_two_types_says_which_one_holds_both_and_where_it_is_cast(one, two, wide):
    builder = StreamBuilder.data_stream("test", "united")
    sides = {
        each: builder.from_file(f"{each}.jsonl", schema=f"k {kind}", name=each)
        for each, kind in zip("ab", (one, two), strict=True)
    }
    remedy = refused(lambda: sides["a"].union(sides["b"]).to_print().build())
    assert f".with_fields(k='cast(k as {wide})')" in remedy
    for name in re.findall(r"'(a|b)'", remedy):
        sides[name] = sides[name].with_fields(k=f"cast(k as {wide})")
    assert sides["a"].union(sides["b"]).to_print().build()


@pytest.mark.parametrize(("one", "two", "wide"), [("bigint", "double", "double"), ("double", "bigint", "double")])
def test_a_lookup_by_intervals_of_another_type_says_which_one_holds_both(one, two, wide):
    """A number between two whole ones would be cast to one that an interval has."""

    def looked_up(left, declared):
        schema = f"low {declared['low']}, high {declared['high']}"
        dimension = Dimension.from_file("/data/d.jsonl", schema=schema)
        return left.dim_join(dimension, on={"a_k": Range("low", "high")}).to_print().build()

    left, declared = streams(a=one)["a"], {"low": two, "high": two}
    for _ in range(len(declared)):
        try:
            assert looked_up(left, declared)
        except TopologyError as error:
            left = followed(error.remedy, a=left)["a"]
            declared |= dict(re.findall(r"declare '(\w+)' as (\S+) in the schema of the dimension", error.remedy))
    assert {*declared.values()} == {wide}
    assert looked_up(left, declared)


@pytest.mark.parametrize(("one", "two", "wide"), BOTH[-4:])
@pytest.mark.parametrize("how", ["join", "asof_join"])
def test_a_join_of_streams_by_numbers_that_spark_would_round_is_refused(one, two, wide, how):
    """1 and 1.0000000001 were equal keys."""

    def joined(a, b):
        a, b = (each.with_fields(at="timestamp'2026-01-05 10:00:00'") for each in (a, b))
        within = {"within": Time.seconds(1)} if how == "join" else {}
        made = getattr(a, how)(b, on={"a_k": "b_k"}, time_field="at", prefix="b_", **within)
        return made.to_print().build()

    sides = streams(a=one, b=two)
    remedy = refused(lambda: joined(**sides))
    assert set(re.findall(r" as ([^']+)\)'", remedy)) == {wide}
    assert joined(**followed(remedy, **sides))


def test_types_that_nothing_holds_are_cast_to_one_of_them():
    sides = streams(a="bigint", b="date")
    assert "b_k='cast(b_k as bigint)'" in refused(lambda: tables(**sides))


def test_a_statement_is_told_the_same_in_sql():
    """`CAST(k AS ...)` is taken where it stands."""

    def joined(one="a.k", two="b.k"):
        table = "(id BIGINT, k {}, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '/in/{}',"
        a, b = (table.format(kind, name) for kind, name in (("DECIMAL(12, 2)", "a"), ("DECIMAL(10, 4)", "b")))
        return pipeline_from_sql(
            f"CREATE TABLE a {a} 'format' = 'json', 'follow' = 'true');"
            f"CREATE TABLE b {b} 'format' = 'json', 'follow' = 'true');"
            "CREATE TABLE o (a BIGINT, b BIGINT) WITH ('connector' = 'print');"
            f"INSERT INTO o SELECT a.id, b.id FROM a JOIN b ON {one} = {two}"
        )

    with pytest.raises(SqlError, match="cannot compare") as error:
        joined()
    assert error.value.remedy == "give both one type before: CAST(k AS DECIMAL(14,4)) and CAST(k AS DECIMAL(14,4))"
    assert joined("CAST(a.k AS DECIMAL(14,4))", "CAST(b.k AS DECIMAL(14,4))")

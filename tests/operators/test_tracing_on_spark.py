"""What Spark computes of a traced function against the function itself, on values that both might treat differently."""

import pytest
from pyspark.sql import functions as F

from rs_assets.compile.python.tracing.columns import Columns
from rs_assets.compile.python.tracing.traced import trace_filter, trace_map
from rs_assets.compile.python.tracing.tree import UNDECIDED, leading_to, verdicts_of
from tests.operators.traced_functions import DDL, FIELDS, FILTERS, MAPS, Drawn, followed, rows, wanted

# How many functions Spark computes in one plan.
TOGETHER = 15


def in_groups(functions):
    known = [each for each in functions if each[-1] is not None]
    return [known[at : at + TOGETHER] for at in range(0, len(known), TOGETHER)]


def frame_of(spark, data):
    frame = spark.createDataFrame([tuple(row.values()) for row in data], DDL).coalesce(1)
    return frame.localCheckpoint()


def column(condition):
    return F.lit(condition) if isinstance(condition, bool) else Columns().of(condition)


def check_filters(spark, functions, data):
    """How many functions were compared; each row that Spark keeps or drops for certain is kept or dropped by Python."""
    traced = [(told, function, trace_filter(function, FIELDS).tree) for told, function in functions]
    frame = frame_of(spark, data)
    for group in in_groups(traced):
        columns = [column(leading_to(tree, of)) for *_, tree in group for of in ({"keep"}, {"keep", *UNDECIDED})]
        found = frame.select(*(c.alias(f"c{n}") for n, c in enumerate(columns))).collect()
        for number, (told, function, _) in enumerate(group):
            for row, said in zip(data, found, strict=True):
                stays, may = said[2 * number], said[2 * number + 1]
                assert None not in (stays, may), (told, row)
                verdict = wanted(function, row)
                assert verdict == "keep" if stays else may or verdict == "drop", (told, row, stays, may)
    return sum(tree is not None for *_, tree in traced)


def check_maps(spark, functions, data):
    """How many functions were compared; each value that Spark makes is what Python makes."""
    traced = [
        (told, kind, function, trace_map(function, FIELDS, {"x": kind}).tree) for told, kind, function in functions
    ]
    frame = frame_of(spark, data)
    for group in in_groups(traced):
        columns = [Columns().case(tree, 0, kind) for _, kind, _, tree in group]
        found = frame.select(*(c.alias(f"c{n}") for n, c in enumerate(columns))).collect()
        for number, (told, _, function, tree) in enumerate(group):
            for row, said in zip(data, found, strict=True):
                if followed(tree, row).verdict == "made":
                    made = function(dict(row))["x"]
                    assert shown(made) == shown(said[number]), (told, row, made, said[number])
    return sum(tree is not None for *_, tree in traced)


def shown(value):
    """What tells all values apart, also those that are equal in Python; a time as what it means."""
    return value.timestamp() if hasattr(value, "hour") else repr(value)


def drawn_filters(seeds):
    return [(source, eval(source)) for source in (Drawn(seed).filter() for seed in seeds)]


def drawn_maps(seeds):
    return [(source, kind, eval(source)) for kind, source in (Drawn(seed).map() for seed in seeds)]


def test_spark_judges_as_the_functions_do(spark):
    functions = list(enumerate(FILTERS)) + drawn_filters(range(10))
    assert check_filters(spark, functions, rows(400, seed=2)) > 90


def test_spark_makes_what_the_functions_make(spark):
    functions = [(n, kind, function) for n, (kind, function) in enumerate(MAPS)] + drawn_maps(range(10))
    assert check_maps(spark, functions, rows(400, seed=3)) > 30


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_filters_that_a_source_is_asked_for_keep_the_same_rows(spark, tmp_path, kind):
    data = rows(2_000, seed=4)
    numbered = spark.createDataFrame([(n, *row.values()) for n, row in enumerate(data)], f"row bigint, {DDL}")
    numbered.coalesce(1).write.format(kind).save(str(tmp_path / kind))
    frame = spark.read.schema(numbered.schema).format(kind).load(str(tmp_path / kind))
    read = {row["row"]: {name: row[name] for name in FIELDS} for row in frame.collect()}
    for told, function in list(enumerate(FILTERS)) + drawn_filters(range(20)):
        tree = trace_filter(function, FIELDS).tree
        if tree is not None:
            verdicts = {number: wanted(function, row) for number, row in read.items()}
            sure, may = (
                {row["row"] for row in frame.filter(column(leading_to(tree, of))).select("row").collect()}
                for of in ({"keep"}, {"keep", *UNDECIDED})
            )
            assert sure <= {number for number, verdict in verdicts.items() if verdict == "keep"}, told
            assert may >= {number for number, verdict in verdicts.items() if verdict != "drop"}, told
            assert sure == may or UNDECIDED & verdicts_of(tree), told


@pytest.mark.long
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_hundreds_of_functions_over_ten_thousand_rows(spark, seed):
    data = rows(10_000, seed=seed)
    filters = list(enumerate(FILTERS)) + drawn_filters(range(1000 * seed, 1000 * seed + 60))
    maps = [(n, kind, function) for n, (kind, function) in enumerate(MAPS)] + drawn_maps(
        range(1000 * seed, 1000 * seed + 60)
    )
    print(f"seed {seed}: {check_filters(spark, filters, data)} filters, {check_maps(spark, maps, data)} maps")

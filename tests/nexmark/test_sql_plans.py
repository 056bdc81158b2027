"""Statements cost what the fluent forms cost: Spark plans the same operators for both, which compute the same."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.nexmark.in_sql import QUERIES, nexmark_in_sql
from pipelines.nexmark.queries import nexmark
from pipelines.nexmark.sources import Files
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.compile.planner.table import wire_node
from rs_assets.connectors.nodes import Source
from rs_assets.records.columns import REASON
from rs_assets.runtime.job.analysis import declared_schema, reading_nothing
from rs_assets.spark.driver import SparkDriver
from rs_assets.topology.topology import Topology

# Queries that Spark plans otherwise: how many operators more, and why.
OTHERWISE = {
    "q4": (1, "a projection: the shuffle has the auction, in the fluent form the time of its window"),
    "q5": (26, "joins the counts with their maximum, where the fluent form keeps those of a window in an array"),
    "q8": (20, "groups both sides, then joins; the fluent form is one semi join"),
    "q9": (-3, "a rank of no window stands in a query of its own, behind a shuffle that lasts"),
    "q19": (1, "a projection: the columns of a window are not asked for"),
    "q21": (0, "computes a column before it filters by it; the fluent form computes it twice"),
}
# Queries with the same operators that compute something more for a row, and what that is.
MORE = {
    "q1": "a cast to fewer digits: a number that has more is null, as in Flink",
    "q14": "a cast: count_char is declared to give BIGINT",
    "q15": "the day of a row, a key beside a window without an end",
    "q16": "the day of a row, a key beside a window without an end",
    "q17": "the day of a row, a key beside a window without an end",
    "q22": "SPLIT_INDEX has its own answer for an empty text",
}
# What changes from plan to plan: identities of state and places, columns by number, names that are given.
NOISE = (
    (
        re.compile(r"state info \[.*?\]|stateStoreCkptIds = \w+|plan_id=\d+|\[/\S+\]|[0-9a-f]{8}(-[0-9a-f]{4,12}){4}"),
        "",
    ),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?"), "now"),
    (re.compile(r"(?<=\))#\d+L?"), ""),
    (re.compile(r"[\w.]+#\d+L?(-T\d+ms)?"), "_"),
    (re.compile(r" AS \w+"), ""),
)
LINE = re.compile(r"([ :+-]*)(?:\*\(\d+\) )?((\w+).*)")


def plan_of(topology: Topology, driver: SparkDriver) -> list[tuple[int, str, frozenset[str]]]:
    """The operators of all queries of a pipeline: their depth, their name, what they compute."""
    lines = driver.call(lambda spark: [line for text in explained(spark, topology) for line in text.splitlines()])
    found = (LINE.fullmatch(line) for line in lines if line and not line.startswith("=="))
    return [(len(match[1]), match[3], computed(match[2])) for match in found if match]


def explained(spark: SparkSession, topology: Topology) -> Iterator[str]:
    """The physical plan of each query, over files of which there are none."""
    flows: dict[str, Flow] = {}
    with tempfile.TemporaryDirectory() as folder:
        for plan in plan_queries(topology):
            context = replace(reading_nothing(spark, topology, plan, Path(folder), flows), read=unread)
            for name in plan.nodes:
                if name not in flows:
                    flows[name] = wire_node(context, topology, plan.streaming_output, name, flows)
            for sink in plan.sinks:
                frame = flows[topology[sink].inputs[0]].df
                yield spark._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")


def unread(context: CompileContext, source: Source) -> DataFrame:
    """A source of which Spark knows the schema alone."""
    context.folder.mkdir(parents=True, exist_ok=True)
    stream = context.spark.readStream.schema(declared_schema(context, source)).name(source.name)
    return stream.json(str(context.folder)).withColumn(REASON, F.lit(None).cast("string"))


def computed(line: str) -> frozenset[str]:
    """The parts of an operator that are no columns."""
    for pattern, text in NOISE:
        line = pattern.sub(text, line)
    parts = (part.strip() for part in re.split(r"[,\[\]]", line))
    return frozenset(part for part in parts if not re.fullmatch(r"[\w()]*", part))


@pytest.mark.parametrize("query", QUERIES)
def test_should_be_planned_as_the_fluent_form(query: str, driver: SparkDriver, tmp_path: Path) -> None:
    fluent = plan_of(nexmark(query, Files(folder=tmp_path, files_per_batch=1)).topology, driver)
    sql = plan_of(nexmark_in_sql(query, folder=tmp_path).topology, driver)
    if [line[:2] for line in sql] != [line[:2] for line in fluent]:
        assert OTHERWISE[query][0] == len(sql) - len(fluent)
        return
    more = [mine - other for (_, _, mine), (_, _, other) in zip(sql, fluent, strict=True)]
    assert any(more) == (query in MORE), more
    assert query not in OTHERWISE

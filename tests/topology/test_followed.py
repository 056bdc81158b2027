"""Remedies of what is refused when a pipeline is built, followed to the letter: then it builds."""

from __future__ import annotations

import ast
import re

import pytest

import rs_assets
from rs_assets import HoppingWindow, OverWindow, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.offsets.merge import layer
from rs_assets.common.home import Home
from rs_assets.common.names import checked_name, checked_owners, checked_path
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import checked_topic
from rs_assets.errors import RsError
from rs_assets.runtime.options import RunOptions
from tests.project.remedies import table
from tests.topology import (
    followed_branches,
    followed_chains,
    followed_ends,
    followed_files,
    followed_functions,
    followed_home,
    followed_joins,
    followed_partitions,
    followed_processors,
    followed_settings,
    followed_steps,
    followed_tables,
    followed_windows,
)
from tests.topology.followed_programs import TEN, Case


def hits(name="file", job="hits", schema="page string, ms bigint, ts timestamp"):
    return StreamBuilder.data_stream("shop", job).from_file("in.jsonl", schema=schema, name=name)


def two(name):
    """Two streams of one pipeline."""
    builder = StreamBuilder.data_stream("shop", "two")
    return [builder.from_file(f"{each}.jsonl", schema="page string, ts timestamp", name=each) for each in ("a", name)]


def united():
    one, other = two("b")
    return one.union(other).to_print()


def joined(on):
    one, other = two("b")
    return one.join(other, on=on, within=Time.minutes(1), time_field="ts").to_print().build()


def from_kafka(**how):
    return StreamBuilder.data_stream("shop", "k").from_kafka("localhost:9092", "in", schema="page string", **how)


# What is refused, words of the remedy, and what it says to write instead.
CASES = {
    "common/node.py::equal_names": (
        lambda: hits().filter("ms > 1").filter("ms > 2").to_print(name="file").build(),
        "name='...'",
        lambda: hits().filter("ms > 1").filter("ms > 2").to_print(name="other").build(),
    ),
    "stream/data_stream.py::DataStream.union": (
        lambda: hits().union(hits("other", "others")).to_print().build(),
        "begin them all from one StreamBuilder.data_stream(...)",
        lambda: united().build(),
    ),
    "stream/data_stream.py::_check_fresh": (
        lambda: hits().to_delta("t").build(fresh_within=5),
        "fresh_within=Time.minutes(5)",
        lambda: hits().window(TEN).group_by("page").count("n").to_delta("t").build(fresh_within=Time.minutes(5)),
    ),
    "stream/data_stream.py::DataStream.shuffle": (
        lambda: hits().shuffle(2, strategy="disk"),
        "use 'delta' or 'kafka'",
        lambda: hits().shuffle(2, strategy="delta").to_print().build(),
    ),
    "stream/window_stream.py::WindowStream.__post_init__": (
        lambda: hits().window("10 seconds"),
        "TumblingWindow.of(Time.seconds(10), 'ts')",
        lambda: hits().window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").count("n").to_print().build(),
    ),
    "operators/window/spec.py::HoppingWindow.__post_init__": (
        lambda: HoppingWindow.of(Time.seconds(10), Time.seconds(20), "ts"),
        "use a slide that is at most the size",
        lambda: HoppingWindow.of(Time.seconds(10), Time.seconds(10), "ts"),
    ),
    "operators/window/over.py::OverWindow.__post_init__": (
        lambda: OverWindow.rows(9, "ts", keep=[]),
        "OverWindow.rows(9, 'ts', keep=['ms'])",
        lambda: OverWindow.rows(9, "ts", keep=["ms"]),
    ),
    "operators/window/durations.py::checked_duration": (
        lambda: TumblingWindow.of(10, "ts"),
        "write it as Time.seconds(10)",
        lambda: TumblingWindow.of(Time.seconds(10), "ts"),
    ),
    "operators/join/spec.py::pairs_of": (
        lambda: joined([]),
        "on='user'",
        lambda: joined("page"),
    ),
    "common/names.py::checked_name": (
        lambda: checked_name("Shop", what="namespace"),
        "1 to 63 of a-z, 0-9 and _",
        lambda: checked_name("shop_2", what="namespace"),
    ),
    "common/names.py::checked_path": (
        lambda: checked_path("a#b", what="a path"),
        "without #",
        lambda: checked_path("a_b", what="a path"),
    ),
    "common/names.py::_of_short_names": (
        lambda: StreamBuilder.data_stream("shop", "long").from_array([{"a": 1}]).to_delta("é" * 128).build(),
        "shorter names",
        lambda: StreamBuilder.data_stream("shop", "long").from_array([{"a": 1}]).to_delta("é" * 127).build(),
    ),
    "common/names.py::checked_owners": (
        lambda: checked_owners(["team"]),
        "'team:team'",
        lambda: checked_owners(["team:team"]),
    ),
    "connectors/kafka/client/names.py::checked_topic": (
        lambda: checked_topic("a b", step="read"),
        "letters, digits",
        lambda: checked_topic("a_b", step="read"),
    ),
    "connectors/kafka/client/cluster.py::KafkaCluster.__post_init__": (
        lambda: KafkaCluster(bootstrap_servers="localhost:9092", username="me", password="pw"),
        "protocol='SASL_SSL', username='...', password=EnvVar('...')",
        lambda: KafkaCluster(bootstrap_servers="localhost:9092", protocol="SASL_SSL", username="me", password="pw"),
    ),
    "catalog/offsets/merge.py::layer": (
        lambda: layer(-1),
        "count the parts of a row from 0",
        lambda: layer(0),
    ),
    "common/home.py::Home.at": (
        lambda: Home.at("s3://bucket/rs"),
        "give a path",
        lambda: Home.at("rs"),
    ),
    "runtime/options.py::RunOptions.__post_init__": (
        lambda: RunOptions(metrics_endpoint="collector:4318"),
        "write it as http://collector:4318/v1/metrics",
        lambda: RunOptions(metrics_endpoint="http://collector:4318/v1/metrics"),
    ),
    "stream/builder.py::_read_committed": (
        lambda: from_kafka(isolation="dirty"),
        "use 'read_committed' or 'read_uncommitted'",
        lambda: from_kafka(isolation="read_uncommitted"),
    ),
    "stream/method_hints.py::missing": (
        lambda: hits().where("ms > 1"),
        "filter",
        lambda: hits().filter("ms > 1").to_print().build(),
    ),
    "records/policy.py::BadRecords.of": (
        lambda: StreamBuilder.data_stream("shop", "p").from_file("a.jsonl", schema="a int", bad_records="drop"),
        "use 'fail', 'dead_letter', 'quarantine' or 'skip'",
        lambda: StreamBuilder.data_stream("shop", "p").from_file("a.jsonl", schema="a int", bad_records="dead_letter"),
    ),
    "topology/check/rules.py::_filtered": (
        lambda: hits().filter("ms").to_print().build(),
        '"ms > 0"',
        lambda: hits().filter("ms > 0").to_print().build(),
    ),
    "topology/check/sql.py::check_sql": (
        lambda: hits().filter("ms >").to_print().build(),
        "write it as Spark SQL",
        lambda: hits().filter("ms > 1 AND page = 'paid'").to_print().build(),
    ),
    "topology/check/united.py::check_kinds": (
        lambda: _united("ms int", "ms string"),
        ".with_fields(ms='cast(ms as",
        lambda: _united("ms int", "ms string", cast="int"),
    ),
    "errors.py::UnknownFieldError.__init__": (
        lambda: hits().select_fields("pge").to_print().build(),
        "did you mean 'page'?",
        lambda: hits().select_fields("page").to_print().build(),
    ),
    "topology/user_code/deferred.py::Deferred.__bool__": (
        lambda: bool(rs_assets.F.col("a") > 1),
        "join them by &, | and ~",
        lambda: (rs_assets.F.col("a") > 1) & (rs_assets.F.col("b") > 1),
    ),
    "recovery/savepoints/store.py::SavepointStore.__init__": (
        lambda: _store(" "),
        "give a path or a URI",
        lambda: _store("savepoints"),
    ),
    "runtime/run/trial.py::_by_source": (
        lambda: united().build().try_([{"page": "/"}]),
        "try_({'a': [...]})",
        None,
    ),
}


def _united(one, other, *, cast=None):
    builder = StreamBuilder.data_stream("shop", "u")
    a, b = (builder.from_file(f"{n}.jsonl", schema=s, name=n) for n, s in (("a", one), ("b", other)))
    return a.union(b.with_fields(ms=f"cast(ms as {cast})") if cast else b).to_print().build()


def _store(uri):
    from rs_assets.recovery.savepoints.store import SavepointStore

    return SavepointStore(uri)


TABLES = (
    followed_windows,
    followed_joins,
    followed_ends,
    followed_partitions,
    followed_steps,
    followed_tables,
    followed_processors,
    followed_functions,
    followed_files,
    followed_settings,
    followed_home,
    followed_branches,
    followed_chains,
)
ROWS = [
    *(Case(place, *case) for place, case in CASES.items()),
    *(case for table in TABLES for case in table.CASES),
]
THIS = "topology/test_followed.py::test_a_remedy_of_a_check_that_is_followed_to_the_letter_is_taken"


def refused(case):
    """The remedy of what a case says is refused."""
    with pytest.raises(RsError) as error:
        case.wrong()
    return error.value.remedy


@pytest.mark.parametrize("case", ROWS, ids=[f"{case.place} {case.words}" for case in ROWS])
def test_a_remedy_of_a_check_that_is_followed_to_the_letter_is_taken(case):
    assert case.words in refused(case)
    if case.right is not None:
        case.right()


def test_each_remedy_that_these_tables_claim_is_followed_by_a_case_of_its_place():
    """A row of remedies.tsv has the place and the source of a remedy: a case raises what that source makes."""
    claimed = [row.split("\t") for row, test in table().items() if test == THIS]
    raised = [(case.place, refused(case)) for case in ROWS]
    assert [
        (place, source)
        for place, source in claimed
        if not any(place == where and may_make(source, each) for where, remedy in raised for each in ways(remedy))
    ] == []


def ways(remedy):
    """A remedy, and what it says before a second way that a chain of steps always has."""
    return remedy, remedy.partition(", or put .shuffle(n, strategy='delta') before ")[0]


def may_make(source, remedy):
    """Whether an expression of a remedy may give this text: what is not a literal in it may be anything."""
    return re.fullmatch(_pattern(ast.parse(source, mode="eval").body), remedy, re.DOTALL) is not None


def _pattern(node):
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(map(_pattern, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(left) + _pattern(right)
        case _:
            return ".*"

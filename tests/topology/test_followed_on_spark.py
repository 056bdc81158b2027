"""Remedies of what Spark's analysis of a pipeline refuses, followed to the letter: then it passes. No batch runs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rs_assets import Dimension, OverWindow, Time, column
from rs_assets.compile.planner.context import ddl_type
from rs_assets.connectors.delta.columns import check_columns
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.files.parse import LineFormat
from rs_assets.connectors.files.whole.spark_files import infer_schema
from rs_assets.errors import RsError
from rs_assets.runtime.job.analysis import analyse
from tests.project.remedies import table
from tests.sinks.frames import ArrowFrame
from tests.topology.followed_files import within
from tests.topology.followed_programs import TEN, Case, begin, built, counted, hits
from tests.topology.test_followed import may_make

RICH = "page string, ms bigint, tags map<string,string>, more array<string>, ts timestamp"
COLUMNS = "connectors/delta/columns.py::check_columns"
TYPES = "connectors/delta/columns.py::_check_types"
DIAMOND = "compile/planner/diamond.py"
JOIN = "operators/join/stream_join.py::_check_names"


def rich():
    return hits(schema=RICH)


def marked():
    return rich().with_fields(watermark="ms")


def looked_up(on, schema="user string, tier string"):
    users = Dimension.from_file("users.csv", format="csv", schema=schema)
    return built(rich().dim_join(users, on=on, name="users"))


def meeting(change, *, durable=False):
    """Windows behind two branches of one source, each changed."""
    source = hits(schema="page string, ms bigint, ts timestamp")
    one, other = (change(source.filter(f"ms {what} 1", name=name)) for name, what in (("one", ">"), ("other", "<=")))
    united = one.union(other)
    return built(counted(united.shuffle(2, strategy="delta") if durable else united))


def in_python(stream):
    return stream.with_fields(ms=column(lambda: F.udf(len, "int")(F.col("page"))))


def late(stream):
    return counted(stream).late_to("late").to_data_stream().to_print().build()


def joined(change, **how):
    """Two streams, the second with a field of which nothing is known before Spark looks at it."""
    builder = begin("joined")
    one, two = (builder.from_file(f"{n}.jsonl", schema="id bigint, ts timestamp", name=n) for n in "ab")
    two = two.with_fields(**{name: column(lambda text=text: F.expr(text)) for name, text in change.items()})
    return built(one.join(two, on="id", how="left", **{"within": Time.minutes(1), "time_field": "ts", **how}))


def ordered(field, stream):
    return built(stream.window(OverWindow.rows(1, "ts", keep=[field])).count("n"))


def to_delta(stream, **how):
    return stream.to_delta("t", **how).build()


def of_a_name(name, **how):
    sink = DeltaSink(name="out", inputs=("in",), table="t", **{"mode": "upsert", "keys": ("n",), **how})
    check_columns(ArrowFrame(pa.table({"n": [1], name: [1]})), sink)


def inferred(folder, line):
    (folder / "a.jsonl").write_text(f"{line}\n")
    form = LineFormat("json")
    return infer_schema(SparkSession.active(), step="read", path=str(folder), form=form).names or None


CASES = [
    Case(
        "connectors/files/whole/spark_files.py::infer_schema",
        within(lambda folder: inferred(folder, "no JSON")),
        "pass schema='...'",
        lambda: built(hits(schema="page string")),
    ),
    Case(
        "compile/dim_join.py::_check",
        lambda: looked_up({"more": "user"}, "user array<string>"),
        "use texts, numbers, dates or times as keys",
        lambda: looked_up({"page": "user"}),
    ),
    Case(
        "compile/dim_join.py::_check_names",
        lambda: looked_up({"page": "user"}, "user string, _rs_tier string"),
        "leave it out of the dimension's schema, or rename it",
        lambda: (looked_up({"page": "user"}, "user string"), looked_up({"page": "user"}, "user string, tier string")),
    ),
    Case(
        "compile/distinct.py::_check_comparable",
        lambda: built(rich().distinct("tags", within=Time.minutes(1))),
        ".with_fields(entries='sort_array(map_entries(tags))')",
        lambda: (
            built(rich().with_fields(a="tags['a']").distinct("a", within=Time.minutes(1))),
            built(
                rich().with_fields(entries="sort_array(map_entries(tags))").distinct("entries", within=Time.minutes(1))
            ),
        ),
    ),
    Case(
        "compile/late_rows.py::check_late",
        lambda: late(marked()),
        "rename it before: .with_fields(mark='watermark'), then select_fields without it",
        lambda: late(marked().with_fields(mark="watermark").select_fields("page", "mark", "ts")),
    ),
    Case(
        f"{DIAMOND}::_own",
        lambda: meeting(lambda stream: stream.with_fields(page=column(lambda: F.to_json(F.struct("*"))))),
        "name the fields one by one",
        lambda: meeting(lambda stream: stream.with_fields(page="to_json(struct(page, ms))")),
    ),
    Case(
        f"{DIAMOND}::_own",
        lambda: meeting(in_python),
        "put .shuffle(n, strategy='delta') after the union",
        lambda: meeting(in_python, durable=True),
    ),
    Case(
        f"{DIAMOND}::_map",
        lambda: meeting(lambda stream: stream.map("inline(array(struct(page, ts)))")),
        "list the fields one by one",
        lambda: meeting(lambda stream: stream.map("page", "ts")),
    ),
    Case(
        JOIN,
        lambda: joined({"start_time": "ts"}, within=TEN, time_field="ts"),
        "within=Time.seconds",
        lambda: joined({"start_time": "ts"}),
    ),
    Case(
        JOIN,
        lambda: joined({"retracted": "false"}, early=True),
        "rename it before",
        lambda: joined({"undone": "false"}, early=True),
    ),
    Case(
        "operators/window/aggregate.py::check_ordered",
        lambda: ordered("tags", rich()),
        "take a field of it (.with_fields(...)), or text: .with_fields(tags='to_json(tags)')",
        lambda: (
            ordered("a", rich().with_fields(a="tags['a']")),
            ordered("tags", rich().with_fields(tags="to_json(tags)")),
        ),
    ),
    Case(
        TYPES,
        lambda: to_delta(rich().with_fields(ms="null")),
        "give the source a schema, or cast it with with_fields",
        lambda: to_delta(rich().with_fields(ms="cast(null as bigint)")),
    ),
    Case(
        COLUMNS,
        lambda: of_a_name("a`b"),
        "rename it before the sink, or use connector='jvm'",
        lambda: (of_a_name("a_b"), of_a_name("a`b", connector="jvm")),
    ),
    Case(
        "connectors/kafka/sink/records.py::_bytes",
        lambda: rich().to_kafka("localhost:9092", "out", key="tags").build(),
        "convert it to text: .with_fields(tags='to_json(tags)')",
        lambda: rich().with_fields(tags="to_json(tags)").to_kafka("localhost:9092", "out", key="tags").build(),
    ),
    Case(
        "connectors/kafka/sink/records.py::_headers",
        lambda: rich().to_kafka("localhost:9092", "out", headers="more").build(),
        "use a map<string,string>, or an array<struct<key:string,value:binary>>",
        lambda: [
            rich().with_fields(h=form).to_kafka("localhost:9092", "out", headers="h").build()
            for form in ("tags", "array(named_struct('key', page, 'value', cast(page as binary)))")
        ],
    ),
    Case(
        "runtime/job/analysis.py::declared_schema",
        lambda: built(hits(schema=None)),
        "declare it: schema='page string, ms bigint'",
        lambda: built(hits(schema="page string, ms bigint")),
    ),
    Case(
        "compile/planner/context.py::ddl_type",
        lambda: ddl_type("page string, ms", step="file"),
        "write it as 'page string, ms bigint'",
        lambda: ddl_type("page string, ms bigint", step="file"),
    ),
]
HERE = "topology/test_followed_on_spark.py::test_a_remedy_that_is_followed_to_the_letter_is_analysed"


def analysed(driver, program):
    def act(_):
        made = program()
        return made if isinstance(made, list | tuple) else [made]

    for each in driver.call(act):
        if hasattr(each, "topology"):
            analyse(each.topology, driver)


def refused(driver, case):
    with pytest.raises(RsError) as error:
        analysed(driver, case.wrong)
    return error.value.remedy


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[f"{case.place} {case.words}" for case in CASES])
def test_a_remedy_that_is_followed_to_the_letter_is_analysed(driver, case):
    remedy = refused(driver, case)
    assert case.words in remedy
    claimed = [row.split("\t") for row, test in table().items() if test == HERE]
    assert any(place == case.place and may_make(source, remedy) for place, source in claimed)
    analysed(driver, case.right)

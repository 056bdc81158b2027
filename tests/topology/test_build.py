"""Programs that are surely wrong do not build, in two lines that name the step and the remedy. No Spark."""

import subprocess
import sys
from collections.abc import Mapping

import pytest

from rs_assets import HoppingWindow, OverWindow, SessionWindow, StreamBuilder, Time, TumblingWindow, column
from rs_assets.errors import RsError, SchemaError, TopologyError, UnknownFieldError
from rs_assets.records.types import fields_in
from rs_assets.topology.check import build
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.check.rules import RULES
from rs_assets.topology.check.sql import read_sql
from rs_assets.topology.nodes.step import Filter
from tests.topology.spark_sql import CONDITIONS, FIELDS, SELECTED, VALUES
from tests.work import calls_of

ORDERS = "order_id bigint, country string, amount double, status string, ordered_at timestamp"
HOUR = Time.hours(1)


def orders(schema=ORDERS, **options):
    return StreamBuilder.data_stream("shop", "m").from_file("orders.csv", "csv", schema=schema, **options)


def windowed(stream, at="ordered_at"):
    return stream.window(TumblingWindow.of(HOUR, at))


def counted(stream, *by, at="ordered_at"):
    return windowed(stream, at).group_by(*by).count("n").to_data_stream()


def other():
    return StreamBuilder.data_stream("shop", "m").from_array([{"page": "/", "ms": 1}])


def joined(**options):
    both = StreamBuilder.data_stream("shop", "m")
    left = both.from_file("orders.csv", "csv", schema=ORDERS, name="left")
    right = both.from_file("paid.csv", "csv", schema="order bigint, paid double, at timestamp", name="right")
    return left.join(right, **({"within": HOUR, "time_field": ("ordered_at", "at")} | options))


def united(change):
    stream = orders()
    return stream.union(change(stream))


# A mistake, its error, and words of the two lines.
MISTAKES = {
    "filter": (lambda: orders().filter("amuont > 1"), UnknownFieldError, "'amuont'", "did you mean 'amount'?"),
    "filter, a dangling operator": (lambda: orders().filter("amount >> "), TopologyError, "parse", "Spark SQL"),
    "filter, a dangling word": (lambda: orders().filter("amount > 1 and"), TopologyError, "parse", "Spark SQL"),
    "filter, a bracket": (lambda: orders().filter("(amount > 1"), TopologyError, "'(' is not closed", "Spark SQL"),
    "filter, a quote": (lambda: orders().filter("status = 'paid"), TopologyError, "quote", "single quotes"),
    "filter, a bare word": (lambda: orders().filter("status == paid"), UnknownFieldError, "'paid'", "quotes: 'paid'"),
    "filter, no condition": (lambda: orders().filter("amount"), TopologyError, "is a double", "compare it"),
    "filter, no fields": (lambda: orders().filter("1 = 1 = "), TopologyError, "parse", "Spark SQL"),
    "with_fields": (lambda: orders().with_fields(eur="amuont*2"), UnknownFieldError, "'amuont'", "'amount'?"),
    "select_fields": (lambda: orders().select_fields("contry"), UnknownFieldError, "'contry'", "'country'?"),
    "select_fields, case": (lambda: orders().select_fields("Country"), UnknownFieldError, "'Country'", "'country'?"),
    "map": (lambda: orders().map("country", "amuont * 2 AS x"), UnknownFieldError, "'amuont'", "'amount'?"),
    "map, one text": (lambda: orders().map("country, amount"), TopologyError, "a list", "Spark SQL"),
    "behind a map": (lambda: orders().map("country AS c").filter("country = 'x'"), UnknownFieldError, "'country'", "c"),
    "behind a function": (
        lambda: orders().map(lambda row: row, schema="a int").filter("b > 1"),
        UnknownFieldError,
        "'b'",
        "use one of: a",
    ),
    "flat_map": (lambda: orders().flat_map("explode(itmes) AS item"), UnknownFieldError, "'itmes'", "use one of"),
    "a function's schema": (
        lambda: orders().map(lambda row: row, schema="a text"),
        SchemaError,
        "'text'",
        "write string",
    ),
    "split": (lambda: orders().split("statsu").select("paid"), UnknownFieldError, "'statsu'", "'status'?"),
    "group_by": (lambda: counted(orders(), "contry"), UnknownFieldError, "'contry'", "'country'?"),
    "sum": (lambda: windowed(orders()).sum("ammount").to_data_stream(), UnknownFieldError, "'ammount'", "'amount'?"),
    "sum of text": (
        lambda: windowed(orders()).sum("status").to_data_stream(),
        TopologyError,
        "which is a string",
        "cast(status as double)",
    ),
    "avg of a time": (
        lambda: windowed(orders()).avg("ordered_at").to_data_stream(),
        TopologyError,
        "which is a timestamp",
        "number",
    ),
    "event time": (lambda: counted(orders(), at="orderd_at"), UnknownFieldError, "'orderd_at'", "'ordered_at'?"),
    "event time of a wrong type": (
        lambda: counted(orders(), at="amount"),
        TopologyError,
        "is a double",
        "timestamp_seconds()",
    ),
    "a session's": (
        lambda: orders().window(SessionWindow.of(HOUR, "at")).count().to_data_stream(),
        UnknownFieldError,
        "'at'",
        "use one of",
    ),
    "a hopping window's": (
        lambda: orders().window(HoppingWindow.of(HOUR, HOUR, "at")).count().to_data_stream(),
        UnknownFieldError,
        "'at'",
        "use one of",
    ),
    "behind a window": (
        lambda: counted(orders(), "country").filter("amount > 1"),
        UnknownFieldError,
        "'amount'",
        "country, n, start_time, end_time, fire_time",
    ),
    "window, map without the time": (
        lambda: counted(orders().map("country")),
        UnknownFieldError,
        "'ordered_at'",
        "country",
    ),
    "distinct": (lambda: orders().distinct("id", within=HOUR), UnknownFieldError, "'id'", "order_id"),
    "distinct, wrong time": (
        lambda: orders().distinct("order_id", within=HOUR, time_field="amount"),
        TopologyError,
        "is a double",
        "timestamp",
    ),
    "join": (lambda: joined(on="id"), UnknownFieldError, "'id'", "order_id"),
    "join, right side": (lambda: joined(on={"order_id": "id"}), UnknownFieldError, "'id'", "order, paid, at"),
    "join, time": (
        lambda: joined(on={"order_id": "order"}, time_field=("ordered_at", "paid")),
        TopologyError,
        "is a double",
        "timestamp_seconds()",
    ),
    "join, types": (
        lambda: joined(on={"status": "order"}),
        TopologyError,
        "'status', which is a string, with 'order', which is a bigint",
        "cast(order as string)",
    ),
    "behind a join": (
        lambda: joined(on={"order_id": "order"}, prefix="p_").filter("paid > 1"),
        UnknownFieldError,
        "'paid'",
        "'p_paid'?",
    ),
    "shuffle": (lambda: orders().shuffle(2, keys=["contry"]), UnknownFieldError, "'contry'", "'country'?"),
    "durable shuffle": (
        lambda: orders().shuffle(2, keys=["contry"], strategy="delta"),
        UnknownFieldError,
        "'contry'",
        "'country'?",
    ),
    "behind a durable shuffle": (
        lambda: orders().shuffle(2, strategy="delta").filter("amuont > 1"),
        UnknownFieldError,
        "'amuont'",
        "'amount'?",
    ),
    "union, names": (
        lambda: united(lambda s: s.select_fields("order_id")),
        TopologyError,
        "different fields",
        "select_fields or map",
    ),
    "union, types": (
        lambda: united(lambda s: s.with_fields(amount="cast(amount AS int)")),
        TopologyError,
        "'amount' is a double after 'file' and a int",
        "cast(amount as double)",
    ),
    "upsert": (
        lambda: orders().to_delta("t", mode="upsert", keys=["id"]),
        UnknownFieldError,
        "'id'",
        "order_id",
    ),
    "a file system": (lambda: orders().to_delta("hdfs://host/t"), TopologyError, "hdfs://host/t", "s3://bucket/table"),
    "partition_by": (lambda: orders().to_delta("t", partition_by=["day"]), UnknownFieldError, "'day'", "use one of"),
    "kafka key": (
        lambda: orders().to_kafka("localhost:9092", "t", key="id"),
        UnknownFieldError,
        "'id'",
        "order_id",
    ),
    "schema, no type": (lambda: orders("a int, b datetime"), SchemaError, "'datetime'", "write timestamp"),
    "schema, misspelled": (lambda: orders("a strin"), SchemaError, "'strin'", "write string"),
    "schema, a field alone": (lambda: orders("a int, b"), SchemaError, "'b' has no type", "page string, ms bigint"),
    "schema, a bracket": (lambda: orders("a array<int"), SchemaError, "not closed", "page string, ms bigint"),
    "schema, twice": (lambda: orders("a int, b int, a int"), SchemaError, "'a' is there twice", "another name"),
    "schema, case": (lambda: orders("a int, A string"), SchemaError, "'a' and 'A' are one name", "another name"),
    "schema, array": (lambda: orders("a array"), SchemaError, "array without element types", "array<string>"),
    "schema, decimal": (lambda: orders("a decimal(50)"), SchemaError, "decimal(50,0)", "38"),
    "a struct's field": (
        lambda: orders("at struct<day: date, hour: int>").filter("at.hours > 1"),
        UnknownFieldError,
        "'at.hours'",
        "'at.hour'?",
    ),
    "rows of a program": (lambda: other().filter("pgae = '/'"), UnknownFieldError, "'pgae'", "'page'?"),
    "types of rows of a program": (
        lambda: other().window(TumblingWindow.of(HOUR)).sum("page").to_data_stream(),
        TopologyError,
        "which is a string",
        "cast(page as double)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_surely_wrong_does_not_build(mistake):
    write, error, what, remedy = MISTAKES[mistake]
    with pytest.raises(RsError) as caught:
        write().to_print().build()
    assert type(caught.value) is error
    first, second = str(caught.value).splitlines()
    step = caught.value.facts["step"]
    assert what in first
    assert f"[step={step}]" in first
    assert second.startswith("  remedy: ")
    assert remedy in second


@pytest.mark.parametrize("text", [*CONDITIONS, *VALUES])
def test_what_spark_accepts_builds(text):
    """Spark accepts the same ones: tests/operators/test_build_against_spark.py."""
    stream = orders(FIELDS)
    assert (stream.filter(text) if text in CONDITIONS else stream.with_fields(new=text)).to_print().build()


@pytest.mark.parametrize("parts", SELECTED, ids=", ".join)
def test_what_spark_selects_builds(parts):
    assert orders(FIELDS).map(*parts).to_print().build()


def shown(stream):
    topology = stream.to_print().build().topology
    known = check_fields(topology)[topology["print"].inputs[0]]
    return {name: kind.text if kind else "?" for name, kind in known.types.items()} if known.whole else None


LISTS = {
    "select_fields": lambda given: orders().select_fields(*given),
    "distinct": lambda given: orders().distinct(*given, within=HOUR),
    "group_by": lambda given: windowed(orders()).group_by(*given).count("n"),
    "to_table": lambda given: orders().to_table(*given, order_by="order_id").to_stream(),
    "group_by of a stream": lambda given: orders().group_by(*given).count("n").to_table().to_stream(),
    "group_by of a table": lambda given: (
        orders()
        .to_table("country", order_by="order_id")
        .group_by(*given)
        .count("n")
        .to_table(name="groups")
        .to_stream()
    ),
}


@pytest.mark.parametrize("method", LISTS)
def test_a_list_of_fields_is_refused_and_names_one_by_one_are_taken(method):
    with pytest.raises(TopologyError) as error:
        LISTS[method]([["country", "status"]])
    assert error.value.remedy == f"pass them one by one: .{method.partition(' ')[0]}('country', 'status')"
    LISTS[method](["country", "status"]).to_print().build()


def test_one_field_of_an_over_window_may_be_a_text():
    assert OverWindow.rows(9, "ordered_at", keep="amount").keep == ("amount",)
    assert OverWindow.range(HOUR, "ordered_at", keep="amount").keep == ("amount",)


def test_an_earliest_event_time_that_is_a_text_is_refused():
    window = windowed(orders()).count("n")
    with pytest.raises(TopologyError, match="must be a datetime with a time zone"):
        window.event_time(earliest="2026-01-01")


def test_the_fields_of_each_step():
    stream = orders()
    sums = windowed(stream).group_by("country").sum("order_id", "ids").sum("amount").avg("order_id", "mean")
    window = sums.collect("status").min("ordered_at", "first").to_data_stream()
    times = dict.fromkeys(("start_time", "end_time", "fire_time"), "timestamp")
    assert shown(window) == {
        "country": "string", "ids": "bigint", "amount": "double", "mean": "double", "status": "array<string>",
        "first": "timestamp", **times,
    }  # fmt: skip
    often = sums.collect("status").emit_before(Time.minutes(5)).to_data_stream()
    assert list(shown(often).items())[-2:] == [("fire_time", "timestamp"), ("final", "boolean")]
    assert shown(orders().map("*", "amount > 1 AS big", "upper(country) AS c")) == {
        "order_id": "bigint", "country": "string", "amount": "double", "status": "string", "ordered_at": "timestamp",
        "big": "boolean", "c": "?",
    }  # fmt: skip
    assert shown(orders().with_fields(AMOUNT="cast(amount AS decimal(10, 2))").select_fields("AMOUNT")) == {
        "AMOUNT": "decimal(10,2)"
    }


@pytest.mark.parametrize(
    "stream",
    [
        lambda: orders(None),
        lambda: orders().map("upper(country)"),
        lambda: orders().map(column(lambda: None)),
        lambda: orders().flat_map("inline(array(struct(1 AS a)))"),
        lambda: orders("`größe` int").map("*", "explode(array(1))"),
    ],
)
def test_behind_what_is_not_known_every_field_may_be_there(stream):
    assert shown(stream()) is None
    assert stream().filter("whatever > 1 and `x y` = 2").select_fields("a", "b").to_print().build()


@pytest.mark.parametrize("at", ["timestamp", "timestamp_ntz", "bigint", "string"])
def test_an_event_time_may_be(at):
    assert counted(orders(f"at {at}"), at="at").to_print().build()


def test_a_node_type_without_a_row_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(build, "RULES", {kind: rule for kind, rule in RULES.items() if kind is not Filter})
    assert shown(orders().filter("amuont > 1")) is None


def test_a_schema_is_read_as_spark_reads_it():
    assert isinstance(fields_in("a int"), Mapping)
    assert fields_in("a varchar(5), b interval day to second")["a"] is None


def test_build_of_fifty_steps_makes_few_calls():
    orders().filter("amount > 0").to_print().build()

    def built():
        stream = orders()
        for number in range(25):
            stream = stream.filter(f"amount > {number} AND status <> 's{number}'")
            stream = stream.with_fields(**{f"f{number}": f"amount * {number}"})
        read_sql.cache_clear()
        return calls_of(lambda: stream.to_print().build())[1]

    built()
    assert built() < 100_000


def test_a_build_loads_no_more_than_it_needs():
    """Spark never, the parser of SQL only where there is SQL."""
    text = (
        "import sys; from rs_assets import StreamBuilder\n"
        "stream = StreamBuilder.data_stream('a', 'b').from_file('x.jsonl', schema='a int').select_fields('a')\n"
        "stream.to_print().build(); assert 'sqlglot' not in sys.modules\n"
        "stream.filter('a > 1').to_print().build()\n"
        "assert 'sqlglot' in sys.modules and not {'pyspark', 'pyarrow', 'dagster'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: orders().to_delta("t", mode="overwrite"), "append, upsert, history, complete"),
        (lambda: StreamBuilder.data_stream("shop", "m").from_file("orders.csv", "CSV"), "json, text, csv, parquet"),
    ],
    ids=["mode", "format"],
)
def test_a_wrong_choice_is_answered_by_the_words_there_are(write, words):
    with pytest.raises(TopologyError, match=f"remedy: use one of: {words}"):
        write()


@pytest.mark.parametrize(
    ("path", "chosen", "format"),
    [("o.csv", None, "csv"), ("in/*.CSV.gz", None, "csv"), ("o.parquet", None, "parquet"), ("o.csv", "json", "json"),
     ("o.jsonl", None, "json"), ("in.csv/", None, "csv"), ("in", None, "json")],
)  # fmt: skip
def test_the_ending_of_a_path_tells_the_format_that_was_left_out(path, chosen, format):  # noqa: A002  its name
    stream = StreamBuilder.data_stream("shop", "m").from_file(path, chosen, schema="a int")
    assert stream.to_print().build().topology.sources[0].format == format


def test_a_glob_for_a_pattern_is_told_where_it_stands():
    with pytest.raises(TopologyError, match=r"(?s)a pattern needs format='text'.*selects the files: 'logs/\*.json'"):
        StreamBuilder.data_stream("shop", "files").from_file("logs", schema="n bigint", pattern="*.json")

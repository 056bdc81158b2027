"""Steps with a function that Spark computes give what they give with the function in Python: rows, errors, state."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from rs_assets import CountWindow, Processor, StreamBuilder, Time, TumblingWindow, ValueStore
from rs_assets.compile.planner.context import Flow
from rs_assets.compile.python.tracing.explain import compiled
from rs_assets.compile.step import compile_filter
from rs_assets.errors import EngineError, StepError
from rs_assets.testing import PipelineDriver

SCHEMA = "page string, ms bigint, ts timestamp"
START = datetime(2024, 1, 1, tzinfo=UTC)


def row(page, ms, second=0):
    return {"page": page, "ms": ms, "ts": START + timedelta(seconds=second)}


ROWS = [row("/a", 5), row("/b", 500), row(None, None), row("", 0), row("/a ", 2**63 - 1), row("ß", -1)]
NAMED = frozenset({"/a", "/b"})
STEPS = {
    "filter": lambda s, trace: s.filter(lambda r: r["page"] == "/a" or (r["ms"] or 0) > 100, trace=trace),
    "filter in part": lambda s, trace: s.filter(lambda r: r["page"] in NAMED and r["page"].count("a"), trace=trace),
    "all": lambda s, trace: s.filter(lambda r: True, trace=trace),
    "none": lambda s, trace: s.filter(lambda r: None, trace=trace),
    "map": lambda s, trace: s.map(
        lambda r: {"p": (r["page"] or "-").strip(), "slow": (r["ms"] or 0) > 100, "ts": r["ts"], "k": "x"},
        schema="p string, slow boolean, ts timestamp, k string",
        trace=trace,
    ),
    "map of the record": lambda s, trace: s.map(
        lambda r: {**r, "x": "-" if r["page"] is None else r["page"], "ms": (r["ms"] or 0) % 7},
        schema="x string, ts timestamp, ms bigint, page string",
        trace=trace,
    ),
    "map of numbers": lambda s, trace: s.map(
        lambda r: {"s": None if r["ms"] is None else r["ms"] / 1000}, schema="s double", trace=trace
    ),
    "map in part": lambda s, trace: s.map(
        lambda r: {"ts": r["ts"], "p": "-" if r["page"] is None else r["page"] if r["ms"] == 5 else r["page"].title()},
        schema="ts timestamp, p string",
        trace=trace,
    ),
    "flat_map": lambda s, trace: s.flat_map(
        lambda r: [{"c": c} for c in r["page"]] if r["page"] in NAMED else [], schema="c string", trace=trace
    ),
    "split": lambda s, trace: s.split(lambda r: "slow" if (r["ms"] or 0) > 100 else None, trace=trace).select("slow"),
    "several": lambda s, trace: (
        s.filter(lambda r: r["ms"] is not None, trace=trace)
        .map(lambda r: {"page": r["page"], "n": r["ms"] // 10}, schema="page string, n bigint", trace=trace)
        .filter(lambda r: r["page"].count("/") == 1, trace=trace)
        .filter(lambda r: r["n"] > 5, trace=trace)
    ),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_the_rows_are_the_same(source, compute, step):
    assert compute(step(source(SCHEMA), True), ROWS) == compute(step(source(SCHEMA), False), ROWS)


class Numbered(Processor):
    """Each row of a key with its number."""

    rows = ValueStore("n int")

    def process(self, key, row, context):
        n = (context.rows.get() or {"n": 0})["n"] + 1
        context.rows.put({"n": n})
        context.forward({**key, "n": n, "ts": row["ts"]})


BY_PLACE = {
    "processor": lambda s: s.process(Numbered, keys="p", schema="p string, n int, ts timestamp"),
    "table": lambda s: s.to_table("p", order_by="ts").to_stream(),
    "number of rows": lambda s: s.window(CountWindow.of(2)).collect("p", "of").to_data_stream().select_fields("of"),
}


@pytest.mark.parametrize("after", BY_PLACE.values(), ids=BY_PLACE)
def test_records_that_python_maps_keep_their_place_in_the_source(source, drive, after):
    """The number of such a record in its batch had the name of that column: the run ended."""
    rows = [row("/a", 5), row("/b", 500, 1), row("/a", 7, 2), row(None, 9, 3), row("/b", 500, 4)]
    traced, called = (drive(after(STEPS["map in part"](source(SCHEMA), trace)), rows) for trace in (True, False))
    assert traced == called != []


def test_a_map_of_the_record_and_more_needs_no_python():
    stream = StreamBuilder.data_stream("test", "more").from_file("in.jsonl", schema=SCHEMA)
    made = stream.map(lambda r: {**r, "x": 1, "ms": None}, schema=f"{SCHEMA}, x bigint", name="more")
    assert compiled(made.to_print().build().topology) == {"more": "compiled"}


def plan_of(frame, function, *, trace=True, run=True, located=()):
    """What Spark makes of a filter: its plans, as text."""
    stream = StreamBuilder.data_stream("test", "plans").from_file("in.jsonl", schema=SCHEMA)
    node = stream.filter(function, trace=trace).to_print().build().topology["filter_1"]
    context = SimpleNamespace(trace=run, quarantines=False, streaming=True, located=frozenset(located))
    return compile_filter(context, node, (Flow(frame),)).df._jdf.queryExecution().toString()


def test_the_switch_of_a_run_and_of_a_step(spark):
    def plan(function, context):
        return plan_of(spark.createDataFrame([], SCHEMA), function[0], trace=function[1], run=context)

    whole, part = lambda r: r["ms"] == 5, lambda r: r["ms"] == 5 and hash(r["page"])
    assert "MapInArrow" not in plan((whole, True), True)
    assert "Filter" in plan((part, True), True)
    assert "MapInArrow" in plan((part, True), True)
    for step, run in ((False, True), (True, False)):
        assert "Filter" not in plan((part, step), run)
        assert "MapInArrow" in plan((whole, step), run)


def test_compile_filter_of_a_function_that_raises_on_null_asks_the_source_and_needs_no_python(spark, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"page":"/a"}')
    rows = spark.read.schema(SCHEMA).json(str(tmp_path))
    located = plan_of(rows, lambda r: r["page"].startswith("/check"), located={"filter_1"})
    assert "PushedFilters: [Or(IsNull(page),StringStartsWith(page,/check))]" in located
    assert "raise_error" in located
    assert "MapInArrow" not in located
    # No replay would find the record.
    unknown = plan_of(rows, lambda r: r["page"].startswith("/check"))
    assert "StringStartsWith(page,/check)" in unknown
    assert "MapInArrow" in unknown


def test_compile_filter_of_a_function_left_to_python_sends_the_fields_that_it_reads(spark, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"page":"/a"}')
    rows = spark.read.schema(SCHEMA).json(str(tmp_path))
    alone = plan_of(rows, lambda r: r["page"] == "/a", trace=False, located={"filter_1"})
    assert "ArrowEvalPython [judged(page#" in alone
    assert "MapInArrow" not in alone
    for function, located in ((lambda r: r["page"] == "/a", ()), (lambda r: r["nope"] == 1, {"filter_1"})):
        assert "MapInArrow" in plan_of(rows, function, trace=False, located=located)


def test_a_run_calls_a_filter_in_python_on_the_records_between_the_filters_around_it(source, drive):
    """By SQL: neither is the function called before the first filter, nor does the second one spare it a record."""
    steps = source(SCHEMA).filter("ms IS NOT NULL").filter(lambda r: r["ms"] > 100, trace=False).filter("page <> '/c'")
    rows = [row("/a", 5), row(None, None), row("/b", 500), row("/c", 700), row(None, 900)]
    assert [r["page"] for r in drive(steps, rows)] == ["/b"]
    failing = source(SCHEMA).filter(lambda r: 500 // r["ms"] > 0, trace=False).filter("ms > 0")
    assert [r["ms"] for r in drive(failing, [row("/a", 5), row("/a", 500)])] == [5, 500]
    with pytest.raises(StepError, match="raised ZeroDivisionError") as caught:
        drive(failing, [row("/a", 5), row("/b", 0), row("/c", 7)])
    assert (caught.value.facts["line"], "'page': '/b'" in caught.value.facts["record"]) == (2, True)


RAISING = {
    "a filter": lambda s: s.filter(lambda r: r["ms"] > 100).filter("ms IS NOT NULL"),
    "a map": lambda s: s.map(lambda r: {"p": r["page"].strip()}, schema="p string").filter("p IS NOT NULL"),
    "a split": lambda s: s.split(lambda r: "slow" if r["ms"] > 100 else None).select("slow"),
}


@pytest.mark.parametrize("steps", RAISING.values(), ids=RAISING)
def test_a_run_of_a_function_that_raises_on_null_ends_at_the_record_that_a_later_step_drops(source, drive, steps):
    rows = [row("/a", 5), row(None, None), row("/b", 500)]
    assert len(drive(steps(source(SCHEMA)), [rows[0], rows[2]])) in (1, 2)
    with pytest.raises(StepError, match=r"raised (TypeError|AttributeError): .*NoneType") as caught:
        drive(steps(source(SCHEMA)), rows)
    assert (caught.value.facts["split"], caught.value.facts["line"]) == ("memory-source", 2)


@pytest.mark.parametrize("trace", [True, False])
def test_what_a_function_raises_ends_the_batch(source, drive, trace):
    stream = source(SCHEMA).filter(lambda r: r["ms"] > 100, trace=trace)
    assert [r["ms"] for r in drive(stream, [row("/a", 5), row("/b", 500)])] == [500]
    with pytest.raises(StepError, match=r"step 'filter_1' raised TypeError.*NoneType"):
        drive(stream, [row("/a", 5), row(None, None), row("/b", 500)])


def test_text_that_is_no_text_is_compared_by_its_bytes(source, compute):
    """What the docs tell of: Python cannot hold such a value."""

    def kept(trace):
        stream = source(SCHEMA).map("cast(X'61FF' AS string) AS page", "ms")
        return compute(stream.filter(lambda r: r["page"] != "a" and r["ms"] == 5, trace=trace).map("ms"), ROWS)

    assert kept(True) == [{"ms": 5}]
    with pytest.raises(EngineError, match="UnicodeDecodeError"):
        kept(False)


def test_a_time_that_python_cannot_hold_matters_where_it_is_read(source, compute):
    """What the docs tell of: in Python such a value ends the batch whatever the row."""

    def kept(trace, most):
        stream = source(SCHEMA).map("ms", "make_timestamp(if(ms = 500, 12000, 2024), 1, 1, 0, 0, 0) AS far")
        read = stream.filter(lambda r: r["ms"] is not None and r["ms"] < most and r["far"] is not None, trace=trace)
        return [r["ms"] for r in compute(read.map("ms"), ROWS)]

    assert kept(True, 10) == [5, 0, -1]
    for trace, most in ((False, 10), (True, 1000)):
        with pytest.raises(EngineError, match="out of range"):
            kept(trace, most)


@pytest.mark.parametrize("trace", [True, False])
def test_the_error_of_a_map_names_its_line(source, drive, trace):
    stream = source(SCHEMA).map(lambda r: {"n": r["ms"] + 1}, schema="n bigint", trace=trace)
    with pytest.raises(StepError, match=r"step 'map_1' raised TypeError") as caught:
        drive(stream, [row("/a", 5), row(None, None), row("/b", 500)])
    assert (caught.value.facts["split"], caught.value.facts["line"]) == ("memory-source", 2)


@pytest.mark.parametrize("policy", ["quarantine", "dead_letter"])
def test_rows_are_accounted_for_alike(options, tmp_path, policy):
    path = tmp_path / "in.jsonl"
    path.write_text('{"n":1}\n{"n":null}\nbroken\n{"n":20}\n{"n":3}\n{"n":40}\n{"n":5,"s":"x"}\n')
    found = []
    for job, trace in (("traced", True), ("untraced", False)):
        stream = StreamBuilder.data_stream("test", job).from_file(path, schema="n bigint, s string", bad_records=policy)
        stream = stream.filter(lambda r: r["s"] != "x", trace=trace, name="known")
        if policy == "quarantine":
            stream = stream.filter(lambda r: r["n"] > 2, trace=trace, name="big")
            stream = stream.map(
                lambda r: {"n": r["n"] if r["n"] < 30 else r["n"] // (r["n"] - 40)}, schema="n bigint", trace=trace
            )
        stream = stream.map(lambda r: {"n": (r["n"] or 0) + 1}, schema="n bigint", trace=trace)
        report = stream.to_delta(job).build().run(options)
        kept = DeltaTable(options.home.table("test", job)).to_pyarrow_table()["n"].to_pylist()
        letters = DeltaTable(str(options.home.dead_letters)).to_pyarrow_table().to_pylist()
        dead = sorted((d["step"], d["line"], d["reason"]) for d in letters if d["job"] == job)
        found.append((report.rows_in, report.rows_dead, report.rows_out, sorted(kept)[-3:], dead))
    assert found[0] == found[1]
    assert found[0][1] == (3 if policy == "quarantine" else 1)


def windows(trace, emit):
    stream = StreamBuilder.data_stream("test", "windows").from_file("in.jsonl", schema=SCHEMA)
    stream = stream.filter(lambda r: r["page"] != "/b", trace=trace).map(
        lambda r: {"k": "x", "slow": (r["ms"] or 0) > 100, "p": r["page"], "n": len(r["page"] or ""), "ts": r["ts"]},
        schema="k string, slow boolean, p string, n bigint, ts timestamp",
        trace=trace,
    )
    made = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), emit=emit).group_by("k", "slow", "p").count("rows")
    made = made.sum("n", "total").min("n", "least").water_mark(Time.seconds(5)).to_data_stream()
    return made.filter(lambda r: r["rows"] > 0, trace=trace).to_print().build()


@pytest.mark.parametrize("emit", ["on_window_close", "on_update_and_close"])
def test_state_goes_on_when_tracing_is_switched(driver, tmp_path, emit):
    batches = [[row("/a", 5, 1), row("/b", 5, 2)], [row("/a", 500, 3), row(None, None, 4)]]
    batches.append([row("/c", 1, 12), row("/a", 7, 6)])
    last = {}
    for number, batch in enumerate(batches):
        with PipelineDriver(windows(number % 2 == 1, emit), spark=driver, home=tmp_path) as running:
            running.push(batch)
            running.step()
            if number == len(batches) - 1:
                running.finish()
            last.update({(r["start_time"], r["k"], r["slow"], r["p"]): r for r in running.take()})
    ten = START + timedelta(seconds=10)
    assert {key: (r["rows"], r["total"], r["least"]) for key, r in last.items()} == {
        (START, "x", False, "/a"): (2, 4, 2),
        (START, "x", True, "/a"): (1, 2, 2),
        (START, "x", False, None): (1, 0, 0),
        (ten, "x", False, "/c"): (1, 2, 2),
    }

"""Remedies of steps, of functions in Python and of how a pipeline is cut into queries."""

from __future__ import annotations

from rs_assets import F, SessionWindow, Time, column
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.udf.names import check_names
from tests.topology.followed_programs import MINUTE, TEN, Case, built, counted, hits

EXPRESSION = "topology/user_code/expression.py"
REDUCTION = "stream/reduction.py::"
PLAN = "compile/planner/plan.py"
NAMES = "udf/names.py::check_names"
SESSION = SessionWindow.of(Time.seconds(7), "ts")


class Longest:
    """An accumulator, as the remedy says: create, accumulate and value."""

    def create(self):
        return ""

    def accumulate(self, accumulator, row):
        return max(accumulator, row["page"], key=len)

    def value(self, accumulator):
        return {"longest": accumulator}


class Merged(Longest):
    """One with merge, as another remedy says."""

    def merge(self, one, other):
        return max(one, other, key=len)


class Annotated(Merged):
    def create(self) -> str:
        return ""


def mapped(row):
    return row


def reduced(function, schema="longest string", **how):
    return built(hits().window(TEN).reduce(function, schema=schema, **how))


def planned(stream):
    return plan_queries(stream.build().topology)


def between(stream=None, **how):
    """An expectation between two windows."""
    first = counted(stream).to_data_stream().expect("n > 0", **how)
    return planned(first.window(MINUTE, name="minutes").sum("n", "n").to_data_stream().to_print())


def between_with_shuffle(**how):
    first = counted().to_data_stream().shuffle(2, strategy="delta").expect("n > 0", **how)
    return planned(first.window(MINUTE, name="minutes").sum("n", "n").to_data_stream().to_print())


def complete(stream):
    return planned(stream.to_delta("t", mode="complete"))


def by_split(stream, **how):
    return planned(counted(stream).water_mark(Time.seconds(5), per="split", **how).to_print())


CASES = [
    Case(
        "topology/check/rules.py::_check_twice",
        lambda: built(hits().map("page", "ms AS page")),
        "leave one out, or give it another name: ... AS other_page",
        lambda: built(hits().map("page", "ms AS other_page")),
    ),
    Case(
        f"{PLAN}::_check_letters",
        lambda: between(on_fail="dead_letter"),
        "use on_fail='skip', 'warn' or 'fail'",
        lambda: between(on_fail="skip"),
    ),
    Case(
        f"{PLAN}::_check_letters",
        lambda: between(on_fail="dead_letter"),
        "put .shuffle(n, strategy='delta') before it",
        lambda: between_with_shuffle(on_fail="dead_letter"),
    ),
    Case(
        "records/policy.py::OnFail.of",
        lambda: built(hits().expect("ms > 0", on_fail="drop")),
        "'skip'",
        lambda: built(hits().expect("ms > 0", on_fail="skip")),
    ),
    Case(
        "topology/nodes/step.py::Expect.__post_init__",
        lambda: built(hits().expect(lambda hit: hit["ms"] > 0)),
        "compute a field by .map(...) before it",
        lambda: built(hits().map(lambda hit: {"good": hit["ms"] > 0}, schema="good boolean").expect("good")),
    ),
    Case(
        "topology/nodes/step.py::Expect.__post_init__",
        lambda: built(hits().expect("ms > 0", tolerated=1)),
        "tolerated=0.01",
        lambda: built(hits().expect("ms > 0", tolerated=0.01)),
    ),
    Case(
        f"{EXPRESSION}::column",
        lambda: column("a > 1"),
        "column(lambda: F.col('a') > 1)",
        lambda: built(hits(schema="a int").filter(column(lambda: F.col("a") > 1))),
    ),
    Case(
        f"{EXPRESSION}::native",
        lambda: built(hits().with_fields(more=5)),
        "pass a string, or a Column made by rs_assets.F",
        lambda: (built(hits().with_fields(more="5")), built(hits().with_fields(more=F.lit(5)))),
    ),
    Case(
        f"{EXPRESSION}::returned_schema",
        lambda: built(hits().map(mapped)),
        "pass schema='page string, ms bigint'",
        lambda: built(hits().map(mapped, schema="page string, ms bigint")),
    ),
    Case(
        f"{REDUCTION}reduction",
        lambda: reduced("longest"),
        "or an object with create(), accumulate(accumulator, row) and value(accumulator)",
        lambda: reduced(Longest()),
    ),
    Case(
        f"{REDUCTION}reduction",
        lambda: reduced(Longest(), merge=max),
        "with merge(one, other) it keeps accumulators",
        lambda: reduced(Annotated()),
    ),
    Case(
        f"{REDUCTION}_kind_of",
        lambda: reduced(Merged()),
        "declare it as accumulator='struct<n bigint, total double>'",
        lambda: reduced(Merged(), accumulator="struct<n bigint, total double>"),
    ),
    Case(
        f"{REDUCTION}_kind_of",
        lambda: reduced(Merged()),
        "annotate what create() returns",
        lambda: reduced(Annotated()),
    ),
    Case(
        f"{REDUCTION}_kind_of",
        lambda: reduced(Merged()),
        "without a method merge the window keeps its rows",
        lambda: reduced(Longest()),
    ),
    Case(
        f"{REDUCTION}_fields_of",
        lambda: reduced(mapped, "page string default 1"),
        "write them as 'page string, ms bigint', without further words",
        lambda: reduced(mapped, "first string, ms bigint"),
    ),
    Case(
        NAMES,
        lambda: check_names(["region of"]),
        "use letters, digits and _: name='region_of'",
        lambda: check_names(["region_of"]),
    ),
    Case(
        NAMES,
        lambda: check_names(["upper"]),
        "name='my_name'",
        lambda: check_names(["my_name"]),
    ),
    Case(
        f"{PLAN}::_check_complete",
        lambda: complete(counted(window=SESSION)),
        "use append",
        lambda: planned(counted(window=SESSION).to_delta("t", mode="append")),
    ),
    Case(
        f"{PLAN}::_check_complete",
        lambda: complete(counted(counted(), MINUTE, "minutes")),
        "use append or upsert, or put .shuffle(n, strategy='delta') before 'minutes'",
        lambda: (
            planned(counted(counted(), MINUTE, "minutes").to_delta("t", mode="append")),
            complete(counted(counted().shuffle(2, strategy="delta"), MINUTE, "minutes")),
        ),
    ),
    Case(
        f"{PLAN}::_check_splits",
        lambda: by_split(hits(tail=True).shuffle(2, strategy="delta")),
        "leave per='split' out, or the shuffle",
        lambda: (
            planned(counted(hits(tail=True).shuffle(2, strategy="delta")).water_mark(Time.seconds(5)).to_print()),
            by_split(hits(tail=True)),
        ),
    ),
    Case(
        f"{PLAN}::_check_places",
        lambda: by_split(hits(), lateness="record"),
        "follow the files (tail=True), or leave lateness='record' out",
        lambda: (by_split(hits(tail=True), lateness="record"), by_split(hits())),
    ),
]

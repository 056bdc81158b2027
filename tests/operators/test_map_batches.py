"""map_batches: a function of Arrow batches makes a record of each record."""

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rs_assets import StreamBuilder
from rs_assets.compile.python.batch_step import BatchStep
from rs_assets.errors import StepError, TopologyError, UnknownFieldError

SCHEMA = "page string, ms bigint"
ROWS = [{"page": f"/{n}", "ms": n} for n in range(7)]
MADE = "page string, twice bigint"
TWICE = [{"page": row["page"], "twice": row["ms"] * 2} for row in ROWS]


def in_arrow(batch):
    return pa.table([batch["page"], pc.multiply(batch["ms"], 2)], names=["page", "twice"])


def in_pandas(batch):
    frame = batch.to_pandas()
    return pd.DataFrame({"twice": frame.ms * 2, "page": frame.page})


def in_columns(batch):
    return {"page": batch["page"].to_pylist(), "twice": batch["ms"].to_numpy() * 2}


def inverse(batch):
    return {"page": batch["page"], "twice": [10 // ms for ms in batch["ms"].to_pylist()]}


@pytest.mark.parametrize("function", [in_arrow, in_pandas, in_columns], ids=lambda each: each.__name__)
def test_should_take_any_form_of_table(source, drive, function):
    assert drive(source(SCHEMA).map_batches(function, schema=MADE), ROWS) == TWICE


def test_should_follow_and_precede_other_steps_in_python(source, drive):
    stream = source(SCHEMA).filter(lambda row: row["ms"] % 3 != 1, trace=False)
    stream = stream.map_batches(in_arrow, schema=MADE).map(lambda row: {"n": row["twice"]}, schema="n bigint")
    assert drive(stream, ROWS) == [{"n": row["ms"] * 2} for row in ROWS if row["ms"] % 3 != 1]


def test_should_get_the_chosen_fields_only(source, compute):
    def names(batch):
        return {"names": [",".join(batch.schema.names)] * batch.num_rows}

    assert compute(source(SCHEMA).map_batches(names, schema="names string", fields=["ms"]), ROWS[:1]) == [
        {"names": "ms"}
    ]


def test_should_name_the_record_on_which_a_function_fails(source, compute):
    with pytest.raises(StepError, match=r"step 'inverse' raised ZeroDivisionError") as caught:
        compute(source(SCHEMA).map_batches(inverse, schema=MADE, name="inverse"), ROWS)
    assert caught.value.facts["record"] == "{'page': '/0', 'ms': 0}"


@pytest.mark.parametrize("quarantines", [True, False])
def test_should_name_the_step_of_an_error_that_no_record_causes_alone(quarantines):
    def together(batch):
        if batch.num_rows == len(ROWS):
            raise ValueError("too many")
        return {"n": batch["ms"]}

    step = BatchStep("together", together, ("page", "ms"), pa.schema({"n": pa.int64()}), quarantines)
    with pytest.raises(RuntimeError, match=r"step 'together' raised ValueError: too many"):
        list(step([pa.RecordBatch.from_pylist(ROWS)]))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"n": []}, "returned 0 rows for"),
        ({"m": [1]}, "returned rows with the fields m, not n"),
        ({"n": ["x"]}, "returned rows that do not fit the schema"),
        (7, "returned int as rows"),
    ],
    ids=["none", "other", "unfit", "number"],
)
def test_should_refuse_what_does_not_fit(source, compute, answer, text):
    stream = source(SCHEMA).map_batches(lambda batch: answer, schema="n bigint")
    with pytest.raises(StepError, match=text):
        compute(stream, ROWS[:1])


def test_should_keep_out_each_record_on_which_a_function_fails():
    batch = pa.RecordBatch.from_pylist([{"page": f"/{n}", "ms": n % 3, "_rs_line": n} for n in range(8)])
    made = pa.schema([pa.field("page", pa.string()), pa.field("twice", pa.int64(), nullable=False)])
    (out,) = BatchStep("inverse", inverse, ("page", "ms"), made, quarantines=True)([batch])
    reasons = out.column("_rs_reason").to_pylist()
    assert [n for n, reason in enumerate(reasons) if reason] == [0, 3, 6]
    assert set(filter(None, reasons)) == {"step 'inverse' raised ZeroDivisionError: integer division or modulo by zero"}
    good = out.filter(pc.is_null(out.column("_rs_reason")))
    assert good.select(["page", "twice", "_rs_line"]).to_pylist() == [
        {"page": f"/{n}", "twice": 10 // (n % 3), "_rs_line": n} for n in range(8) if n % 3
    ]


def test_should_refuse_unknown_fields_and_what_is_no_function():
    hits = StreamBuilder.data_stream("tests", "refused").from_array(ROWS)
    with pytest.raises(UnknownFieldError, match="names the field 'msec'"):
        hits.map_batches(in_arrow, schema=MADE, fields=["msec"]).to_print().build()
    with pytest.raises(TopologyError, match="takes a function, not 7") as caught:
        hits.map_batches(7, schema=MADE)
    rows = StreamBuilder.data_stream("tests", "followed").from_array([{"n": 1}])
    assert "map_batches" in eval(caught.value.remedy, {"stream": rows}).step

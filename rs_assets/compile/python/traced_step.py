"""Steps whose function Spark computes, as far as tracing understands it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets.common.errors_wire import to_wire
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.python.fallback import ASKED, apply_to_asked
from rs_assets.compile.python.python_step import PythonStep
from rs_assets.compile.python.tracing.columns import Columns
from rs_assets.compile.python.tracing.explore import Traced
from rs_assets.compile.python.tracing.traced import trace_label, trace_map
from rs_assets.compile.python.tracing.tree import UNDECIDED, Tree, Verdict, constant_at, leading_to, verdicts_of
from rs_assets.errors import StepError
from rs_assets.operators.window.event_time import NO_HASH
from rs_assets.records.columns import LABEL, hidden, visible
from rs_assets.records.schema import quoted
from rs_assets.topology.user_code.expression import PythonFunction


def without_dropped(
    context: CompileContext,
    step: str,
    function: PythonFunction,
    flow: Flow,
    trace: Callable[[object, Mapping[str, str]], Traced],
) -> tuple[Flow, bool]:
    """`flow` without the records that `function` of `step` certainly drops, and whether all others certainly stay.

    The filter comes after the source's bad-record filter, which counts all records.
    """
    fields = _fields(context, function, flow)
    traced = trace(function.call, fields) if fields else Traced(None)
    if traced.tree is None:
        return flow, False
    stays = leading_to(traced.tree, {"keep", *UNDECIDED})
    if stays is False:
        # Spark would remove a condition without it.
        return flow, False
    left = flow if stays is True else Flow(flow.frame.filter(Columns().of(stays)))
    certain = _refusing(context, step, traced.tree, left)
    return (left, False) if certain is None else (certain, True)


def traced_map(context: CompileContext, function: PythonFunction, step: PythonStep, flow: Flow) -> Flow | None:
    """The records that `function` makes, with those that Python makes by `step`; None if Python makes all."""
    fields, schema = _fields(context, function, flow), step.schema or StructType()
    made = {field.name: field.dataType.simpleString() for field in schema.fields}
    if not fields or not all(field.nullable for field in schema.fields):
        return None
    traced = trace_map(function.call, fields, made)
    if traced.tree is None or "made" not in verdicts_of(traced.tree):
        return None
    certain = _refusing(context, step.name, traced.tree, flow)
    frame = flow.frame if certain is None else certain.frame
    values = [*_values(frame, traced.tree, schema), *(F.col(name) for name in hidden(frame.columns))]
    if certain is not None:
        return Flow(frame.select(*values))
    record = F.struct(*(F.col(quoted(name)) for name in fields))
    asked = frame.select(*values, F.when(_where(traced.tree, UNDECIDED), record).alias(ASKED))
    guard = flow.then(step, context).guard
    patched = apply_to_asked(asked, step, quarantines=guard is not None)
    return Flow(guard(patched) if guard is not None else patched)


def traced_label(context: CompileContext, step: str, function: PythonFunction, flow: Flow) -> Flow | None:
    """The records with the labels of `function` of `step`; None if they are for Python."""
    fields = _fields(context, function, flow)
    traced = trace_label(function.call, fields) if fields else Traced(None)
    certain = None if traced.tree is None else _refusing(context, step, traced.tree, flow)
    if certain is None or traced.tree is None:
        return None
    return Flow(certain.frame.withColumn(LABEL, Columns().case(traced.tree, 0, "string")))


def _refusing(context: CompileContext, step: str, tree: Tree, flow: Flow) -> Flow | None:
    """`flow`, in which Spark ends the batch at a record on which the function of `step` raises.

    None if some records are for Python: those of an unknown outcome, and those on which it raises if no replay of the
    batch would find them, or if they are to be kept out of it.
    """
    verdicts = verdicts_of(tree)
    if "raise" not in verdicts:
        return None if "ask" in verdicts else flow
    if "ask" in verdicts or not (context.streaming and step in context.located):
        return None
    # A replay of the batch finds the record, and what Python raises.
    error = StepError(
        f"step {step!r} raised on a record, which cannot be found again",
        remedy="let Python call the function for each record: trace=False",
        step=step,
    )
    # Not deterministic for Spark: so no later filter drops the record before.
    passes = F.spark_partition_id() >= 0
    fails = F.raise_error(F.lit(to_wire(error))).cast("boolean")
    return Flow(flow.frame.filter(F.when(_where(tree, {"raise"}), fails).otherwise(passes)))


def _where(tree: Tree, verdicts: AbstractSet[Verdict]) -> Column:
    """Whether a record has one of `verdicts`."""
    condition = leading_to(tree, verdicts)
    return F.lit(condition) if isinstance(condition, bool) else Columns().of(condition)


def _fields(context: CompileContext, function: PythonFunction, flow: Flow) -> Mapping[str, str]:
    """The types of the fields that `function` gets; none if it is not to be traced.

    After another Python step it is fused with that one: a record crosses from the JVM once.
    """
    schema = flow.frame.schema
    names = visible(schema.names)
    if not (context.trace and function.trace) or flow.waiting or len({name.lower() for name in names}) < len(names):
        return {}
    return {name: schema[name].dataType.simpleString() for name in names}


def _values(frame: DataFrame, tree: Tree, schema: StructType) -> list[Column]:
    """The fields of `schema`. All are nullable for Spark, as a Python function's are.

    Otherwise the state of a window over them would depend on whether a function was traced: Spark uses the fact that a
    field is never null, and leaves constants out of the keys.
    """
    columns = Columns()
    kinds = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    made = [columns.case(tree, place, kind).alias(name) for place, (name, kind) in enumerate(kinds)]
    known = frame.select(*made).schema
    some = F.hash(F.isnull(F.col(quoted(visible(frame.columns)[0])))) != NO_HASH
    return [
        F.when(some, column).alias(field.name) if constant_at(tree, place) or not field.nullable else column
        for place, (column, field) in enumerate(zip(made, known.fields, strict=True))
    ]

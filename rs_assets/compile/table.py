"""Tables: newest rows, groups and joins, whose rows are changes with RETRACTED."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rs_assets.common.node import Node
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.planner.diamond import through_branches
from rs_assets.compile.readers import order_by_place
from rs_assets.compile.step import as_column, native_column
from rs_assets.compile.timed import timed
from rs_assets.connectors.messages import flag_taken
from rs_assets.operators.shuffle.memory import with_pieces
from rs_assets.operators.table.groups import SIGN, appended_groups, kept_groups, present, signed_groups
from rs_assets.operators.table.joins import OnePass, TableJoinSpec, joined
from rs_assets.operators.table.keys import check_keys
from rs_assets.operators.table.rows import newest_rows, with_read
from rs_assets.operators.table.tops import first_rows
from rs_assets.operators.window.aggregate import aggregate_column
from rs_assets.operators.window.bounds import EventTimeBounds
from rs_assets.operators.window.event_time import event_time, time_reason
from rs_assets.operators.window.output import Aggregate
from rs_assets.records.columns import (
    EVENT_TIME,
    ORDER_PIECE,
    ORIGIN,
    PLACE,
    PREFIX,
    REASON,
    RETRACTED,
    check_fields,
    hidden,
    visible,
)
from rs_assets.records.policy import BadRecords
from rs_assets.records.schema import quoted
from rs_assets.topology.nodes.table import (
    StreamTableJoin,
    TableChanges,
    TableGroup,
    TableJoin,
    TableTop,
    TableVersions,
    ToTable,
)
from rs_assets.topology.nodes.timed import NONE, TimedState
from rs_assets.topology.rejoin import Rejoin

NO_KEY = "the key of the table is null: "
GONE = f"{PREFIX}gone"
# The field of a stream of changes that says whether a row goes.
FLAG = "retracted"


def compile_to_table(context: CompileContext, node: ToTable, inputs: tuple[Flow, ...]) -> Flow:
    """The changes of the newest row of each key. A replay ends at the check of the keys."""
    df = inputs[0].df
    check_keys(df, (*node.keys, *node.order_by), step=node.name)
    rows = _judged(context, _counted_before(df, node), _without_key(node.keys), gate=node.key_gate)
    if not node.untimed:
        rows = timed(context, node, with_read(rows), visible(df.columns), kept=node.delay)
    if not context.streaming:
        return Flow(rows)
    return Flow(newest_rows(rows, node.keys, order_by=node.order_by, gone=_gone(node), lives=node.time_to_live))


def compile_versions(context: CompileContext, node: TableVersions, inputs: tuple[Flow, ...]) -> Flow:
    """The records with RETRACTED, those that end a row."""
    df = inputs[0].df
    check_keys(df, node.keys, step=node.name)
    at = event_time(df, node.time_field, step=node.name, now=context.now())
    reason = F.coalesce(_without_key(node.keys), time_reason(at, EventTimeBounds(), now=context.now()))
    rows = _judged(context, _counted_before(df, node), reason, gate=node.key_gate)
    return Flow(rows.withColumn(RETRACTED, F.coalesce(_gone(node), F.lit(False))))  # noqa: FBT003  a literal


def _without_key(keys: Sequence[str]) -> Column:
    return F.when(_missing(keys), F.lit(NO_KEY + ", ".join(keys)))


def _missing(keys: Sequence[str]) -> Column:
    return reduce(or_, (F.col(quoted(key)).isNull() for key in keys))


def _counted_before(df: DataFrame, node: ToTable | TableVersions) -> DataFrame:
    """The rows, of changes without those that go and have no key: they were bad, and counted, when they came."""
    if node.deletes is None or dict(df.dtypes).get(FLAG) != "boolean":
        return df
    goes = _missing(node.keys) & F.col(FLAG) & _gone(node)
    return df.filter(~F.coalesce(goes, F.lit(False)))  # noqa: FBT003  a literal


def _judged(context: CompileContext, df: DataFrame, reason: Column, *, gate: str) -> DataFrame:
    """The rows without a reason why they are bad."""
    policy = context.policy
    return context.record_filter.filter_bad_records(
        df.withColumn(REASON, reason), step=gate, policy=policy, counted=policy is not BadRecords.FAIL
    )


def _gone(node: ToTable | TableVersions) -> Column:
    return as_column(node.deletes) if node.deletes is not None else F.lit(False)  # noqa: FBT003  a literal


def compile_group(context: CompileContext, node: TableGroup, inputs: tuple[Flow, ...]) -> Flow:
    """The changes of aggregates over the rows of a table."""
    df = inputs[0].df
    check_keys(df, node.keys, step=node.name)
    check_fields(df, [each.field for each in node.aggregates if each.field], step=node.name)
    if not context.streaming:
        return Flow(df)
    rows = df if node.nulls else present(df, node.keys)
    if node.subtracts and not node.appends:
        return Flow(signed_groups(rows, node.keys, node.aggregates))
    inner = [*hidden(df.columns), *([] if node.appends else [SIGN])]
    columns = {a.alias: _aggregated(a) for a in node.aggregates}
    columns |= {name: native_column(each, inner) for name, each in node.own}
    return Flow((appended_groups if node.appends else kept_groups)(rows, node.keys, columns))


def _aggregated(aggregate: Aggregate) -> Column:
    if aggregate.function == "collect":
        # In the order of the values: rows of a table have no event time.
        return F.sort_array(F.collect_list(F.col(quoted(str(aggregate.field)))))
    if aggregate.function == "avg":
        # As where rows are subtracted; Spark's mean of a decimal is a decimal.
        return F.avg(F.col(quoted(str(aggregate.field))).cast("double"))
    return aggregate_column(aggregate)


def compile_top(context: CompileContext, node: TableTop, inputs: tuple[Flow, ...]) -> Flow:
    """The changes of the first rows of each group of a table."""
    df = inputs[0].df
    check_keys(df, node.groups, step=node.name)
    check_fields(df, [name for name, _ in node.by], step=node.name)
    if not context.streaming:
        return Flow(df)
    rows = df if node.nulls else present(df, node.groups)
    return Flow(first_rows(rows, node.groups, keys=node.keys, by=node.by, n=node.n, rank=node.rank))


def compile_table_join(context: CompileContext, node: TableJoin, inputs: tuple[Flow, ...]) -> Flow:
    """The changes of the join of two tables."""
    return _joined(context, spec_of(node), inputs)


def spec_of(node: TableJoin) -> TableJoinSpec:
    """What a join of two tables needs to know."""
    return TableJoinSpec(
        step=node.name,
        on=node.on,
        how=node.how,
        kind=node.by,
        prefix=node.prefix,
        left_keys=node.both_keys[0] if node.both_keys else node.keys,
        other_keys=node.both_keys[1] if node.both_keys else (),
    )


def compile_stream_table(context: CompileContext, node: StreamTableJoin, inputs: tuple[Flow, ...]) -> Flow:
    """The rows of a stream with those of a table, or with its versions."""
    spec = TableJoinSpec(
        step=node.name,
        on=node.on,
        how=node.how,
        kind="stream" if node.time_fields is None else "versions",
        prefix=node.prefix,
        history=node.history or NONE,
    )
    if node.time_fields is None or not context.streaming:
        return _joined(context, spec, inputs)
    frames = (
        flow.df.withColumn(EVENT_TIME, event_time(flow.df, field, step=node.name, now=context.now()))
        for flow, field in zip(inputs, node.time_fields, strict=True)
    )
    return _joined(context, spec, tuple(map(Flow, frames)))


def compile_self_table(
    context: CompileContext, node: TableJoin, rejoin: Rejoin, flows: Mapping[str, Flow], known: Mapping[str, Node]
) -> Flow:
    """The changes of the join of a table with itself: each change goes through the branches of both sides."""
    in_one = OnePass(*through_branches(flows, rejoin.forks[0], known))
    return _joined(context, spec_of(node), tuple(flows[name] for name in node.inputs), in_one)


def _joined(
    context: CompileContext, spec: TableJoinSpec, inputs: tuple[Flow, ...], in_one: OnePass | None = None
) -> Flow:
    if not context.streaming:
        # A replay has no rows of a side with state upstream.
        return inputs[0]
    left, right = (flow.df for flow in inputs)
    for frame, names in ((left, [one for one, _ in spec.on]), (right, spec.right_fields)):
        check_keys(frame, names, step=spec.step)
    return Flow(_in_order(context, joined(with_pieces(left), right, spec, in_one)))


def _in_order(context: CompileContext, rows: DataFrame) -> DataFrame:
    """`rows` with ORDER for a sink. Those that have waited for versions have kept the positions of their records."""
    if not context.scattered or ORDER_PIECE in rows.columns or not {ORIGIN, PLACE} <= set(rows.columns):
        return rows
    return rows.withColumns(order_by_place(F.col(ORIGIN), F.col(PLACE)))


def compile_changes(_context: CompileContext, node: TableChanges, inputs: tuple[Flow, ...]) -> Flow:
    """The flag of changes as the field `retracted`."""
    df = inputs[0].df
    if FLAG in (name.casefold() for name in df.columns):
        raise flag_taken(step=node.name)
    fields = (F.col(quoted(name)) for name in df.columns if name != RETRACTED)
    return Flow(df.select(*fields, F.col(RETRACTED).alias(FLAG)))


def none_late(_node: TimedState, _watermark: Column) -> Column:
    """False: the state has no event time."""
    return F.lit(False)  # noqa: FBT003  a literal


def probe_table(node: ToTable, rows: DataFrame) -> DataFrame:
    """The rows, and whether each removes its key: that may fail."""
    return rows.withColumn(GONE, _gone(node))


def probe_rows(_node: TimedState, rows: DataFrame) -> DataFrame:
    """The rows: nothing is computed from one batch alone."""
    return rows

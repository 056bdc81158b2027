"""The compiler: one function a node type. A type without one fails here, at import.

Sources and sinks share one function each, which uses their connectors.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from rs_assets.common.node import Node
from rs_assets.compile.dim_join import compile_dim_join
from rs_assets.compile.distinct import compile_distinct, late_for_distinct, probe_distinct
from rs_assets.compile.join import compile_join, late_for_join, probe_join
from rs_assets.compile.match import compile_match
from rs_assets.compile.planner.context import CompileContext, Flow
from rs_assets.compile.planner.diamond import compile_rejoin
from rs_assets.compile.planner.self_join import compile_self_join
from rs_assets.compile.process.step import compile_output, compile_process
from rs_assets.compile.python.fold import compile_fold
from rs_assets.compile.python.udf import check_functions, know_functions
from rs_assets.compile.reduce import compile_reduce
from rs_assets.compile.rule_windows import compile_rule_windows, late_for_rule_windows
from rs_assets.compile.script import compile_script
from rs_assets.compile.shuffle import compile_shuffle, compile_shuffle_read, compile_shuffle_write
from rs_assets.compile.sink import compile_sink
from rs_assets.compile.source import compile_source
from rs_assets.compile.step import (
    compile_expect,
    compile_filter,
    compile_flat_map,
    compile_for_each,
    compile_map,
    compile_map_batches,
    compile_select,
    compile_select_fields,
    compile_split,
    compile_union,
    compile_with_fields,
)
from rs_assets.compile.table import (
    compile_changes,
    compile_group,
    compile_self_table,
    compile_stream_table,
    compile_table_join,
    compile_to_table,
    compile_top,
    compile_versions,
    none_late,
    probe_rows,
    probe_table,
)
from rs_assets.compile.window import compile_window, late_for_window, probe_window
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.registry import SINKS, SOURCES
from rs_assets.errors import RsError, TopologyError, UnknownFieldError
from rs_assets.records.columns import visible
from rs_assets.topology import nodes
from rs_assets.topology.nodes import (
    dim_join,
    distinct,
    fold,
    join,
    match,
    process,
    rule_windows,
    shuffle,
    step,
    table,
    table_reduce,
    versioned,
    window,
)
from rs_assets.topology.nodes.timed import TimedState
from rs_assets.topology.rejoin import BRANCHED, Rejoin
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import texts_of

CompileFunction = Callable[[CompileContext, Any, tuple[Flow, ...]], Flow]

COMPILE: Mapping[type[Node], CompileFunction] = MappingProxyType(
    {
        **dict.fromkeys(SOURCES, compile_source),
        **dict.fromkeys(SINKS, compile_sink),
        step.Map: compile_map,
        step.MapBatches: compile_map_batches,
        step.FlatMap: compile_flat_map,
        step.Filter: compile_filter,
        step.Expect: compile_expect,
        step.ForEach: compile_for_each,
        step.Script: compile_script,
        step.SelectFields: compile_select_fields,
        step.WithFields: compile_with_fields,
        step.Union: compile_union,
        step.Split: compile_split,
        step.Select: compile_select,
        shuffle.Shuffle: compile_shuffle,
        shuffle.ShuffleWrite: compile_shuffle_write,
        shuffle.ShuffleRead: compile_shuffle_read,
        window.WindowAggregate: compile_window,
        fold.Fold: compile_fold,
        distinct.Distinct: compile_distinct,
        join.StreamJoin: compile_join,
        dim_join.DimJoin: compile_dim_join,
        match.MatchRules: compile_match,
        rule_windows.RuleWindows: compile_rule_windows,
        table.ToTable: compile_to_table,
        table.TableVersions: compile_versions,
        table.TableGroup: compile_group,
        table.TableTop: compile_top,
        table.TableJoin: compile_table_join,
        table.StreamTableJoin: compile_stream_table,
        table.TableChanges: compile_changes,
        table_reduce.TableReduce: compile_reduce,
        process.Process: compile_process,
        process.ProcessOutput: compile_output,
    }
)

# The stateful steps that take every row: none is late.
TAKES_ALL = (
    table.ToTable,
    table.TableGroup,
    table.TableTop,
    table.TableJoin,
    table.StreamTableJoin,
    table_reduce.TableReduce,
    process.Process,
)
# Selects the late rows from the rows that a stateful step gets in a replay, by the watermark.
LATE: Final[Mapping[type[Node], Callable[[Any, Column], Column]]] = {
    window.WindowAggregate: late_for_window,
    distinct.Distinct: late_for_distinct,
    rule_windows.RuleWindows: late_for_rule_windows,
    join.StreamJoin: late_for_join,
    **dict.fromkeys(TAKES_ALL, none_late),
}
# The part of a stateful step that can be computed from one batch alone, to find failing records.
PROBE: Final[Mapping[type[Node], Callable[[Any, DataFrame], DataFrame]]] = {
    window.WindowAggregate: probe_window,
    distinct.Distinct: probe_distinct,
    rule_windows.RuleWindows: probe_rows,
    join.StreamJoin: probe_join,
    **dict.fromkeys(TAKES_ALL, probe_rows),
    table.ToTable: probe_table,
}


def compile_node(context: CompileContext, node: Node, inputs: tuple[Flow, ...]) -> Flow:
    """The flow after `node`; an error of Spark's analysis becomes an error that names the step."""
    know_functions(context.spark)
    check_functions(context.spark, texts_of(node))
    return _analysed(node, inputs, lambda: COMPILE[type(node)](context, node, inputs))


def wire_node(context: CompileContext, topology: Topology, output: str, name: str, flows: Mapping[str, Flow]) -> Flow:
    """The flow after the node `name` of a query whose streaming part ends at `output`; `flows` has its inputs'."""
    node = topology[name]
    # The search goes through all steps, and finds no other kinds.
    rejoin = topology.rejoins.get(name) if isinstance(node, BRANCHED) else None
    if rejoin is not None and name in topology.ancestors(output) | {output}:
        return compile_branches(context, topology, node, rejoin, flows)
    return compile_node(context, node, tuple(flows[i] for i in node.inputs))


def compile_branches(
    context: CompileContext, topology: Topology, node: Node, rejoin: Rejoin, flows: Mapping[str, Flow]
) -> Flow:
    """The flow after a union or join whose branches part from one step of a streaming query, in one frame."""
    known = {each.name: each for each in topology}
    inputs = tuple(flows[name] for name in node.inputs)
    if isinstance(node, join.StreamJoin):
        return _analysed(node, inputs, lambda: compile_self_join(context, node, rejoin, flows, known))
    if isinstance(node, table.TableJoin):
        return _analysed(node, inputs, lambda: compile_self_table(context, node, rejoin, flows, known))
    return _analysed(node, inputs, lambda: compile_rejoin(node, rejoin, flows, known))


def _analysed(node: Node, inputs: tuple[Flow, ...], compiled: Callable[[], Flow]) -> Flow:
    try:
        flow = compiled()
        _ = flow.df.schema
    except AnalysisException as error:
        raise _refused(node, inputs, error) from error
    return flow


def _refused(node: Node, inputs: tuple[Flow, ...], error: AnalysisException) -> RsError:
    known = tuple(dict.fromkeys(name for flow in inputs for name in visible(flow.df.columns)))
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        return UnknownFieldError(parameters.get("objectName", "?").strip("`"), step=node.name, known=known)
    return TopologyError(
        f"Spark does not accept step {node.name!r}: {str(error).strip().splitlines()[0]}",
        remedy=f"its fields are: {', '.join(known)}",
        step=node.name,
    )


# Abstract node types.
ABSTRACT = frozenset({Node, Source, Sink, TimedState, versioned.VersionedTable, table.UntimedState, table.TableState})


def _check_complete() -> None:
    """Check that every concrete node type has a compile function."""
    modules = [importlib.import_module(f"{nodes.__name__}.{m.name}") for m in iter_modules(nodes.__path__)]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    concrete = {k for k in kinds if issubclass(k, Node)} - ABSTRACT
    missing = [k.__name__ for k in concrete if k not in COMPILE]
    missing += [k.__name__ for k in concrete if k.stateful and not (k in LATE and k in PROBE)]
    if missing:
        raise NotImplementedError(f"node types without a compile function: {', '.join(sorted(missing))}")


_check_complete()

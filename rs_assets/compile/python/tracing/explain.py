"""Explains, before Spark runs, which Python functions of a pipeline are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rs_assets.common.node import Node
from rs_assets.compile.python.tracing.explore import Traced
from rs_assets.compile.python.tracing.traced import trace_filter, trace_flat_map, trace_label, trace_map
from rs_assets.compile.python.tracing.tree import UNDECIDED, leading_to, verdicts_of
from rs_assets.records.fields import Fields
from rs_assets.records.types import fields_in
from rs_assets.topology.check.build import check_fields
from rs_assets.topology.located import located
from rs_assets.topology.nodes.fold import Fold
from rs_assets.topology.nodes.process import Process
from rs_assets.topology.nodes.step import Filter, FlatMap, Map, MapBatches, Split
from rs_assets.topology.nodes.table_reduce import TableReduce
from rs_assets.topology.topology import Topology
from rs_assets.topology.user_code.expression import PythonFunction, function_of

COMPILED, IN_PART, PYTHON = "compiled", "compiled in part", "Python"
FUSED = f"{PYTHON}: with the step before it"
PROCESSED = f"{PYTHON}: with the state of each key"
# The steps whose functions are never compiled.
WHOLE: Mapping[type[Node], str] = MappingProxyType(
    {
        Fold: f"{PYTHON}: of all rows of a window",
        MapBatches: f"{PYTHON}: of Arrow batches",
        Process: PROCESSED,
        TableReduce: PROCESSED,
    }
)
# The most reasons to show.
SHOWN = 2
# Steps of which Spark can drop records before Python gets the rest.
PREFILTERED: Mapping[type[Node], Callable[[object, Mapping[str, str]], Traced]] = MappingProxyType(
    {Filter: trace_filter, FlatMap: trace_flat_map}
)


def compiled(topology: Topology) -> Mapping[str, str]:
    """For each step with a Python function: whether it is compiled, and if not entirely, why; by the step's name.

    Unknown for steps whose fields are known at the start only.
    """
    fields, told, waiting, found = check_fields(topology), dict[str, str](), set[str](), located(topology)
    for node in topology:
        function = function_of(node)
        if function is None:
            continue
        if type(node) in WHOLE:
            told[node.name] = WHOLE[type(node)]
            continue
        (before,) = node.inputs
        fused = before in waiting
        how = FUSED if fused else _told(node, function, fields[before], is_located=node.name in found)
        told[node.name] = how
        if how.partition(":")[0] not in ({COMPILED, IN_PART} if isinstance(node, Map) else {COMPILED}):
            waiting.add(node.name)
    return told


def _told(node: Node, function: PythonFunction, fields: Fields, *, is_located: bool) -> str:
    if not function.trace:
        return f"{PYTHON}: trace=False"
    if not fields.whole:
        return "known at the start"
    kinds = {name: kind.text if kind else "?" for name, kind in fields.types.items()}
    traced = _traced(node, function, kinds)
    if traced is None:
        return f"{PYTHON}: for its side effect"
    known = _all_known(node, traced)
    if known and not traced.asked:
        return COMPILED
    shown = [*map(str, traced.asked[:SHOWN]), *(["..."] if len(traced.asked) > SHOWN else [])]
    why = "; ".join(shown) or "its results"
    if known and is_located:
        return f"{COMPILED}: {why}"
    return f"{IN_PART if _in_part(node, traced) else PYTHON}: {why}"


def _all_known(node: Node, traced: Traced) -> bool:
    """Whether no record needs Python, if those on which the function raises may end the batch."""
    verdicts: frozenset[str] = verdicts_of(traced.tree) if traced.tree is not None else frozenset({"ask"})
    needed = isinstance(node, FlatMap) or (isinstance(node, Map) and "made" not in verdicts)
    return not needed and "ask" not in verdicts


def _in_part(node: Node, traced: Traced) -> bool:
    if traced.tree is None or isinstance(node, Split):
        return False
    if isinstance(node, Map):
        return "made" in verdicts_of(traced.tree)
    return not isinstance(leading_to(traced.tree, {"keep", *UNDECIDED}), bool)


def _traced(node: Node, function: PythonFunction, kinds: Mapping[str, str]) -> Traced | None:
    if type(node) in PREFILTERED:
        return PREFILTERED[type(node)](function.call, kinds)
    if isinstance(node, Split):
        return trace_label(function.call, kinds)
    if isinstance(node, Map):
        made = fields_in(function.schema or "") or {}
        return trace_map(function.call, kinds, {name: kind.text if kind else "?" for name, kind in made.items()})
    return None

"""CONTRIBUTING.md holds: what it names is there, and every node type has what its checklist asks for."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from rs_assets.common.node import Node
from rs_assets.compile.planner.table import COMPILE
from rs_assets.compile.provenance import RULES
from rs_assets.connectors.nodes import Sink, Source
from rs_assets.connectors.own.nodes import CustomSource, WriterSink
from rs_assets.connectors.registry import SINKS, SOURCES
from rs_assets.connectors.store.nodes import StoreSink
from rs_assets.topology.nodes import dim_join, distinct, join, shuffle, step, window

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# They hand rows on with the fields that these have.
SAME_FIELDS = {
    *(step.Expect, step.Filter, step.ForEach, step.Union, step.Split, step.Select),
    distinct.Distinct,
    *(shuffle.Shuffle, shuffle.ShuffleWrite, shuffle.ShuffleRead),
}
MODULES = [
    importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for path in sorted(ROOT.glob("rs_assets/connectors/*/nodes.py"))
]
KINDS = [
    kind
    for module in [*MODULES, step, shuffle, window, distinct, join, dim_join]
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Node)
    and kind.__module__ == module.__name__
    and not kind.__subclasses__()
]


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`((?:rs_assets|tests)/[\w/.]+)`", TEXT))))
def test_what_is_named_is_there(place):
    assert (ROOT / place).exists()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_node_type_has_what_the_checklist_asks_for(kind):
    assert kind in COMPILE
    if kind.family in ("source", "sink"):
        assert kind in {**SOURCES, **SINKS}
    elif not issubclass(kind, Source | Sink):
        assert (kind in RULES) != (kind in SAME_FIELDS)
    used = re.compile(rf"\b{kind.__name__}\b|\b{method_of(kind)}\(")
    assert any(used.search(test.read_text()) for test in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_node_type_has_a_place_in_the_docs(kind):
    headings = [
        line for page in (ROOT / "docs").glob("*.md") for line in page.read_text().splitlines() if line[:2] == "##"
    ]
    assert any(f"`{method_of(kind)}`" in line for line in headings)


def method_of(kind: type[Node]) -> str:
    """The method of the fluent API that makes such a node: FlatMap -> flat_map, FileSource -> from_file."""
    special: dict[type[Node], str] = {
        window.WindowAggregate: "window",
        join.StreamJoin: "join",
        CustomSource: "from_source",
        WriterSink: "to",
        StoreSink: "serve",
        shuffle.ShuffleWrite: "shuffle",
        shuffle.ShuffleRead: "shuffle",
    }
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower().split("_")
    ends = {"source": "from", "sink": "to"}
    return special.get(kind) or "_".join([ends[words[-1]], *words[:-1]] if words[-1] in ends else words)

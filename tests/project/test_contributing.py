"""CONTRIBUTING.md holds: what it names is there, and every node type has what its checklist asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rs_assets.pipeline.compile.readers import BATCH, STREAM
from rs_assets.pipeline.compile.sink import WRITERS
from rs_assets.pipeline.compile.table import COMPILE
from rs_assets.pipeline.topology import shuffle, sink, source, step, window
from rs_assets.pipeline.topology.base import Node
from rs_assets.pipeline.topology.provenance import RULES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# They hand rows on with the fields that these have.
SAME_FIELDS = {
    *(step.Filter, step.ForEach, step.Union, step.Split, step.Select),
    *(shuffle.Shuffle, shuffle.ShuffleWrite, shuffle.ShuffleRead),
}
KINDS = [
    kind
    for module in (source, step, shuffle, window, sink)
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
    if issubclass(kind, source.Source):
        assert kind in STREAM
        assert kind in BATCH
    elif issubclass(kind, sink.Sink):
        assert kind in WRITERS
    else:
        assert (kind in RULES) != (kind in SAME_FIELDS)
    used = re.compile(rf"\b{kind.__name__}\b|\b{method_of(kind)}\(")
    assert any(used.search(test.read_text()) for test in (ROOT / "tests").rglob("test_*.py"))


def method_of(kind: type[Node]) -> str:
    """The method of the fluent API that makes such a node: FlatMap -> flat_map, FileSource -> from_file."""
    special = {window.WindowAggregate: "window", sink.WriterSink: "to"}
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower().split("_")
    ends = {"source": "from", "sink": "to"}
    return special.get(kind) or "_".join([ends[words[-1]], *words[:-1]] if words[-1] in ends else words)

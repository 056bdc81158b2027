"""Draws a topology as SVG for notebooks: one box per step, from left to right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from html import escape
from types import MappingProxyType

from rs_assets.topology.topology import Topology

# The size of a box and the gaps around it, in pixels.
WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 176, 44, 40, 16, 4
# The most characters that fit into a box, of a name and of the text below it.
LETTERS, SMALL_LETTERS = 22, 28
# Colours of families; other steps only compute.
FILLS: Mapping[str, str] = MappingProxyType(
    {
        "source": "#e3f0fb",
        "window": "#fdf0d5",
        "join": "#fdf0d5",
        "table": "#fdf0d5",
        "processor": "#fdf0d5",
        "shuffle": "#eee6f7",
        "sink": "#e2f4e5",
    }
)

Place = tuple[int, int]


def as_svg(topology: Topology) -> str:
    """The steps as boxes, each to the right of its inputs, with lines between them.

    >>> from rs_assets import StreamBuilder
    >>> slow = StreamBuilder.data_stream("shop", "slow").from_array([{"ms": 1}]).filter("ms > 0").to_print().build()
    >>> as_svg(slow.topology).count("<rect")
    3
    """
    places = _places(topology)
    width = EDGE + max(x for x, _ in places.values()) + WIDTH + EDGE
    height = EDGE + max(y for _, y in places.values()) + HEIGHT + EDGE
    lines = (_line(places[above], places[node.name]) for node in topology for above in node.follows)
    boxes = (
        _box(places[node.name], node.name, node.detail() or node.kind, FILLS.get(node.family, "#f4f4f4"))
        for node in topology
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
        f"{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _places(topology: Topology) -> dict[str, Place]:
    """The upper left corner of each box: its column is the length of the longest path to it."""
    column: dict[str, int] = {}
    rows: defaultdict[int, int] = defaultdict(int)
    places = {}
    for node in topology:
        column[node.name] = max((column[above] + 1 for above in node.follows), default=0)
        across, down = column[node.name], rows[column[node.name]]
        rows[across] += 1
        places[node.name] = (EDGE + across * (WIDTH + ACROSS), EDGE + down * (HEIGHT + DOWN))
    return places


def _line(start: Place, end: Place) -> str:
    (x, y), (to_x, to_y), middle = start, end, HEIGHT // 2
    # Bend near the end: the steps between the two have a row of their own.
    bend = to_x - ACROSS // 2
    points = f"{x + WIDTH},{y + middle} {bend},{y + middle} {bend},{to_y + middle} {to_x},{to_y + middle}"
    return f'<polyline points="{points}" fill="none" stroke="#888"/>'


def _box(place: Place, name: str, does: str, fill: str) -> str:
    x, y = place
    told = f"<title>{escape(name)}: {escape(does)}</title>"
    rect = f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="#888"/>'
    first = f'<text x="{x + 8}" y="{y + 18}" font-size="13" fill="#111">{escape(_cut(name, LETTERS))}</text>'
    second = f'<text x="{x + 8}" y="{y + 35}" font-size="10" fill="#555">{escape(_cut(does, SMALL_LETTERS))}</text>'
    return f"<g>{told}{rect}{first}{second}</g>"


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"

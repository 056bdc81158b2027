"""The text of the test that replays captured batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from rs_assets.runtime.capture.folder import Captured

TEXT: Final = '''\
"""{title}.

The records are in records/, the rows that the test expects in expected/: correct a row there by hand.{notes}
"""

from pathlib import Path

{imported}
from rs_assets.testing import replay


def test_{name}():
    replay({pipeline}, Path(__file__).parent)
'''


def text_of(pipeline: object, captured: Captured, name: str) -> str | None:
    """The test of a capture called `name`; None if no module has the pipeline at its top level."""
    place = _place_of(pipeline)
    if place is None:
        return None
    module, variable, taken = place
    first, last = captured.asked[0], captured.asked[-1]
    batches = f"Batch {first}" if first == last else f"Batches {first} to {last}"
    at = next(each.at for each in captured.batches if each.batch == first)
    return TEXT.format(
        title=f"{batches} of {captured.pipeline}, of {at:%Y-%m-%d %H:%M:%S}, by the current code",
        notes="".join(f"\nNote: {note}." for note in captured.notes),
        imported=f"from {module} import {variable}",
        name=name,
        pipeline=taken,
    )


def _place_of(pipeline: object) -> tuple[str, str, str] | None:
    """The module that has the pipeline, its variable, and the expression that is the pipeline."""
    found = (place for module, loaded in tuple(sys.modules.items()) for place in _places(pipeline, module, loaded))
    # A variable of its own is easier to read than a place in a list.
    return min(found, key=lambda place: place[1] != place[2], default=None)


def _places(pipeline: object, module: str, loaded: object) -> Iterator[tuple[str, str, str]]:
    if module.startswith("_") or not all(part.isidentifier() for part in module.split(".")):
        return
    for variable, value in tuple(getattr(loaded, "__dict__", {}).items()):
        if value is pipeline:
            yield module, variable, variable
        elif type(value) in (list, tuple):
            yield from ((module, variable, f"{variable}[{n}]") for n, each in enumerate(value) if each is pipeline)

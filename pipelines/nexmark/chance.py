"""Random numbers as a function of a seed and a position: any event can be made without the ones before it.

The numbers are those of SplitMix64, so they are the same with every version of numpy and on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

GOLDEN, FIRST, SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
# An event draws fewer numbers than this.
DRAWS = 64
UNIT = 2.0**-53


class Chance:
    """The draws of some events; the same seed, event and number of the draw give the same value.

    >>> Chance(7, np.arange(3)).below(10).tolist()
    [5, 0, 6]
    """

    def __init__(self, seed: int, events: Numbers) -> None:
        """Begin with the first draw of each of `events`."""
        mixed = _mixed(np.array([seed], dtype=np.uint64))
        self._places = mixed + GOLDEN * (events.astype(np.uint64) * np.uint64(DRAWS))
        self._drawn = 0

    def unit(self) -> npt.NDArray[np.float64]:
        """The next draw, in [0, 1)."""
        self._drawn += 1
        if self._drawn >= DRAWS:
            raise ValueError(f"an event draws fewer than {DRAWS} numbers")
        draw = _mixed(self._places + GOLDEN * np.array([self._drawn], dtype=np.uint64))
        return (draw >> np.uint64(11)).astype(np.float64) * UNIT

    def below(self, bound: int | Numbers) -> Numbers:
        """The next draw, a whole number from 0 up to and without `bound`, which may differ between events."""
        return (self.unit() * bound).astype(np.int64)


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * FIRST
    state = (state ^ (state >> np.uint64(27))) * SECOND
    return state ^ (state >> np.uint64(31))

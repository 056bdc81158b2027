"""The table of docs/sql.md: how many published cases of each peer are equal, refused, or another value."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from tests.peers.cases import Outcome, cases


def table() -> list[str]:
    """Its lines, one for each peer."""
    counted: dict[str, Counter[str]] = {}
    for case in cases():
        counted.setdefault(case.peer, Counter())[case.outcome] += 1
    outcomes = get_args(Outcome)
    lines = [f"| peer | cases | {' | '.join(outcomes)} |", f"|---|{'---:|' * (len(outcomes) + 1)}"]
    for peer, found in counted.items():
        lines.append(f"| {peer} | {found.total()} | {' | '.join(str(found[each]) for each in outcomes)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))

"""Finds all paths through a function by calling it once for each."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rs_assets.compile.python.tracing.expression import Expression
from rs_assets.compile.python.tracing.path import Ask, Path, RefusedError
from rs_assets.compile.python.tracing.proxies import ProxyFactory
from rs_assets.compile.python.tracing.raising import certain
from rs_assets.compile.python.tracing.record import Record
from rs_assets.compile.python.tracing.tree import ASK, RAISE, Branch, Leaf, Tree, size_of

# The most paths, the most lines to run on all of them, and the largest tree.
MOST_PATHS, MOST_LINES, LARGEST = 64, 10_000, 4_000
# The answers on one path, and its leaf.
Taken = tuple[list[tuple[Expression, bool]], Leaf]
OutcomeOf = Callable[[Path, Any], Leaf]


@dataclass(frozen=True, slots=True)
class Asked:
    """Why some records go to the real function, and the line of its file that is the reason."""

    why: str
    line: int | None = None

    def __str__(self) -> str:
        """For people."""
        return f"line {self.line}: {self.why}" if self.line else self.why


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as a tree; `asked` are the reasons for a fallback to Python. None: nothing is compiled."""

    tree: Tree | None
    asked: tuple[Asked, ...] = ()


@dataclass(slots=True)
class _Explorer:
    function: Callable[..., Any]
    fields: Mapping[str, str]
    outcome_of: OutcomeOf
    proxies: ProxyFactory
    asked: dict[Asked, None] = field(default_factory=dict)
    lines: int = 0

    def all_paths(self) -> list[Taken]:
        """Depth first."""
        found: list[Taken] = []
        waiting: list[tuple[bool, ...]] = [()]
        while waiting:
            chosen = waiting.pop()
            path = Path(chosen)
            leaf = self._end_of(path)
            found.append((path.forks, leaf))
            taken = tuple(answer for _, answer in path.forks)
            waiting += [(*taken[:place], not taken[place]) for place in range(len(chosen), len(taken))]
            if len(found) + len(waiting) > MOST_PATHS:
                raise RefusedError(f"more than {MOST_PATHS} paths lead through it")
        return found

    def tree(self) -> Tree:
        """All paths as a tree."""
        made = _grown(self.all_paths())
        if size_of(made) > LARGEST:
            raise RefusedError("it computes too much")
        return made

    def _end_of(self, path: Path) -> Leaf:
        """The outcome of the function on `path`."""
        self.proxies.path = path
        try:
            with self._counted():
                result = self.function(Record(path, self.fields, self.proxies.hands_on))
            leaf = self.outcome_of(path, result)
        except RefusedError:
            raise
        except (Exception, Ask) as end:  # noqa: BLE001  the function raises it for the real record, too
            why = path.why or f"it raises {type(end).__name__}"
            self.asked[Asked(why, self._line_of(end.__traceback__))] = None
            return RAISE if not path.why and certain(end) else ASK
        if path.why:
            self.asked[Asked(path.why)] = None
            return ASK
        return leaf

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Limits a call to MOST_LINES lines, to refuse long loops."""
        before = sys.gettrace()

        def within(frame: types.FrameType, event: str, _argument: object) -> Any:
            self.lines += event == "line"
            if self.lines > MOST_LINES:
                raise RefusedError(f"it runs more than {MOST_LINES} lines", frame.f_lineno)
            return within

        def called(frame: types.FrameType, event: str, argument: object) -> Any:
            return within(frame, event, argument) if self.proxies.has(frame.f_code) else None

        sys.settrace(called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _line_of(self, traceback: types.TracebackType | None) -> int | None:
        line = None
        while traceback is not None:
            if self.proxies.has(traceback.tb_frame.f_code):
                line = traceback.tb_lineno
            traceback = traceback.tb_next
        return line


def explore(function: object, fields: Mapping[str, str], outcome_of: OutcomeOf) -> Traced:
    """`function` as a tree over `fields`, their types by name; `outcome_of` converts its return value to a leaf.

    Only a copy of the function is called, which cannot reach anything outside of it.
    """
    proxies = ProxyFactory()
    try:
        explorer = _Explorer(proxies.copy(function), fields, outcome_of, proxies)
        tree = explorer.tree()
    except RefusedError as refused:
        return Traced(None, (Asked(refused.why, refused.line),))
    return Traced(tree, tuple(explorer.asked))


def _grown(paths: Sequence[Taken], depth: int = 0) -> Tree:
    """The tree of `paths`, which share the first `depth` answers; a question without effect is left out."""
    forks, leaf = paths[0]
    if len(forks) == depth:
        if len(paths) > 1:
            raise RefusedError("it does not do the same each time")
        return leaf
    condition = forks[depth][0]
    sides: dict[bool, list[Taken]] = {True: [], False: []}
    for path in paths:
        if len(path[0]) <= depth or path[0][depth][0] != condition:
            raise RefusedError("it does not do the same each time")
        sides[path[0][depth][1]].append(path)
    yes, no = _grown(sides[True], depth + 1), _grown(sides[False], depth + 1)
    return yes if yes == no else Branch(condition, yes, no)

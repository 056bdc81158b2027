"""Patterns that take a backtracking matcher exponential time, such as `(a+)+$`: found before they meet a text.

A pattern is seen as its characters and classes, and which of them may follow which. It is exponential if a loop can
read one text in two ways: a step exists twice, or two different steps read a common character and meet again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes
from re import _parser as parser
from typing import Any

# More characters and classes than these are not looked at: the pairs of them would be too many.
MOST_STEPS = 300
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
# What stands for all other characters when two classes are compared.
SAMPLES = "aZ_0 \t\n-./\\é本"


def is_exponential(pattern: re.Pattern[str]) -> bool:
    r"""Whether a search may take time that doubles with each character of a text.

    >>> [is_exponential(re.compile(each)) for each in (r"(a+)+$", r"(a|a)*$", r"(\w+\s?)*$", r"(\w+[.])+com$")]
    [True, True, True, False]
    """
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    if not _loops_in_loops(tree, inside=False):
        return False
    steps = _Steps(pattern.flags)
    steps.sequence(tree)
    return len(steps.signs) <= MOST_STEPS and steps.ambiguous()


def _loops_in_loops(tree: Iterable[tuple[Any, Any]], *, inside: bool) -> bool:
    """Whether something that can be read in several ways is in a loop: only such patterns are looked at closely."""
    for code, given in tree:
        if code in REPEATS:
            least, most, body = given
            if (inside and least != most) or _loops_in_loops(body, inside=inside or most > MOST_STEPS):
                return True
        elif code is codes.BRANCH:
            if inside or any(_loops_in_loops(each, inside=inside) for each in given[1]):
                return True
        elif any(_loops_in_loops(each, inside=inside) for each in _bodies(code, given)):
            return True
    return False


def _bodies(code: Any, given: Any) -> list[Any]:
    if code is codes.SUBPATTERN:
        return [given[-1]]
    if code is codes.ATOMIC_GROUP:
        return [given]
    return [given[1]] if code in (codes.ASSERT, codes.ASSERT_NOT) else []


@dataclass(frozen=True, slots=True)
class _Part:
    """The steps that a part of a pattern may begin and end with, and in how many ways it may be empty (2: or more).

    A step is listed once for each way to it.
    """

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    empty: int = 1


@dataclass(slots=True)
class _Steps:
    """The characters and classes of a pattern, by number, and how often each may follow each."""

    flags: int
    signs: list[re.Pattern[str]] = field(default_factory=list)
    follows: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    known: dict[str, None] = field(default_factory=lambda: dict.fromkeys(SAMPLES))

    def sequence(self, tree: Iterable[tuple[Any, Any]]) -> _Part:
        """The steps of parts one after another."""
        whole = _Part()
        for code, given in tree:
            part = self._part(code, given)
            self._follow(whole, part)
            whole = _Part(
                whole.first + part.first * whole.empty,
                whole.last * part.empty + part.last,
                min(whole.empty * part.empty, 2),
            )
        return whole

    def _part(self, code: Any, given: Any) -> _Part:
        if len(self.signs) > MOST_STEPS:
            return _Part()
        if code in REPEATS:
            return self._repeated(*given, atomic=code is codes.POSSESSIVE_REPEAT)
        if code is codes.BRANCH:
            parts = [self.sequence(each) for each in given[1]]
            first, last = (sum((getattr(part, end) for part in parts), ()) for end in ("first", "last"))
            return _Part(first, last, min(sum(part.empty for part in parts), 2))
        if code is codes.SUBPATTERN:
            return self.sequence(given[-1])
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
            return self._sign(code, given)
        # Positions, look-arounds, references and atomic groups are read in one way.
        for body in _bodies(code, given):
            self.sequence(body)
        return _Part()

    def _repeated(self, least: int, most: int, body: Any, *, atomic: bool) -> _Part:
        part = self.sequence(body)
        if most > MOST_STEPS:
            if not atomic:
                self._follow(part, part)
        elif least != most > 1:
            # A second one, for all others.
            again = self.sequence(body)
            self._follow(part, again)
            part = _Part(part.first, part.last + again.last, part.empty)
        return _Part(part.first, part.last, max(part.empty, least == 0))

    def _follow(self, before: _Part, after: _Part) -> None:
        for one in before.last:
            for two in after.first:
                self.follows[one][two] += 1

    def _sign(self, code: Any, given: Any) -> _Part:
        one = parser.SubPattern(parser.State(), [(code, given)])
        self.known.update(dict.fromkeys(_characters(code, given)))
        self.signs.append(compiler.compile(one, self.flags))
        number = len(self.signs) - 1
        return _Part((number,), (number,), empty=0)

    def ambiguous(self) -> bool:
        """Whether a loop can read one text in two ways."""
        reads = [frozenset(each for each in self.known if sign.fullmatch(each)) for sign in self.signs]
        loops = _loops({one: list(after) for one, after in self.follows.items()})
        for one, after in self.follows.items():
            if any(times > 1 and loops.get(one) == loops.get(two) is not None for two, times in after.items()):
                return True
        pairs = _pairs(self.follows, reads, loops)
        meeting = _loops(pairs)
        return any(one != two and (one, one) in pairs and meeting.get((one, one)) == group
                   for (one, two), group in meeting.items())  # fmt: skip


def _pairs(follows: Any, reads: Sequence[frozenset[str]], loops: Any) -> dict[Any, list[Any]]:
    """The pairs of steps of one loop that two readings of a text can be at, from a common one on."""
    made: dict[Any, list[Any]] = {}
    open_ = [(one, one) for one in loops]
    while open_:
        pair = open_.pop()
        if pair in made:
            continue
        one, two = pair
        made[pair] = [
            (a, b) for a in follows[one] for b in follows[two]
            if loops.get(a) == loops.get(one) and loops.get(b) == loops.get(two) and reads[a] & reads[b]
        ]  # fmt: skip
        open_ += made[pair]
    return made


def _loops(after: dict[Any, list[Any]]) -> dict[Any, int]:
    """For each node that lies on a loop the number of its loops' component (Tarjan's algorithm, without recursion)."""
    index: dict[Any, int] = {}
    low: dict[Any, int] = {}
    stack: list[Any] = []
    found: dict[Any, int] = {}
    done: set[Any] = set()
    for root, first in after.items():
        work = [(root, iter(first))] if root not in index else []
        while work:
            node, rest = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
            for each in rest:
                if each not in index:
                    work.append((each, iter(after.get(each, ()))))
                    break
                if each not in done:
                    low[node] = min(low[node], index[each])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    _close(node, stack, done, found, after)
    return found


def _close(node: Any, stack: list[Any], done: set[Any], found: dict[Any, int], after: dict[Any, list[Any]]) -> None:
    """Take a component from the stack; one node alone is a loop only if it follows itself."""
    members = [stack.pop()]
    while members[-1] != node:
        members.append(stack.pop())
    done.update(members)
    if len(members) > 1 or node in after.get(node, ()):
        found.update(dict.fromkeys(members, len(done)))


def _characters(code: Any, given: Any) -> Iterable[str]:
    """Characters of a class, and the ends of its ranges."""
    if code in (codes.LITERAL, codes.NOT_LITERAL):
        yield chr(given)
    for kind, value in given if code is codes.IN else ():
        if kind is codes.LITERAL:
            yield chr(value)
        elif kind is codes.RANGE:
            yield from (chr(value[0]), chr(value[1]))

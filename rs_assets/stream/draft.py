"""The steps of one pipeline while it is written. `build()` takes those that belong together."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from os import PathLike, fspath
from typing import Any, Self

from rs_assets.common.names import checked_name
from rs_assets.common.node import Node, check_switches, equal_names
from rs_assets.connectors.delta.nodes import DeltaSink
from rs_assets.connectors.nodes import Sink


class StepRef(str):
    """The name of a step, with its node and the sinks that were added to it so far.

    So a stream is a value: it refers to exactly the steps that made it, whatever is written later.
    """

    __slots__ = ("node", "number", "sinks")

    node: Node
    number: int
    sinks: tuple[StepRef, ...]

    @classmethod
    def of(cls, node: Node, number: int, sinks: tuple[StepRef, ...] = ()) -> Self:
        """A reference to `node`, the step with this `number` in the order of writing."""
        made = cls(node.name)
        made.node, made.number, made.sinks = node, number, sinks
        return made

    def upstream(self, *, sinks: bool = True) -> Iterator[StepRef]:
        """This step, all steps upstream of it, and their sinks."""
        waiting, seen = [self], set[int]()
        while waiting:
            current = waiting.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            yield current
            waiting += [name for name in current.node.follows if isinstance(name, StepRef)]
            waiting += current.sinks if sinks else ()


@dataclass(slots=True)
class Draft:
    """The steps that were written since the last `build()`, and the number of all steps.

    `build()` takes the stream that it is called on and the branches that were written since the previous one. In a
    program a duplicate name among them, or a step that leads nowhere, is a mistake. In a notebook or at a prompt, where
    a cell may run again, a later step replaces the earlier one of its name, and steps that lead nowhere are left out.
    Steps that were only previewed, or are `spare`, are left out everywhere.
    """

    namespace: str
    job: str
    pending: list[StepRef] = field(default_factory=list)
    count: int = 0
    built: bool = False
    spare: set[int] = field(default_factory=set)

    def add(self, node: Node) -> StepRef:
        """Add `node` and return a reference to it; TopologyError if its name is taken, or a switch is not a bool.

        Names are taken by the steps upstream and by those since the last build.

        A sink whose input is a plain name, not a reference, is added to that step permanently.
        """
        check_switches(node)
        steps = {str(step): step for step in self.pending}
        plain = [steps[name] for name in node.inputs if not isinstance(name, StepRef) and name in steps]
        if plain:
            node = replace(node, inputs=tuple(steps.get(name, name) for name in node.inputs))
        made = StepRef.of(node, self.count)
        if _prompted():
            self.pending = [other for other in self.pending if other != made]
        taken = {*self.pending, *(step for step in made.upstream() if step is not made)}
        if made in taken:
            raise equal_names(node, job=self.job)
        self.count += 1
        self.pending.append(made)
        for step in plain if isinstance(node, Sink) else ():
            step.sinks = (*step.sinks, made)
        return made

    def add_spare(self, node: Node) -> StepRef:
        """`add` a step that is left out if nothing follows it."""
        made = self.add(node)
        self.leave_out(made)
        return made

    def leave_out(self, step: str) -> None:
        """Leave a step out if nothing follows it."""
        if isinstance(step, StepRef):
            self.spare.add(step.number)

    def add_sink(self, step: str, node: Node) -> str:
        """Add the sink `node` to `step` and return a reference to that step which knows the sink."""
        made = self.add(node)
        if not isinstance(step, StepRef):
            return step
        return StepRef.of(step.node, step.number, (*step.sinks, made))

    def auto_name(self, kind: str, name: str | None, *, after: str = "") -> str:
        """`name` if given, else `kind` and the first free number: for stateless steps, whose names are not stored.

        `after` is the step upstream.
        """
        if name is not None:
            return checked_name(name, what="step")
        taken = {*self.pending, *(after.upstream() if isinstance(after, StepRef) else ())}
        place = 1
        while f"{kind}_{place}" in taken:
            place += 1
        return f"{kind}_{place}"

    def leading_to(self, step: str) -> tuple[Node, ...]:
        """`step` and the nodes upstream of it, in the order of writing, without sinks."""
        ways = step.upstream(sinks=False) if isinstance(step, StepRef) else ()
        return tuple(_plain(each.node) for each in sorted(ways, key=lambda each: each.number))

    def preview(self, step: str) -> tuple[Node, ...]:
        """`leading_to` for a preview: these steps may lead nowhere."""
        if isinstance(step, StepRef):
            self.spare |= {each.number for each in step.upstream(sinks=False)}
        return self.leading_to(step)

    def take(self, step: str) -> tuple[Node, ...]:
        """The nodes of the pipeline that contains `step`, in the order of writing.

        They refer to each other by plain names. Later steps belong to another pipeline.
        """
        waiting, self.pending = self.pending, []
        self.built = True
        left_out, self.spare = self.spare, set()
        branches = [
            each for each in waiting if isinstance(each.node, Sink) or not (_prompted() or each.number in left_out)
        ]
        last = (step,) if isinstance(step, StepRef) else ()
        found = {each.number: each for start in (*branches, *last) for each in start.upstream()}
        return tuple(_plain(found[number].node) for number in sorted(found))


def meet(one: str, other: str) -> bool:
    """Whether two steps get rows from a common step, other than through a durable shuffle."""
    return not _above(one).isdisjoint(_above(other))


def _above(step: str) -> set[int]:
    """The numbers of a step and of all steps upstream."""
    waiting, found = [step], set[int]()
    while waiting:
        current = waiting.pop()
        if isinstance(current, StepRef) and current.number not in found:
            found.add(current.number)
            waiting += current.node.inputs
    return found


def _plain(node: Node) -> Node:
    """`node` with plain names instead of references."""
    held = {each.name: getattr(node, each.name) for each in fields(node)}
    named: dict[str, Any] = {name: str(value) for name, value in held.items() if isinstance(value, StepRef)}
    if node.inputs:
        named["inputs"] = tuple(map(str, node.inputs))
    return replace(node, **named) if named else node


def _prompted() -> bool:
    """Whether a person uses a prompt: Python's own, IPython's or a notebook's."""
    return hasattr(sys, "ps1")


def name_from(text: str, *, suffix: str) -> str:
    """A legal step name from the last part of a table name or path.

    >>> name_from("/data/Out Dir.jsonl", suffix="files")
    'out_dir_files'
    """
    last = text.rstrip("/").rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()
    stem = re.sub(r"[^a-z0-9]+", "_", last).strip("_")[:50]
    return f"{stem}_{suffix}" if stem[:1].isalpha() else suffix


def late_sink(step: str, table: str | PathLike[str], *, name: str | None = None) -> DeltaSink:
    """The sink for the late rows of `step`."""
    where = fspath(table)
    return DeltaSink(name=name or name_from(where, suffix="table"), inputs=(step,), table=where, late=True)

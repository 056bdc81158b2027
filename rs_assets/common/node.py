"""The base class of all nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from rs_assets.common.names import checked_name
from rs_assets.errors import TopologyError

Family = Literal["source", "step", "shuffle", "window", "join", "table", "processor", "sink"]
# The metadata of a field that changes neither which records are read nor what becomes of them: `Topology.code` has all
# others.
EFFECT: Final = "effect"
NO_EFFECT: Final[Mapping[str, bool]] = MappingProxyType({EFFECT: False})


def positive(value: object) -> bool:
    """Whether `value` is a positive int; a bool does not count."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def positive_time(value: object) -> bool:
    """Whether `value` is a positive timedelta."""
    return isinstance(value, timedelta) and value > timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step of a pipeline. `name` is unique in it and keys its state for ever; `inputs` are names of other nodes."""

    family: ClassVar[Family] = "step"
    stateful: ClassVar[bool] = False
    # Whether Spark can redistribute this state over another number of partitions without loss.
    rescalable: ClassVar[bool] = True
    # Whether its effects may be visible before the batch is committed.
    at_once: ClassVar[bool] = False
    # The system that it reads or writes: Dagster has an icon for many. Empty for none.
    icon: ClassVar[str] = ""

    name: str
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a name that could not be a folder, a column or an asset key."""
        checked_name(self.name, what="step")

    @property
    def kind(self) -> str:
        """The node's kind in lower case with underscores: `window_aggregate`, `delta_sink`."""
        text = type(self).__name__
        return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(text))

    @property
    def follows(self) -> tuple[str, ...]:
        """The nodes that feed it: its inputs, or, through a table or a topic, those of another query."""
        return self.inputs

    def detail(self) -> str:
        """One short line about what the node does, for `describe()`."""
        return ""

    def identity(self) -> tuple[str, ...]:
        """The settings that the node's state depends on; part of the topology's fingerprint."""
        return (self.detail(),)

    @property
    def reading(self) -> tuple[str, ...]:
        """Further such settings, without those of defaults; earlier releases have not stored them with their state."""
        return ()

    @property
    def further(self) -> tuple[str, ...]:
        """Further settings again, which only later releases have stored."""
        return ()

    @property
    def emitting(self) -> tuple[str, ...]:
        """Further settings that its rows depend on, and not its own state, which must fit those of steps after it."""
        return ()


def equal_names(node: Node, *, job: str) -> TopologyError:
    """The error of a second step of a pipeline that has the name of `node`."""
    return TopologyError(
        f"pipeline {job!r} has two steps called {node.name!r}",
        remedy="name one of them: name='...', or .to_table(name='...') for a group of a table",
        step=node.name,
    )


def check_switches(node: Node) -> None:
    """TopologyError for a setting of `node` that is neither True nor False, and must be one of them."""
    for setting in fields(node):
        value = getattr(node, setting.name)
        if setting.type == "bool" and not isinstance(value, bool):
            raise TopologyError(
                f"step {node.name!r} has {setting.name}={value!r}, which must be True or False",
                remedy=f"write {setting.name}=True or {setting.name}=False",
                step=node.name,
            )

"""Rules from a table, evaluated over a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rs_assets.common.node import Node
from rs_assets.errors import TopologyError
from rs_assets.records.columns import PREFIX
from rs_assets.topology.nodes.versioned import VersionedTable

MatchForm = Literal["matched", "all", "per_match"]
# The column of the name of a rule, in rows per match.
RULE = "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchRules(VersionedTable):
    """Each row with the rules that hold for it: as an array in `into`, or as a row per rule, with its columns `carry`.

    `reads` are the fields that the rules may read, None for any.
    """

    into: str = "rules"
    form: MatchForm = "matched"
    carry: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid form, or names of fields that cannot be."""
        Node.__post_init__(self)
        if self.form not in get_args(MatchForm):
            raise self._refused(f"has the form {self.form!r}", f"use one of: {', '.join(get_args(MatchForm))}")
        if self.carry and self.form != "per_match":
            raise self._refused("carries columns of rules into rows of several", "write form='per_match'")
        unknown = [name for name in self.carry if name not in (self.dimension.names or self.carry)]
        if unknown:
            known = ", ".join(self.dimension.names or ())
            raise self._refused(f"carries {unknown[0]!r}, which its rules do not have", f"they have: {known}")
        if not self.into or self.into.casefold().startswith(PREFIX):
            raise self._refused(f"writes into {self.into!r}", "give it a name of its own: into='rules'")

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of a rule."""
        return (RULE,)

    @property
    def version_field(self) -> str:
        """The column with the version that has judged a row."""
        return "rule_version" if self.form == "per_match" else f"{self.into}_version"

    @property
    def added(self) -> tuple[str, ...]:
        """The fields that it adds, in their order."""
        return (*(self.carried if self.form == "per_match" else (self.into,)), self.version_field)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns of rules that rows per match get."""
        return tuple(dict.fromkeys((RULE, *self.carry)))

    def detail(self) -> str:
        """The form and the rules."""
        return f"{self.form} by {self.dimension.text}"

    def identity(self) -> tuple[str, ...]:
        """What becomes of a row that matches; rules are data, wherever they are, and may change."""
        return (self.form, ",".join(self.added))

    def _refused(self, why: str, remedy: str) -> TopologyError:
        return TopologyError(f"step {self.name!r} {why}", remedy=remedy, step=self.name)

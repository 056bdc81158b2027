"""What a script becomes: steps over a frame, in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fill:
    """Fields that are added or replaced, all computed from the record as it came."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Records that stay: those for which the condition is true."""

    condition: str


@dataclass(frozen=True, slots=True)
class Project:
    """The fields that stay, in order, each as SQL and the name that it has then."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Generate:
    """One record becomes several: the fields that stay, and a generator beside them."""

    kept: tuple[str, ...]
    generator: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Columns of the script's own that leave."""

    columns: tuple[str, ...]


Step = Fill | Keep | Project | Generate | Drop


@dataclass(frozen=True, slots=True)
class Bound:
    """The steps of a script over known fields, and the fields behind them with their types."""

    steps: tuple[Step, ...]
    fields: tuple[tuple[str, str | None], ...]

"""The steps of a compiled script over a frame, in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fill:
    """Fields that are added or replaced, all computed from the input record."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps the records for which the condition is true."""

    condition: str


@dataclass(frozen=True, slots=True)
class Project:
    """The remaining fields in order, each as SQL and its new name."""

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Generate:
    """One record becomes several: the remaining fields, and a generator."""

    kept: tuple[str, ...]
    generator: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Drops the internal columns of the script."""

    columns: tuple[str, ...]


Step = Fill | Keep | Project | Generate | Drop


@dataclass(frozen=True, slots=True)
class Bound:
    """The steps of a script over known fields, and the resulting fields with their types."""

    steps: tuple[Step, ...]
    fields: tuple[tuple[str, str | None], ...]

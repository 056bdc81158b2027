"""The folder of captured batches: their facts, the records of each source, and the rows that are expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rs_assets.common.json_lines import object_of, objects_in
from rs_assets.errors import ConfigurationError
from rs_assets.runtime.capture.values import as_line

FACTS: Final = "capture.json"
RECORDS, EXPECTED = "records", "expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedBatch:
    """One batch, which began at the time `at`; if it was not `asked` for, it only gives the state its records.

    `control`: the event time to which the watermark was moved by other means than records, None if it was not.
    """

    batch: int
    at: datetime
    asked: bool = True
    control: datetime | None = None

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> CapturedBatch:
        """A batch of JSON."""
        times = {name: facts[name] and datetime.fromisoformat(facts[name]) for name in ("at", "control")}
        return cls(**{**facts, **times})


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Batches of one query in a folder, the oldest first.

    `begins` is the event time at which they begin, if earlier batches are left out. `schemas` has the fields of each
    source as DDL. `sinks` are the outputs of the query.
    """

    pipeline: str
    query: str
    code: str
    begins: datetime | None
    schemas: Mapping[str, str]
    sinks: tuple[str, ...]
    masked: tuple[str, ...]
    notes: tuple[str, ...]
    batches: tuple[CapturedBatch, ...]

    @classmethod
    def read(cls, folder: Path) -> Captured:
        """Those in a folder; ConfigurationError if it has none, or if they do not parse."""
        try:
            text = (folder / FACTS).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"{folder} has no captured batches", remedy="capture them: rs-assets capture NAME", folder=folder
            ) from error
        try:
            facts = object_of(text)
        except ValueError as error:
            raise _unreadable(str(error), folder / FACTS, None) from error
        begins = facts["begins"] and datetime.fromisoformat(facts["begins"])
        lists = {name: tuple(facts[name]) for name in ("sinks", "masked", "notes")}
        return cls(**{**facts, **lists, "begins": begins, "batches": tuple(map(CapturedBatch.of, facts["batches"]))})

    def write(self, folder: Path) -> None:
        """Write the facts into a folder."""
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False, default=datetime.isoformat)
        (folder / FACTS).write_text(f"{text}\n", encoding="utf-8")

    @property
    def asked(self) -> tuple[int, ...]:
        """The batches that are compared."""
        return tuple(each.batch for each in self.batches if each.asked)


def records_file(folder: Path, batch: int, source: str) -> Path:
    """The file with the records that a batch has read from a source; there is none without records."""
    return folder / RECORDS / f"{batch:06d}.{source}.jsonl"


def expected_file(folder: Path, batch: int, sink: str) -> Path:
    """The file with the rows of a batch that are expected of an output; without it they are not compared."""
    return folder / EXPECTED / f"{batch:06d}.{sink}.jsonl"


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as lines of JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes("".join(f"{as_line(row)}\n" for row in rows).encode())


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file; none if it is not there. ConfigurationError names a line that is not an object of JSON."""
    text = file.read_bytes().decode() if file.exists() else ""
    return objects_in(text, lambda line, why: _unreadable(why, file, line))


def _unreadable(what: str, file: Path, line: int | None) -> ConfigurationError:
    return ConfigurationError(
        f"a captured batch cannot be read: {what}", remedy="correct it: one object of JSON", file=file, line=line
    )

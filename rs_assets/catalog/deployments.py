"""The table of deployments: the text of each version of a pipeline, and its desired state.

Any client that writes Delta may append to it. Rows are not trusted: an invalid row becomes a version with a `fault`,
which the reader reports.
"""

from __future__ import annotations

import getpass
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from rs_assets.common.folder import Folder, make_folder
from rs_assets.common.names import NAME
from rs_assets.common.storage import storage_options
from rs_assets.connectors.delta.log.store import delta_table
from rs_assets.connectors.delta.rows import rows_of
from rs_assets.errors import CheckpointError, ConfigurationError

Wanted = Literal["running", "stopped", "dropped"]
WANTED: tuple[Wanted, ...] = get_args(Wanted)
# As a value of `reset`: all steps.
EVERYTHING = "*"
# The greatest number that fits the column.
LAST = 2**63 - 1
SCHEMA = pa.schema(
    [
        ("pipeline", pa.string()),
        ("version", pa.int64()),
        ("text", pa.string()),
        ("variables", pa.map_(pa.string(), pa.string())),
        ("state", pa.string()),
        ("reset", pa.string()),
        ("note", pa.string()),
        ("author", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
_FAULTY = MappingProxyType({"version": "a row has no version above 0", "twice": "two rows have this version"})

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a pipeline. `text` is that of the previous version if its row has none.

    `reset` names the steps whose state it drops. `fault` says why the version is invalid, empty if it is valid.
    """

    pipeline: str
    version: int
    text: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    state: Wanted = "running"
    reset: tuple[str, ...] = ()
    note: str = ""
    author: str = ""
    at: datetime | None = None
    fault: str = ""

    @property
    def namespace(self) -> str:
        """The first part of the pipeline's name."""
        return self.pipeline.partition(".")[0]

    @property
    def job(self) -> str:
        """The second part of the pipeline's name."""
        return self.pipeline.partition(".")[2]

    @property
    def mark(self) -> str:
        """Distinguishes it from a version of the same number in a table that was recreated or restored.

        >>> one = Version(pipeline="shop.a", version=1, text="SELECT 1")
        >>> one.mark == Version(pipeline="shop.a", version=1, text="SELECT 1", note="the same").mark
        True
        >>> one.mark == Version(pipeline="shop.a", version=1, text="SELECT 2").mark
        False
        """
        content = (self.text, sorted(self.variables.items()), self.state, self.reset, self.at and self.at.isoformat())
        return hashlib.sha256(repr(self.fault or content).encode("utf-8", "backslashreplace")).hexdigest()[:16]

    def same(self, other: Version | None) -> bool:
        """Whether both are the same version of the same table."""
        return other is not None and (self.version, self.mark) == (other.version, other.mark)

    def says(self, other: Version) -> bool:
        """Whether both have the same statements."""
        return (self.text, dict(self.variables)) == (other.text, dict(other.variables))


@dataclass(frozen=True, slots=True)
class DeploymentTable:
    """The Delta table of deployments at `path`."""

    path: Folder

    def versions(self) -> Mapping[str, tuple[Version, ...]]:
        """All versions by pipeline, oldest first; {} without a table. CheckpointError if it cannot be read."""
        with _errors(self.path, "read"):
            table = _opened(self.path)
            return {} if table is None else _read(str(self.path), _stamp(self.path, table), table.version())

    def of(self, pipeline: str) -> tuple[Version, ...]:
        """The versions of one pipeline, oldest first."""
        return self.versions().get(pipeline, ())

    @retry(
        retry=retry_if_exception_type(CommitFailedError),
        stop=stop_after_attempt(10),
        wait=wait_random_exponential(multiplier=0.01, max=0.5),
        reraise=True,
    )
    def add(self, pipeline: str, **columns: object) -> int:
        """Append the next version of `pipeline`, and return its number.

        Concurrent calls get different numbers. ConfigurationError for an invalid pipeline name.
        """
        if not is_name(pipeline):
            raise ConfigurationError(f"{pipeline!r} is not the name of a pipeline", remedy="use namespace.job")
        table = self._made()
        known = _read(str(self.path), _stamp(self.path, table), table.version()).get(pipeline, ())
        number = known[-1].version + 1 if known else 1
        if number > LAST:
            raise ConfigurationError(
                f"{pipeline} cannot have a version after {LAST}", remedy="deploy it under another name"
            )
        row = {"author": _author(), "at": datetime.now(UTC), **columns, "pipeline": pipeline, "version": number}
        rows = pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names}], schema=SCHEMA)
        # Of two concurrent commits with the same transaction id, one is refused.
        mark = CommitProperties(app_transactions=[Transaction(f"deploy/{pipeline}", number)])
        with _errors(self.path, "written"):
            write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=mark)
        return number

    def _made(self) -> DeltaTable:
        with _errors(self.path, "written"):
            make_folder(self.path)
            path = str(self.path)
            return DeltaTable.create(path, SCHEMA, mode="ignore", storage_options=storage_options(path))


def stamp_of(path: Folder) -> str:
    """A value that changes with every write to the Delta table at `path`; empty without one. Reads no rows."""
    with _errors(path, "read"):
        table = _opened(path)
        return "" if table is None else _stamp(path, table)


def _stamp(path: Folder, table: DeltaTable) -> str:
    """Identifies a version of a table; one restored from a copy has other rows under the same numbers."""
    stamp = f"{table.metadata().id}:{table.version()}"
    if not isinstance(path, Path):
        return stamp
    try:
        entry = (path / "_delta_log" / f"{table.version():020}.json").stat()
    except OSError:
        return stamp
    return f"{stamp}:{entry.st_ino}:{entry.st_mtime_ns}"


def is_name(pipeline: object) -> bool:
    """Whether it is a valid pipeline name.

    >>> is_name("shop.clicks"), is_name("clicks")
    (True, False)
    """
    parts = pipeline.split(".") if isinstance(pipeline, str) else []
    return len(parts) == 2 and all(NAME.fullmatch(part) for part in parts)


def _opened(path: Folder) -> DeltaTable | None:
    try:
        return delta_table(str(path))
    except TableNotFoundError:
        return None


@lru_cache(maxsize=8)
def _read(path: str, _stamp: str, version: int) -> Mapping[str, tuple[Version, ...]]:  # a table may be recreated
    table = rows_of(delta_table(path, version), path)
    columns = [[_value(each) for each in column] for column in table.columns]
    rows = [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    named = sorted(rows, key=lambda row: (str(row.get("pipeline")), _number(row)))
    return MappingProxyType(
        {name: tuple(_chained(list(of))) for name, of in groupby(named, lambda row: str(row.get("pipeline")))}
    )


def _value(scalar: pa.Scalar) -> object:
    """The value of a cell; None for values that Python cannot hold, such as a time after the year 9999."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return None


def _chained(rows: list[Row]) -> Iterator[Version]:
    """The versions of one pipeline; each takes missing columns from the previous one."""
    before: Version | None = None
    for number, same in groupby(rows, _number):
        every = list(same)
        made = _version(every[-1], number, before)
        fault = _FAULTY["version"] if number < 1 else _FAULTY["twice"] if _differ(every) else made.fault
        before = Version(**{**_fields(made), "fault": fault})
        yield before


def _number(row: Row) -> int:
    """The number of a row's version, 0 without one."""
    number = row.get("version")
    return number if isinstance(number, int) else 0


def _fields(version: Version) -> dict[str, Any]:
    return {name: getattr(version, name) for name in Version.__slots__}


def _differ(rows: Iterable[Row]) -> bool:
    """Whether rows with the same number differ."""
    return len({str([row.get(name) for name in ("text", "variables", "state", "reset")]) for row in rows}) > 1


def _version(row: Row, number: int, before: Version | None) -> Version:
    pipeline, state = str(row.get("pipeline")), row.get("state") or "running"
    text, variables, reset, at = row.get("text"), row.get("variables"), str(row.get("reset") or ""), row.get("at")
    if text is None and before is not None:
        text, variables = before.text, before.variables if variables is None else variables
    fault = ""
    if not is_name(pipeline):
        fault = f"{pipeline!r} is not the name of a pipeline: use namespace.job"
    elif state not in WANTED:
        fault = f"the state {state!r} is unknown: use {', '.join(WANTED)}"
    elif text is None and state == "running":
        fault = "it has no text, and there is no previous version"
    elif _variables(variables) is None:
        fault = f"its variables have the type {type(variables).__name__}: use a map of names to values"
    return Version(
        pipeline=pipeline,
        version=number,
        text=str(text or ""),
        variables=_variables(variables) or {},
        state=state if state in WANTED else "running",
        reset=tuple(name.strip() for name in reset.split(",") if name.strip()),
        note=str(row.get("note") or ""),
        author=str(row.get("author") or ""),
        at=at if isinstance(at, datetime) else None,
        fault=fault,
    )


def _variables(found: object) -> Mapping[str, str] | None:
    """The variables of a row, a map or a list of its entries; None if they are anything else."""
    try:
        return {str(name): str(value) for name, value in dict(found or ()).items() if value is not None}  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None


def _author() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


@contextmanager
def _errors(path: Folder, what: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise CheckpointError(
            f"the table of deployments cannot be {what}",
            remedy="check that the table is intact, has the columns of docs/deployments.md, and that the disk has room",
            file=path,
            cause=str(error)[:200],
        ) from error

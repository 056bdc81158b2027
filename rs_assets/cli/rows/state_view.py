"""Queries of state for the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from rs_assets.cli.base import fields_of
from rs_assets.common.home import Home
from rs_assets.common.plural import count_of
from rs_assets.errors import ConfigurationError
from rs_assets.operators.state.reader import KEY
from rs_assets.operators.state.served import ServedState, flat, matches
from rs_assets.operators.state.snapshot import difference, snapshot_at
from rs_assets.runtime.options import RunOptions
from rs_assets.runtime.upkeep.state import preview, served_folder, snapshot_state, state_path
from rs_assets.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuestion:
    """A query of a step's state; the options of the command `state` describe it."""

    step: str
    keys: tuple[str, ...] = ()
    batch: int | None = None
    diff: int | None = None
    open_now: bool = False
    refresh: bool = False
    limit: int = 20


Rows = list[dict[str, Any]]


def answer(topology: Topology, question: StateQuestion) -> tuple[str, Rows]:
    """A line about the age of the answer, and the rows."""
    _check_moment(question)
    stateful = [node.name for node in topology if node.stateful]
    if question.step not in stateful:
        raise ConfigurationError(
            f"{question.step!r} keeps no state", remedy=f"use one of: {', '.join(stateful) or 'none'}"
        )
    home = Home.default()
    if question.refresh:
        snapshot_state(topology, RunOptions(home=home))
    fields = fields_of("--key", question.keys, example="page=/index")
    if question.open_now:
        there = _rows(preview(topology, question.step, RunOptions(home=home)).to_pylist())
        rows = [row for row in there if matches(row, fields)]
        if not rows:
            _refuse_unknown(fields, there)
        return "open windows as of the last committed batch", rows[: question.limit]
    path = state_path(topology, question.step, home)
    if question.diff is not None or question.batch is not None:
        said, found = _snapshots(path, question)
        wanted = [row for row in found.to_pylist() if matches(orjson.loads(row[KEY]), fields)] if fields else None
        if wanted == []:
            _refuse_unknown(fields, map(orjson.loads, found[KEY].to_pylist()))
        noun = "row" if question.diff is None else "change"
        number = count_of(found.num_rows if wanted is None else len(wanted), noun)
        return f"{number} {said}", _first(found, wanted, question.limit)
    with ServedState(served_folder(topology, question.step, home)) as served:
        rows = [
            {"key": row.key, "value": row.value, "batch": row.batch_id}
            for row in served.find(fields, limit=question.limit)
        ]
        if not rows:
            _refuse_unknown(fields, served.keys())
        return f"as of batch {served.batch_id}, {served.age.total_seconds():.0f} s ago", rows


def _check_moment(question: StateQuestion) -> None:
    """ConfigurationError if the open windows are asked for as of a batch: only the last one has them."""
    if question.open_now and (question.batch is not None or question.diff is not None):
        raise ConfigurationError(
            "--open shows the windows of the last batch only", remedy="leave out --batch and --diff, or --open"
        )


def _snapshots(path: str, question: StateQuestion) -> tuple[str, pa.Table]:
    """What is shown of the table of snapshots, in words after their number, and its rows.

    The words name the batches whose snapshots were found.
    """
    until, found = snapshot_at(path, question.batch)
    now = "now" if until is None else f"batch {until}"
    if question.diff is None:
        return f"of state at {now}{_asked(question.batch, until)}", found
    since, before = snapshot_at(path, question.diff)
    told = f"from batch {since}{_asked(question.diff, since)} to {now}{_asked(question.batch, until)}"
    return told, difference(before, found)


def _asked(batch: int | None, found: int | None) -> str:
    """The batch that was asked for, if the snapshot before it is shown."""
    return "" if batch == found else f" (the last snapshot up to {batch})"


def _refuse_unknown(fields: Mapping[str, str], keys: Iterable[Mapping[str, Any]]) -> None:
    """ConfigurationError for a field that none of the keys has, if there are any; keys of a join have several forms."""
    known = {name: None for key in keys for name in flat(key)}
    unknown = [name for name in fields if known and name not in known]
    if unknown:
        raise ConfigurationError(f"no key has the field {unknown[0]!r}", remedy=f"use some of: {', '.join(known)}")


def _first(table: pa.Table, wanted: Rows | None, limit: int) -> Rows:
    return _rows(table.slice(0, limit).to_pylist() if wanted is None else wanted[:limit])


def _rows(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """The rows with values as in JSON."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else orjson.loads(orjson.dumps(value, default=str))

"""Queries of state for the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from rs_assets.cli.base import fields_of
from rs_assets.common.home import Home
from rs_assets.errors import ConfigurationError
from rs_assets.operators.state.served import ServedState
from rs_assets.operators.state.snapshot import difference, state_at
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
    stateful = [node.name for node in topology if node.stateful]
    if question.step not in stateful:
        raise ConfigurationError(
            f"{question.step!r} keeps no state", remedy=f"use one of: {', '.join(stateful) or 'none'}"
        )
    home = Home.default()
    if question.refresh:
        snapshot_state(topology, RunOptions(home=home))
    if question.open_now:
        rows = preview(topology, question.step, RunOptions(home=home))
        return "open windows as of the last committed batch", rows.slice(0, question.limit).to_pylist()
    path = state_path(topology, question.step, home)
    if question.diff is not None:
        changes = difference(state_at(path, question.diff), state_at(path, question.batch))
        until = "now" if question.batch is None else f"batch {question.batch}"
        return f"{changes.num_rows:,} changes from batch {question.diff} to {until}", _first(changes, question.limit)
    if question.batch is not None:
        found = state_at(path, question.batch)
        return f"{found.num_rows:,} rows of state at batch {question.batch}", _first(found, question.limit)
    with ServedState(served_folder(topology, question.step, home)) as served:
        rows = [
            {"key": row.key, "value": row.value, "batch": row.batch_id}
            for row in served.find(fields_of("--key", question.keys, example="page=/index"), limit=question.limit)
        ]
        return f"as of batch {served.batch_id}, {served.age.total_seconds():.0f} s ago", rows


def _first(table: pa.Table, limit: int) -> Rows:
    return [{name: _plain(value) for name, value in row.items()} for row in table.slice(0, limit).to_pylist()]


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else orjson.loads(orjson.dumps(value, default=str))

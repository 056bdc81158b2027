"""The history of rows in a table: each version of a row, with the times from and until which it was valid.

The versions of a key follow from the times of its rows alone, so rows may come late, and batches may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable

from rs_assets.common.plural import count_of
from rs_assets.connectors.delta.merge import merge
from rs_assets.connectors.delta.nodes import CURRENT, FROM, TO
from rs_assets.connectors.delta.rows import dataset_of
from rs_assets.connectors.delta.table_rules import nullable
from rs_assets.errors import SinkError
from rs_assets.records.columns import RETRACTED, visible
from rs_assets.records.newest import kept, ordered, winners

NOW: Final = pa.timestamp("us", "UTC")
# Up to so many keys are looked for one by one, more by their range.
FEW: Final = 1_000
# No end in sight, and an end that differs from every other; both lie before all times.
OPEN, UNKNOWN = -(1 << 63), -(1 << 63) + 1
# At one time a version's known end comes first, then its known beginning, then what is new.
ENDED, KNOWN, NEW = 0, 1, 2
Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """What the versions of a row are: by `keys`, valid from the field `time`; None: from when its batch is written.

    Of the rows of a key with one time the last by `order_by` is kept, else the one that was read last. Where `deletes`
    is true, the row ends at that time.
    """

    step: str
    keys: tuple[str, ...]
    time: str | None = None
    order_by: tuple[str, ...] = ()
    deletes: str | None = None

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the history of `rows`."""
        kind = NOW if self.time is None else rows.field(self.time).type
        shown = [rows.field(name) for name in visible(rows.names)]
        added = [pa.field(FROM, kind), pa.field(TO, kind), pa.field(CURRENT, pa.bool_())]
        return nullable(pa.schema([*shown, *added]))

    def net(self, rows: pa.Table) -> pa.Table:
        """The rows of a batch that begin or end a version: one for each key and time."""
        if self.time is not None and rows[self.time].null_count:
            raise SinkError(
                f"{count_of(rows[self.time].null_count, 'row')} without {self.time!r}, from which a row is valid",
                remedy=f"leave them out: .filter({self.time + ' IS NOT NULL'!r})",
                step=self.step,
            )
        keys = self.keys if self.time is None else (*self.keys, self.time)
        return winners(rows, keys=keys, order_by=self.order_by, deletes=self.deletes)

    def merge(self, table: DeltaTable, path: str, net: pa.Table, marker: CommitProperties) -> None:
        """Change the versions in the table by the rows of a batch."""
        rows = self.changed(net, dataset_of(table, path).to_table(filter=self._wanted(net)))
        merge(table, rows, keys=(*self.keys, FROM), order_by=(), deletes=RETRACTED, marker=marker)

    def begun(self, net: pa.Table) -> pa.Table:
        """The versions of a new table."""
        return kept(self.changed(net, self.schema(net.schema).empty_table()), RETRACTED)

    def changed(self, net: pa.Table, known: pa.Table) -> pa.Table:
        """The versions that begin, change or (RETRACTED) go, given those that the table has of these keys."""
        schema, count = self.schema(net.schema), net.num_rows
        known = known.select(schema.names).cast(schema)
        codes = _codes([_joined(net, known, key) for key in self.keys])
        touched = np.isin(codes[count:], codes[:count])
        known = known.filter(pa.array(touched))
        events = self._events(net, known, np.concatenate([codes[:count], codes[count:][touched]]))
        shown = visible(net.column_names)
        pool = pa.concat_tables([net.select(shown).cast(pa.schema(map(schema.field, shown))), known.select(shown)])
        until = np.concatenate([np.full(count, UNKNOWN), _numbers(known[TO])])
        return _versions(events, pool, until, schema)

    def _wanted(self, net: pa.Table) -> pc.Expression:
        """The versions in the table that these rows may change, and some others."""
        kind = self.schema(net.schema).field(TO).type
        first = pa.scalar(datetime.now(UTC)) if self.time is None else pc.min(net[self.time])
        lasting = pc.field(TO).is_null() | (pc.field(TO) > first.cast(kind))
        return reduce(lambda found, key: found & _among(key, net[key]), self.keys, lasting)

    def _events(self, net: pa.Table, known: pa.Table, codes: Numbers) -> pa.Table:
        """What happens to each key (`code`) `at` a time, in order; `place` is that of its row, -1 if it only ends."""
        begins, until = _numbers(known[FROM]), _numbers(known[TO])
        closed = until != OPEN
        counts = (net.num_rows, known.num_rows, int(closed.sum()))
        at = np.full(counts[0], _now(begins, until)) if self.time is None else _numbers(net[self.time])
        columns = {
            "code": np.concatenate([codes, codes[counts[0] :][closed]]),
            "at": np.concatenate([at, begins, until[closed]]),
            **{
                f"order {n} {part}": column
                for n, by in enumerate(self.order_by)
                for part, column in enumerate(ordered(_joined(net, known, by, more=counts[2])))
            },
            "rank": np.repeat([NEW, KNOWN, ENDED], counts),
        }
        place = np.concatenate([np.arange(counts[0] + counts[1]), np.full(counts[2], -1)])
        events = pa.table({**columns, "place": place, "gone": pa.array(self._gone(net, sum(counts)))})
        return events.take(pc.sort_indices(events, sort_keys=[(name, "ascending", "at_start") for name in columns]))

    def _gone(self, net: pa.Table, count: int) -> Numbers:
        gone = np.zeros(count, bool)
        if self.deletes is not None:
            gone[: net.num_rows] = pc.fill_null(net[self.deletes], fill_value=False).to_numpy()
        return gone


def _versions(events: pa.Table, pool: pa.Table, until: Numbers, schema: pa.Schema) -> pa.Table:
    """The versions that differ from those in the table, which end at the times `until`; `pool` has their fields.

    The last event of a key and a time counts. A version ends with the next event of its key.
    """
    code, at, place, gone = (events[name].to_numpy() for name in ("code", "at", "place", "gone"))
    follows = code[1:] == code[:-1]
    last = np.append(~(follows & (at[1:] == at[:-1])), True)
    valid = np.flatnonzero(last)
    ends = np.full(len(valid), OPEN)
    same = code[valid][1:] == code[valid][:-1]
    ends[:-1][same] = at[valid][1:][same]
    changes = ~gone[valid] & (place[valid] >= 0) & (ends != until[place[valid]])
    # A version in the table at whose very time its row went.
    winner = valid[np.searchsorted(valid, np.arange(len(at)))]
    goes = ~last & gone[winner] & (events["rank"].to_numpy() == KNOWN)
    chosen = np.concatenate([valid[changes], np.flatnonzero(goes)])
    ends = np.concatenate([ends[changes], np.full(int(goes.sum()), OPEN)])
    rows = pool.take(pa.array(place[chosen]))
    kind = schema.field(FROM).type
    for name, column in (
        (FROM, _times(at[chosen], kind)),
        (TO, _times(ends, kind)),
        (CURRENT, pa.array(ends == OPEN)),
        (RETRACTED, pa.array(goes[chosen])),
    ):
        rows = rows.append_column(name, column)
    return rows


def _joined(net: pa.Table, known: pa.Table, name: str, *, more: int = 0) -> pa.ChunkedArray:
    """A column of both, followed by `more` nulls."""
    kind = net.schema.field(name).type
    return pa.chunked_array([*net[name].chunks, *known[name].cast(kind).chunks, pa.nulls(more, kind)], kind)


def _codes(columns: Sequence[pa.ChunkedArray]) -> Numbers:
    """A number for each row, equal for rows with equal values in all columns; null equals null."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
        codes = np.unique(codes * (len(found.dictionary) + 1) + found.indices.to_numpy(), return_inverse=True)[1]
    return codes


def _among(key: str, values: pa.ChunkedArray) -> pc.Expression:
    """A condition that holds for all rows whose key is one of `values`, and for few others."""
    field, kind, found = pc.field(key), values.type, pc.unique(values).drop_null()
    if not len(found) or not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_temporal(kind)):
        return pc.scalar(True)  # noqa: FBT003  a literal
    if pa.types.is_string(kind):
        # Arrow cannot compare a text with the statistics of its file, which delta-rs gives as another type of text.
        field, found = field.cast(pa.large_string()), found.cast(pa.large_string())
    ends = pc.min_max(found)
    condition = field.isin(found) if len(found) <= FEW else (field >= ends["min"]) & (field <= ends["max"])
    return condition | field.is_null() if values.null_count else condition


def _numbers(times: pa.ChunkedArray) -> Numbers:
    """Times as microseconds; OPEN for null."""
    plain = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    return np.asarray(pc.fill_null(plain, OPEN).to_numpy())


def _times(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    return pa.array(numbers, mask=numbers == OPEN).cast(pa.timestamp("us", kind.tz)).cast(kind)


def _now(*known: Numbers) -> int:
    """Now, or the moment after the newest of the known times, if the clock was set back."""
    newest = max((int(times.max()) for times in known if len(times)), default=OPEN)
    return max(int(datetime.now(UTC).timestamp() * 1_000_000), newest + 1)

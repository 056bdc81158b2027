"""The sink of Redis: rows are staged as texts, and one script writes them with their mark in the ledger."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rs_assets.connectors.kept_rows import KeptRows
from rs_assets.connectors.progress_guard import ProgressGuard
from rs_assets.connectors.redis.address import RedisPlace
from rs_assets.connectors.redis.client import RedisClient, connected, refuse_cluster
from rs_assets.connectors.redis.nodes import RedisSink
from rs_assets.connectors.redis.sink.ledger import BATCH, RETURN, Ledger, Pending, State
from rs_assets.connectors.redis.sink.rows import GONE, KEY, as_values, chunks, fields_of
from rs_assets.connectors.sink import BatchMark, LastWriter, Staged
from rs_assets.errors import SinkError
from rs_assets.records.newest import winners

# Staged rows that are never committed go by themselves. A batch that has begun is kept.
STAGED: Final = timedelta(hours=1)
# A server that evicts any key would lose the ledger.
EVICTING: Final = "allkeys-"


@dataclass(frozen=True, slots=True)
class RedisWriter:
    """Exactly once: rows and marker of a step of a batch are written by one script, fenced by the token.

    A batch passes through the driver, so limit its rows. A batch of more rows than a chunk is written in several steps,
    between which readers see a part of it; what a crash leaves unfinished is finished before anything else is written.
    Written rows cannot be removed again: the pipeline can go back only to a batch after which nothing was written.
    """

    node: RedisSink
    place: RedisPlace
    progress: ProgressGuard = field(default_factory=ProgressGuard, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.node.name

    def location(self) -> str:
        """The server and the keys, without the login."""
        return self.node.place

    def check_start(self) -> None:
        """SinkError for a cluster, and for a server that would evict the ledger."""
        with self._connected() as client:
            refuse_cluster(client, SinkError, step=self.name)
            memory = client.info("memory")
            if memory.get("maxmemory") and str(memory.get("maxmemory_policy")).startswith(EVICTING):
                raise SinkError(
                    f"step {self.name!r}: the server evicts any key when its memory is full"
                    f" ({memory['maxmemory_policy']}), also the ledger and the staged rows",
                    remedy="set its maxmemory-policy to noeviction, or to volatile-ttl: it evicts only keys with a ttl",
                    step=self.name,
                    place=self.location(),
                )

    def committed(self, mark: BatchMark) -> bool:
        """Whether the batch is there; LeaseLostError if another driver has written since."""
        with self._ledger(mark) as ledger:
            return self._hold(mark, ledger.checked()) >= mark.batch_id

    def last_committed(self, mark: BatchMark) -> int | None:
        """The batch of the marker, -1 for none."""
        with self._ledger(mark) as ledger:
            return self._hold(mark, ledger.read())

    def last_writer(self, mark: BatchMark) -> LastWriter:
        """Token and claim in the ledger."""
        with self._ledger(mark) as ledger:
            return ledger.read().writer

    def raise_fence(self, mark: BatchMark) -> None:
        """Write the token, without a batch."""
        with self._ledger(mark) as ledger:
            ledger.note(lambda _: ())

    def check_begin(self, begun: BatchMark) -> str:
        """SinkError if entries of earlier generations would be added again; a warning if keys would be replaced."""
        with self._ledger(begun) as ledger:
            earlier = any(point.generation < begun.generation for point in ledger.read().points)
            if not earlier or not self._has_rows(ledger.client):
                return ""
        if self.node.mode == "upsert":
            return f"the keys {self.node.prefix}* keep rows of an earlier generation until new rows replace them"
        raise self._rows.refuse_begin()

    def check_rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> None:
        """SinkError if rows were written after `kept`: the rows of single batches cannot be distinguished."""
        with self._ledger(begun) as ledger:
            self._rows.check_return(ledger.checked().newest, kept, had)

    def rewind(self, kept: BatchMark, begun: BatchMark, had: int = -1) -> str:
        """Only records the later generation: nothing was written since."""
        pairs = (
            (f"{BATCH}{begun.generation}", begun.batch_id),
            (f"{RETURN}{begun.generation}", f"{kept.generation} {kept.batch_id}"),
        )

        def noted(state: State) -> tuple[tuple[str, object], ...]:
            self._rows.check_return(state.newest, kept, had)
            return pairs

        with self._ledger(begun) as ledger:
            ledger.note(noted)
        return "had nothing to undo"

    def stage(self, batch: DataFrame, mark: BatchMark) -> Staged:
        """Compute the rows and put them onto the server as texts, which expire; SinkError for a row without a key."""
        fields = fields_of(self.node, batch.columns)
        return self.staged(as_values(batch, self.node).toArrow(), fields, mark)

    def staged(self, rows: pa.Table, fields: tuple[str, ...], mark: BatchMark) -> Staged:
        """Stage rows of KEY, GONE and `fields` that are computed already."""
        if self.node.mode == "upsert":
            rows = winners(rows, keys=[KEY], order_by=(), deletes=GONE)
        self._check_keys(rows)
        with self._ledger(mark) as ledger:
            pending = self._pushed(ledger, rows, fields)
        return Staged(lambda: self._commit(pending, mark))

    def _pushed(self, ledger: Ledger, rows: pa.Table, fields: tuple[str, ...]) -> Pending:
        stage, count = f"rs:staged:{ledger.mark.fence}:{secrets.token_hex(8)}", 0
        for count, text in enumerate(chunks(rows, fields), 1):
            ledger.client.set(f"{stage}:{count - 1}", text, ex=STAGED)
        return Pending(
            generation=ledger.mark.generation,
            batch=ledger.mark.batch_id,
            stage=stage,
            chunks=count,
            rows=rows.num_rows,
            structure=self.node.structure,
            fields=fields,
            ttl=int(self.node.ttl / timedelta(milliseconds=1)) if self.node.ttl is not None else 0,
        )

    def _commit(self, pending: Pending, mark: BatchMark) -> int:
        with self._ledger(mark) as ledger:
            self._hold(mark, ledger.checked())
            rows = ledger.commit(pending)
            self._hold(mark, ledger.read())
        return rows

    def _check_keys(self, rows: pa.Table) -> None:
        if rows[KEY].null_count:
            raise SinkError(
                f"step {self.name!r}: the key of a row has a field that is null ({', '.join(self.node.keys)})",
                remedy=f"filter such rows before the sink: .filter('{self.node.keys[0]} IS NOT NULL')",
                step=self.name,
            )

    def _has_rows(self, client: RedisClient) -> bool:
        if not self.node.keys:
            return bool(client.exists(self.node.prefix))
        pattern = "".join(f"\\{c}" if c in "*?[]\\^" else c for c in self.node.prefix)
        return any(not key.startswith(b"rs:") for key in client.scan_iter(match=f"{pattern}*", count=1_000))

    @property
    def _rows(self) -> KeptRows:
        keys = f"{self.node.prefix}*" if self.node.keys else self.node.prefix
        return KeptRows(
            self.name,
            self.node.prefix,
            emptied=f"remove its keys (redis-cli --scan --pattern '{keys}' | xargs redis-cli unlink)",
            kind="prefix",
            facts={"place": self.location()},
        )

    @contextmanager
    def _connected(self) -> Iterator[RedisClient]:
        with connected(self.place.address(), SinkError, step=self.name) as client:
            yield client

    @contextmanager
    def _ledger(self, mark: BatchMark) -> Iterator[Ledger]:
        with self._connected() as client:
            yield Ledger(client, mark, self.name, self.location())

    def _hold(self, mark: BatchMark, state: State) -> int:
        return self.progress.advance(mark, state.last(mark), step=self.name, place=self.location())

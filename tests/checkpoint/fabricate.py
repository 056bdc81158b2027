"""A job's folder as Spark 4.2 leaves it, made without Spark: queries that plan, commit, keep state and clean up."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import uuid
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rs_assets.checkpoint import manifest as manifests
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.recovery.savepoints import Savepoint, SavepointStore, Subject, take

PER_SUM = 512
SUBJECT = Subject(namespace="shop", job="clicks", fingerprint="f1", note="before the change", run_id="r1")
START = datetime(2026, 11, 21, 0, 45, 12, 123456, tzinfo=UTC)
CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.shuffle.partitions": "2",
}


def write(path: Path, data: str | bytes) -> Path:
    """A file and Hadoop's checksum beside it, as `.NAME.crc`."""
    raw = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    sums = (zlib.crc32(raw[start : start + PER_SUM]) for start in range(0, len(raw), PER_SUM))
    crc = b"crc\0" + struct.pack(">I", PER_SUM) + b"".join(struct.pack(">I", each) for each in sums)
    path.with_name(f".{path.name}.crc").write_bytes(crc)
    return path


def remove(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def noise(seed: str, size: int) -> bytes:
    """Bytes that are always the same for a seed, and do not repeat."""
    blocks = (hashlib.sha256(f"{seed}/{n}".encode()).digest() for n in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@dataclass
class FakeQuery:
    """One query, with what it would write batch by batch."""

    folder: Path
    partitions: int = 2
    stores: tuple[str, ...] = ("",)
    change_bytes: int = 200
    control: bool = True
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    life: str = ""

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def begin(self) -> FakeQuery:
        write(self.checkpoint / "metadata", json.dumps({"id": self.query_id}, separators=(",", ":")))
        (self.checkpoint / "sources" / "rs_control").mkdir(parents=True)
        (self.folder / "control").mkdir()
        if self.partitions:
            stores = [{"storeName": s or "default", "numPartitions": self.partitions} for s in self.stores]
            described = {"operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"}, "stateStoreInfo": stores}
            write(self.checkpoint / "state/0/_metadata/metadata", "v1\n" + json.dumps(described))
            write(self.checkpoint / "state/0/0/_metadata/schema", noise("schema", 90))
        return self

    def plan(self, batch: int) -> None:
        """What stands on disk while a batch runs: its input, its offsets."""
        entry = {"path": f"file:///in/f{batch}.jsonl", "timestamp": 1795224219715 + batch, "batchId": batch}
        write(self.checkpoint / f"sources/file/{batch}", "v1\n" + json.dumps(entry, separators=(",", ":")))
        conf = {**CONF, **({"spark.sql.shuffle.partitions": str(self.partitions)} if self.partitions else {})}
        head = {"batchWatermarkMs": batch * 1000, "batchTimestampMs": 1795224241370 + batch, "conf": conf}
        lines = ["v2", json.dumps(head, separators=(",", ":")), f'file:{{"logOffset":{batch}}}']
        write(self.checkpoint / f"offsets/{batch}", "\n".join(lines))

    def places(self) -> list[Path]:
        state = self.checkpoint / "state/0"
        return [state / str(p) / store for p in range(self.partitions) for store in self.stores]

    def change(self, version: int) -> None:
        for place in self.places():
            seed = f"{self.life}{place.relative_to(self.folder)}/{version}"
            write(place / f"{version}.changelog", noise(seed, self.change_bytes))

    def snapshot(self, version: int, table_bytes: int = 3000) -> None:
        """What the maintenance of a state store uploads; tables before the archive that names them."""
        for place in self.places():
            table = f"000{version:03d}-{uuid.uuid5(uuid.NAMESPACE_URL, f'{self.life}{place}{version}')}.sst"
            write(place / "SSTs" / table, noise(table, table_bytes))
            listing = json.dumps({"sstFiles": [{"dfsSstFileName": table, "sizeBytes": table_bytes}], "numKeys": 1})
            write(
                place / f"{version}.zip", zipped({"CURRENT": b"MANIFEST-16\n", "metadata": b"v1\n" + listing.encode()})
            )

    def rescale(self, batch: int, partitions: int) -> None:
        """The batch by which Spark rewrites the state in another number of partitions: it is snapshots alone."""
        self.partitions = partitions
        self.plan(batch)
        self.snapshot(batch + 1)
        self.commit(batch)

    def commit(self, batch: int) -> None:
        write(self.checkpoint / f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{batch * 1000}}}')

    def batch(self, batch: int) -> None:
        """A whole batch in the order in which Spark writes it."""
        self.plan(batch)
        if self.partitions:
            self.change(batch + 1)
        self.commit(batch)

    def clean(self, batch: int) -> None:
        """Remove the plans, the commits and the state before `batch`, as Spark does after a while."""
        for log in ("commits", "offsets"):
            for file in (self.checkpoint / log).glob("[0-9]*"):
                if int(file.name) < batch:
                    remove(file)
        for file in (self.checkpoint / "state").rglob("[0-9]*.changelog"):
            if int(file.name.partition(".")[0]) <= batch:
                remove(file)

    def compact(self, batch: int) -> None:
        """The log of the file source in one file up to `batch`; those that it replaces go."""
        files = [self.checkpoint / f"sources/file/{n}" for n in range(batch + 1)]
        lines = [file.read_text().splitlines()[1] for file in files]
        write(self.checkpoint / f"sources/file/{batch}.compact", "\n".join(["v1", *lines]))
        for file in files:
            remove(file)

    def control_row(self, entry: int, name: str = "control-1.json") -> Path:
        """A control row beside the checkpoint, and the log entry by which Spark remembers it."""
        row = self.folder / "control" / name
        row.write_text('{"_rs_event_time":"2026-01-05T10:00:00+00:00"}\n')
        logged = {"path": row.as_uri(), "timestamp": 1795224219715, "batchId": entry}
        write(self.checkpoint / f"sources/rs_control/{entry}", "v1\n" + json.dumps(logged, separators=(",", ":")))
        return row


@dataclass
class FakeJob:
    """A job's folder with the manifest that belongs to it."""

    folder: Path
    manifest: Manifest
    queries: dict[str, FakeQuery]

    def batches(self, *batches: int) -> None:
        for batch in batches:
            for query in self.queries.values():
                query.batch(batch)

    def files(self) -> dict[str, bytes]:
        """Everything on disk but what was moved aside, by path."""
        found = (p for p in sorted(self.folder.rglob("*")) if p.is_file())
        named = {p.relative_to(self.folder).as_posix(): p.read_bytes() for p in found}
        return {name: data for name, data in named.items() if not name.startswith(".trash")}

    def reset(self, query: str) -> FakeQuery:
        """One query begins afresh, in a generation of its own."""
        generation = self.manifest.last_generation + 1
        old = self.queries[query]
        fresh = replace(old, folder=self.folder / f"g{generation:04d}" / query, query_id=str(uuid.uuid4())).begin()
        facts = replace(self.manifest.queries[query], generation=generation, query_id=fresh.query_id)
        self.manifest = self.manifest.with_query(query, facts)
        self.queries[query] = fresh
        manifests.save(self.folder, self.manifest)
        return fresh


def fake_job(folder: Path, *, batches: int = 4, generation: int = 1) -> FakeJob:
    """A job of two queries, `window` with state and `rows` without, and `batches` committed batches of each."""
    place = folder / f"g{generation:04d}"
    queries = {"window": FakeQuery(place / "window").begin(), "rows": FakeQuery(place / "rows", partitions=0).begin()}
    facts = {
        name: QueryFacts(
            generation=generation,
            stateful="window" if query.partitions else None,
            query_id=query.query_id,
            sinks={f"{name}_table": batches - 1},
            catalogued=batches - 1,
        )
        for name, query in queries.items()
    }
    manifest = replace(Manifest.new(), generation=generation, partitions=2, queries=facts)
    manifests.save(folder, manifest)
    job = FakeJob(folder, manifest, queries)
    job.batches(*range(batches))
    return job


def save(job: FakeJob, store: SavepointStore, **options: Any) -> Savepoint:
    """A savepoint of the job."""
    options.setdefault("subject", SUBJECT)
    return take(job.folder, job.manifest, store=store, **options)


def damage(store: SavepointStore, path: str, how: str) -> None:
    """Do something to a file of the store."""
    data = store.fs.cat_file(path)
    if how == "gone":
        store.fs.rm_file(path)
    else:
        at = len(data) // 2
        changed = {"short": data[:-1], "empty": b"", "long": data + b"x"}
        store.fs.pipe_file(path, changed.get(how, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]))


def manifest_path(store: SavepointStore, savepoint: Savepoint) -> str:
    """Where the manifest of a savepoint is."""
    return f"{store.path}/savepoints/{savepoint.namespace}/{savepoint.job}/{savepoint.id}.json"

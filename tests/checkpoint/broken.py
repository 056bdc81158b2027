"""Checkpoint folders as Spark 4.2 writes them, made by hand, and what can be done to them."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pytest

from rs_assets.recovery.preflight import Expected, Finding, verify_query
from rs_assets.recovery.repair import REPAIRS

QUERY_ID = "8d26d6a3-e7e2-4229-b3c2-b4c5f4f47a97"
LZ4_END = b"LZ4Block\x15" + bytes(12)
CHANGES = b"LZ4Block\x15\x04\0\0\0\x04\0\0\0\0\xdb\x80M\x08\xff\xff\xff\xff" + LZ4_END
PER_SUM = 512


def crc_of(data: bytes) -> bytes:
    """What Hadoop writes into `.NAME.crc`."""
    sums = (zlib.crc32(data[start : start + PER_SUM]) for start in range(0, len(data), PER_SUM))
    return b"crc\0" + struct.pack(">I", PER_SUM) + b"".join(struct.pack(">I", each) for each in sums)


def flip(path: Path, at: int = -2) -> None:
    """Turn over one bit of a file, so that text stays text."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def offsets_text(batch: int, sources: dict[str, str], version: str = "v2") -> str:
    metadata = {
        "batchWatermarkMs": batch * 1000,
        "batchTimestampMs": 1795216840432 + batch,
        "conf": {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.stateStore.compression.codec": "lz4"},
        "sourceMetadataInfo": {},
    }
    lines = [version, json.dumps(metadata, separators=(",", ":")), *(f"{name}:{end}" for name, end in sources.items())]
    return "\n".join(lines)


def source_log_text(*entries: int) -> str:
    lines = (f'{{"path":"file:///in/{n}.jsonl","timestamp":1795216824796,"batchId":{n}}}' for n in entries)
    return "\n".join(["v1", *lines])


@dataclass
class Made:
    """A checkpoint that was made, and what a sound pipeline would expect of it."""

    folder: Path
    sums: bool = True
    stores: tuple[str, ...] = ("default",)
    expected: Expected = field(init=False)

    def write(self, name: str, data: str | bytes) -> Path:
        content = data.encode() if isinstance(data, str) else data
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if self.sums:
            self.crc(path).write_bytes(crc_of(content))
        return path

    def crc(self, path: Path) -> Path:
        return path.with_name(f".{path.name}.crc")

    def remove(self, name: str) -> None:
        path = self.folder / name
        path.unlink()
        self.crc(path).unlink(missing_ok=True)

    def expect(self, **changes: object) -> Expected:
        self.expected = replace(self.expected, **changes)  # type: ignore[arg-type]
        return self.expected

    def plan(self, batch: int, **sources: str) -> Path:
        names = sources or {"file": json.dumps({"logOffset": batch}), "feed": json.dumps({"at": batch})}
        return self.write(f"offsets/{batch}", offsets_text(batch, names))

    def commit(self, batch: int) -> Path:
        return self.write(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{batch * 1000}}}')

    def log(self, entry: int, source: str = "file") -> Path:
        return self.write(f"sources/{source}/{entry}", source_log_text(entry))

    def place(self, partition: int, store: str = "default", operator: int = 0) -> str:
        return f"state/{operator}/{partition}" + ("" if store == "default" else f"/{store}")

    def describe(self, partitions: int = 2, operator: int = 0) -> Path:
        stores = [{"storeName": name, "numColsPrefixKey": 0, "numPartitions": partitions} for name in self.stores]
        content = {"operatorInfo": {"operatorId": operator, "operatorName": "stateStoreSave"}, "stateStoreInfo": stores}
        return self.write(f"state/{operator}/_metadata/metadata", "v1\n" + json.dumps(content))

    def change(self, version: int, partitions: int = 2) -> None:
        for partition in range(partitions):
            for store in self.stores:
                self.write(f"{self.place(partition, store)}/{version}.changelog", CHANGES)

    def snapshot(self, version: int, partitions: int = 2) -> None:
        for partition in range(partitions):
            for store in self.stores:
                place, table = self.place(partition, store), f"00000{version}-0a1b.sst"
                self.write(f"{place}/SSTs/{table}", b"t" * 1200)
                self.write(f"{place}/{version}.zip", zipped(table, 1200))


def zipped(table: str, size: int) -> bytes:
    listing = {"sstFiles": [{"localFileName": "000008.sst", "dfsSstFileName": table, "sizeBytes": size}], "numKeys": 1}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("CURRENT", "MANIFEST-000016\n")
        archive.writestr("metadata", "v1\n" + json.dumps(listing))
    return buffer.getvalue()


def made(
    folder: Path, *, batches: int = 4, first: int = 0, pending: bool = False, state: bool = True, sums: bool = True
) -> Made:
    """Batches `first` up to `batches`, all committed; `pending` plans one more. State has two partitions."""
    checkpoint = Made(folder, sums=sums)
    checkpoint.write("metadata", f'{{"id":"{QUERY_ID}"}}')
    for batch in range(first, batches + pending):
        checkpoint.log(batch)
        checkpoint.plan(batch)
    for batch in range(first, batches):
        checkpoint.commit(batch)
    if first:
        checkpoint.remove(f"sources/file/{first}")
        checkpoint.write(f"sources/file/{first}.compact", source_log_text(*range(first + 1)))
    if state:
        checkpoint.describe()
        for version in range(first + 1, batches + 1):
            checkpoint.change(version)
        if first:
            checkpoint.snapshot(first + 1)
    checkpoint.expected = Expected(
        query="window",
        sources=("file", "feed"),
        controls=("rs_control",),
        stateful=state,
        partitions=2 if state else 0,
        query_id=QUERY_ID,
        sinks={"table": batches - 1},
        sinks_seen={"table": batches - 1},
        generation=1,
    )
    return checkpoint


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def free_bytes(monkeypatch: pytest.MonkeyPatch, free: int = 100 << 30) -> None:
    """Let the disk have so much room, whatever the machine has."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(200 << 30, 0, free))


def look(checkpoint: Made) -> tuple[Finding, ...]:
    return verify_query(checkpoint.folder, checkpoint.expected)


def errors(checkpoint: Made) -> list[Finding]:
    return [finding for finding in look(checkpoint) if finding.severity == "error"]


def only(checkpoint: Made) -> Finding:
    """The one finding that is there; all of them say what to do."""
    findings = look(checkpoint)
    assert len(findings) == 1, findings
    assert findings[0].meaning
    assert findings[0].remedy
    return findings[0]


def mend(checkpoint: Made) -> str:
    """Apply the repair that the finding offers; afterwards nothing is left to find."""
    name = only(checkpoint).repair
    assert name is not None
    told = REPAIRS[name](checkpoint.folder, checkpoint.expected)
    assert look(checkpoint) == ()
    return told

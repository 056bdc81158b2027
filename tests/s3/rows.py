"""What a table in S3 holds, read by delta-rs alone."""

from __future__ import annotations

from deltalake import DeltaTable

from rs_assets.common.storage import storage_options


def table(address: str) -> DeltaTable:
    return DeltaTable(address, storage_options=storage_options(address))


def numbers_in(address: str, column: str = "n") -> list:
    return sorted(table(address).to_pyarrow_table()[column].to_pylist())


def versions(address: str) -> int:
    return table(address).version() + 1

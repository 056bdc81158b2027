"""The pipeline that is damaged, paused and killed: sums over windows of ten seconds, of a file that grows."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from rs_assets import Pipeline, StreamBuilder, Time, TumblingWindow
from rs_assets.common.home import Home


def pipeline(log: Path) -> Pipeline:
    stream = StreamBuilder.data_stream("shop", "damaged").from_file(
        log, schema="page string, n bigint, ts timestamp", tail=True
    )
    window = stream.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("page").sum("n", "total")
    return window.to_data_stream().to_delta("damaged").build()


def grow(log: Path, first: int, last: int) -> None:
    with log.open("a") as file:
        file.writelines(
            f'{{"page":"p{n % 3}","n":{n},"ts":"2024-01-01T00:{n // 60:02d}:{n % 60:02d}Z"}}\n'
            for n in range(first, last)
        )


def result(home: Home) -> list[tuple[object, ...]]:
    rows = DeltaTable(home.table("shop", "damaged")).to_pyarrow_table().to_pylist()
    return sorted((row["page"], row["start_time"], row["total"]) for row in rows)

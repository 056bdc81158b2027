"""Two pipelines whose homes are kept as they were made by earlier versions: later versions must go on with them.

`python -m tests.compatibility.before ARCHIVE` makes one with the version that is checked out.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path

from rs_assets import RunOptions, StreamBuilder, Time, TumblingWindow

# Checkpoints name their files by absolute paths.
PLACE = Path("/tmp/rs-assets-kept")
CLICKS = "page string, ms bigint, ts timestamp"
ORDERS = "id bigint, state string, amount double"


def click(number):
    """A click every second; every 50th cannot be parsed."""
    if number % 50 == 49:
        return "no json\n"
    at = f"2024-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return json.dumps({"page": f"/{number % 3}", "ms": number, "ts": at}) + "\n"


def order(number):
    """An order; its id comes again with another state."""
    return json.dumps({"id": number % 7, "state": f"s{number}", "amount": number / 4}) + "\n"


def long_enough(row):
    """A filter in Python."""
    return row["ms"] >= 0


def clicks(folder):
    """Clicks of whole files, counted by page in windows, and kept one by one."""
    stream = StreamBuilder.data_stream("kept", "clicks").from_file(
        folder / "clicks", schema=CLICKS, bad_records="dead_letter"
    )
    stream = stream.filter(long_enough, name="long_enough").with_fields(s="ms / 1000", name="in_seconds")
    stream.to_delta("every_click", name="every_click")
    windows = stream.window(TumblingWindow.of(Time.seconds(20), "ts"), name="by_page").group_by("page")
    windows = windows.count("rows").sum("ms", "total").water_mark(Time.seconds(5)).to_data_stream()
    return windows.to_delta("by_page", name="by_page_table").build()


def orders(folder):
    """Orders of whole files: the newest state of each, and a copy of all in files."""
    stream = StreamBuilder.data_stream("kept", "orders").from_file(folder / "orders", schema=ORDERS)
    return stream.to_delta("newest", mode="upsert", keys=["id"], name="newest").to_file(folder / "copies").build()


def grow(folder, step):
    """Add the input of a run."""
    for name, made, count in (("clicks", click, 100), ("orders", order, 10)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"{step}.jsonl").write_text("".join(map(made, range(step * count, (step + 1) * count))))


def main(archive):
    """Run both pipelines three times, and pack what they have left."""
    from rs_assets import SavepointPolicy
    from rs_assets.common.home import Home
    from rs_assets.spark.driver import SparkDriver
    from rs_assets.spark.settings import SparkSettings

    driver = SparkDriver.shared(SparkSettings(master="local[2]", partitions=2))
    folder = PLACE
    folder.mkdir()
    options = {"home": Home(folder / "rs"), "driver": driver, "savepoints": SavepointPolicy(at_end=True, keep=2)}
    for step in range(3):
        grow(folder, step)
        for pipeline in (clicks(folder), orders(folder)):
            print(pipeline.run(RunOptions(**options)))
    driver.stop()
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(folder, arcname=".")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

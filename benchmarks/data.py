"""Input for the benchmarks: JSON lines of page views, the same on every machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

SCHEMA = "user string, page string, ts timestamp, ms long"
START = datetime(2024, 1, 1, tzinfo=UTC)
# One row in a hundred has this page.
RARE_PAGE, RARE_EVERY = "/checkout", 100
# With windows of 10 s: 200 windows of 1,000 users, so 200,000 groups of about ten rows at 2 M rows.
WINDOW_S, WINDOWS, USERS = 10, 200, 1000
# Rows come this much out of order at most, in seconds; the windows wait for 5 s.
DISORDER_S = 2
FILES = 8
SEED = 20240101


def generate(folder: Path, *, rows: int, files: int = FILES, users: int = USERS, windows: int = WINDOWS) -> Path:
    """Write `rows` lines, about 75 bytes each, into `files` files, in order of time but for DISORDER_S.

    They are of `users` users in `windows` windows.
    """
    folder.mkdir(parents=True)
    lines = _lines(rows, users, windows)
    share, rest = divmod(rows, files)
    for number in range(files):
        count = share + (number < rest)
        with (folder / f"views-{number}.json").open("w", encoding="ascii") as file:
            file.writelines(line for line in islice(lines, count))
    return folder


def _lines(rows: int, users: int, windows: int) -> Iterator[str]:
    pick = random.Random(SEED)
    seconds = WINDOW_S * windows
    stamps = [(START + timedelta(seconds=s)).strftime("%Y-%m-%dT%H:%M:%S") for s in range(-DISORDER_S, seconds)]
    for row in range(rows):
        at = row * seconds / rows - pick.random() * DISORDER_S + DISORDER_S
        page = RARE_PAGE if row % RARE_EVERY == 0 else f"/page/{pick.randrange(50)}"
        yield (
            f'{{"user":"u{pick.randrange(users):04d}","page":"{page}",'
            f'"ts":"{stamps[int(at)]}.{int(at * 1000) % 1000:03d}Z","ms":{pick.randrange(1000)}}}\n'
        )

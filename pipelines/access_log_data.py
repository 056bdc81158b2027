"""Writes a sample access log: the same lines on every machine, some of them malformed.

python -m pipelines.access_log_data [PATH] [LINES]
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

LINES = 100_000
SEED = 20_150_517
START = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
# A day of traffic in which neighbouring lines are out of order by at most half a minute.
STEP = timedelta(milliseconds=700)
DISORDER_S = 30
# One in so many lines is malformed.
MALFORMED_EVERY = 400
CLIENTS = 4_000
SECTIONS = ("", "blog", "docs", "shop", "images", "feed", "search")
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/147.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_2) AppleWebKit/605.1.15 Safari/605.1.15",
    "curl/8.12.1",
    "feedreader/3.1 (+http://reader.example/bot)",
)
STATUSES = (200,) * 88 + (304,) * 5 + (301,) * 2 + (404,) * 4 + (500,)


def lines(count: int = LINES, *, seed: int = SEED) -> Iterator[bytes]:
    """`count` lines in combined log format, without their newlines."""
    chance = random.Random(seed)  # noqa: S311  the same lines every time, that is the point
    pages = [f"/{chance.choice(SECTIONS)}/{chance.choice('abcdefgh')}{n}".replace("//", "/") for n in range(120)]
    for number in range(count):
        line = _line(chance, number, pages)
        yield _spoilt(chance, line) if number % MALFORMED_EVERY == MALFORMED_EVERY // 2 else line


def write(path: Path, count: int = LINES, *, seed: int = SEED) -> Path:
    """Write the log to `path` by a rename, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.tmp")
    with hidden.open("wb") as file:
        file.writelines(line + b"\n" for line in lines(count, seed=seed))
    return hidden.replace(path)


def _line(chance: random.Random, number: int, pages: list[str]) -> bytes:
    # A few clients and pages have most of the traffic, as everywhere.
    client = int(CLIENTS * chance.random() ** 3)
    page = pages[int(len(pages) * chance.random() ** 2)]
    at = START + STEP * number - timedelta(seconds=chance.randrange(DISORDER_S))
    status = chance.choice(STATUSES)
    size = "-" if status == 304 else str(chance.randrange(200, 60_000))
    return (
        f"10.{client // 256 % 256}.{client % 256}.{client % 7} - - [{at:%d/%b/%Y:%H:%M:%S +0000}] "
        f'"GET {page} HTTP/1.1" {status} {size} "-" "{chance.choice(AGENTS)}"'
    ).encode()


def _spoilt(chance: random.Random, line: bytes) -> bytes:
    """A malformed line, as in real logs."""
    return chance.choice(
        (
            line[: len(line) // 2],
            b"\xff\xfe" + line,
            line.replace(b"/2026:", b"/20x6:"),
            b"-- log rotated --",
            line.replace(b'"GET ', b'"\\x16\\x03\\x01'),
        )
    )


def main() -> None:
    """Write the log unless it exists."""
    from pipelines.access_log import default_log

    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default_log()
    if not path.exists():
        write(path, int(sys.argv[2]) if len(sys.argv) > 2 else LINES)


if __name__ == "__main__":
    main()

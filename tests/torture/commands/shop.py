"""The folder of a campaign: files that come in, and what the tables hold."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from tests.torture.commands.plain import WINDOW, File, Record, Tables

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
PAGES = 4
NO_BATCH = -1


class Batch(NamedTuple):
    """A batch of a query: its generation's folder and its number."""

    generation: str
    number: int


def partition(hour: int) -> str:
    """The name of a partition by the minute of its start."""
    return f"{BEGIN + timedelta(minutes=hour):%Y-%m-%d-%H:00}"


def hour_of(name: str) -> int:
    """The minute at which a partition starts."""
    return _minute(datetime.strptime(name, "%Y-%m-%d-%H:%M").replace(tzinfo=UTC))


def page(chance: random.Random) -> str:
    """A page that records have."""
    return f"p{chance.randrange(PAGES)}"


def drawn(chance: random.Random, files: list[File], watermark: int) -> File:
    """The next file: records in about the order of their times, some of them late, and a line that is none."""
    number = sum(len(each.records) for each in files)
    minute = max((record.minute for each in files for record in each.records), default=0)
    records = []
    for _ in range(chance.randint(25, 70)):
        late = watermark > 2 * WINDOW and chance.random() < 0.06
        at = chance.randrange(watermark // WINDOW * WINDOW) if late else max(0, minute - chance.randint(0, 3))
        records.append(Record(number + len(records), page(chance), at))
        minute += not late
    return File(tuple(records), f"{{no record {len(files)} {page(chance)}")


def put(root: Path, number: int, file: File, chance: random.Random) -> None:
    """Write a file and move it to where it is read."""
    lines = [
        json.dumps({"page": r.page, "n": r.number, "ts": f"{time_of(r.minute):%Y-%m-%dT%H:%M:%SZ}"})
        for r in file.records
    ]
    lines.insert(chance.randrange(len(lines)), file.bad)
    (root / "in").mkdir(parents=True, exist_ok=True)
    hidden = root / "hidden"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(root / "in" / f"{number:04d}.jsonl")


def held(home: Path) -> Tables:
    """What the tables hold, and the dead letters that count, in order."""
    place = home / "tables/shop"
    letters = [
        row for row in _rows(home / "catalog/dead_letters") if row["undone_by"] is None and row["redriven_by"] is None
    ]
    return {
        **{
            name: sorted((r["n"], r["page"], _minute(r["ts"])) for r in _rows(place / name))
            for name in ("copy", "latest")
        },
        "totals": sorted((r["page"], _minute(r["start_time"]), r["rows"], r["total"]) for r in _rows(place / "totals")),
        "letters": sorted((letter(row),) for row in letters),
    }


def last_batches(home: Path, queries: Iterable[str]) -> dict[str, Batch]:
    """The last batch that each query has committed, in its newest generation; of one without batches NO_BATCH."""
    found = {}
    for query in queries:
        log = _commits(home, query)
        number = max((int(each.name) for each in log.iterdir() if each.name.isdigit()), default=NO_BATCH)
        found[query] = Batch(log.relative_to(home).parts[3], number)
    return found


def _commits(home: Path, query: str) -> Path:
    """Spark's log of the batches that a query has committed, in its newest generation."""
    return max(home.glob(f"checkpoints/shop/pages/g0*/{query}/checkpoint/commits"))


def cuts(home: Path) -> dict[int, int]:
    """The first file of the batch of windows that had a file, as planned: some come together after a kill."""
    found: dict[int, int] = {}
    first = None
    for batch, last in _ends(_commits(home, "window").parent / "offsets"):
        if first is None and batch == 0:
            first = 0
        if first is not None:
            found.update(dict.fromkeys(range(first, last + 1), first))
        first = last + 1
    return found


def _ends(log: Path) -> Iterator[tuple[int, int]]:
    """Each planned batch that names a file, with the last file it reads."""
    for batch in sorted(int(each.name) for each in log.iterdir() if each.name.isdigit()):
        offset = re.search(r'^raw:\{"logOffset":(\d+)\}', (log / str(batch)).read_text(), re.MULTILINE)
        if offset:
            yield batch, int(offset[1])


def _rows(table: Path) -> list[dict]:
    return DeltaTable(str(table)).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(str(table)) else []


def letter(row: dict) -> str:
    """A dead letter as the model has it."""
    record = row["record"]
    return record if record.startswith("{no") else f"{row['step']} {json.loads(record)['n']}"


def time_of(minute: int) -> datetime:
    """The time of a minute."""
    return BEGIN + timedelta(minutes=minute)


def _minute(at: datetime) -> int:
    return int((at.replace(tzinfo=at.tzinfo or UTC) - BEGIN).total_seconds()) // 60

"""Writes command lines, a thousand rules and a feed of networks for `pipelines.security`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from pipelines.security import default_folder

PROGRAMS = ("curl", "wget", "python3", "bash", "ls", "cat", "grep", "ssh", "tar", "nc")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
# Rules of general use: the condition, how grave it is, and when enough matches came together.
GENERAL: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "script from tmp": (
            r"(cmd,regex,'/tmp/\w+\.sh$')&(user,=,root)", "high", "count >= 5 within 5 minutes by host"
        ),
        "known threat": ("(threat,in,'botnet,scanner')", "high", "count(distinct ip) > 3 within 10 minutes by host"),
        "download": (r"(cmd,regex,'^(curl|wget)\b')&(ms,>,2000)", "low", "sum(ms) > 40000 within 1 minute by user"),
    }
)  # fmt: skip


def words(drawn: Random) -> list[str]:
    """The words of commands and rules."""
    return ["".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2_000)]


def commands(count: int, drawn: Random) -> Iterable[Mapping[str, Any]]:
    """Command lines of some hosts, one a second."""
    known = words(Random(1))  # noqa: S311  sample data
    for number in range(count):
        some = " ".join(drawn.choices(known, k=4))
        yield {
            "ts": (FIRST + timedelta(seconds=number)).isoformat(),
            "host": f"host{drawn.randrange(20)}",
            "user": drawn.choice(["root", "ann", "bob"]),
            "cmd": f"{drawn.choice(PROGRAMS)} {some} /tmp/{drawn.choice(known)}.sh",
            "ip": f"10.0.{drawn.randrange(4)}.{drawn.randrange(256)}",
            "ms": drawn.randrange(10_000),
        }


def rules(count: int, drawn: Random) -> Iterable[Mapping[str, Any]]:
    """Rules of patterns, users, addresses and limits; the first ones are of general use."""
    for name, (condition, severity, having) in GENERAL.items():
        yield {"rule": name, "condition": condition, "severity": severity, "having": having}
    known = words(Random(1))  # noqa: S311  sample data
    for number in range(len(GENERAL), count):
        word = drawn.choice(known)
        tests = [rf"(cmd,regex,'{word}.*{drawn.choice(known)}')", rf"(cmd,regex,'/tmp/{word}\.sh$')",
                 f"(cmd,contains,' {word} ')&(user,!=,root)", f"(ip,=,10.0.3.{number % 256})"]  # fmt: skip
        limit = f"&(ms,>,{drawn.randrange(1_000, 10_000)})"
        often = drawn.choice([None, "count >= 2 within 30 minutes by host", "count(distinct host) > 1 within 1 hour"])
        yield {
            "rule": f"rule {number:04}",
            "condition": drawn.choice(tests) + limit,
            "severity": "low",
            "having": often,
        }


def write(folder: Path, *, rows: int = 20_000, count: int = 1_000, seed: int = 7) -> Path:
    """Write all three files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = Random(seed)  # noqa: S311  sample data
    feed = [
        {"network": f"10.0.{n % 4}.{n}/29", "threat": drawn.choice(["botnet", "scanner"])} for n in range(0, 256, 24)
    ]
    feed.append({"network": "10.0.3.0/24", "threat": "guest"})
    files = {"rules": rules(count, drawn), "feed": feed, "commands": commands(rows, drawn)}
    for name, each in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    print(write(given.folder, rows=given.rows))  # noqa: T201  a program

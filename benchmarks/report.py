"""The figures as a table on the terminal and as sections of BENCHMARKS.md."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import psutil
from rich.markup import escape
from rich.table import Table

from benchmarks.measure import Figure
from benchmarks.nexmark import FILES, FILES_PER_BATCH, SHARE
from rs_assets.spark.java import java_home

PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow")
VERDICT = {True: "met", False: "missed", None: ""}
HEADING = "\n## "
HEAD = f"""# Benchmarks

`make bench` measures all of it, which takes some hours, and writes a section for each benchmark;
`make bench ARGS="joins --output BENCHMARKS.md"` writes the section of one anew. Sections whose heading
names no benchmark are written by hand.

- Input: generated JSON rows in 8 files, about 75 bytes a row; Nexmark: a {SHARE}th as many events, {FILES} files of
  each kind, in {FILES // FILES_PER_BATCH} batches. `--rows` says how many, 2,000,000 without it.
- Ratios: both ways in one process and one session, in turns; the median of the pairs of runs behind a warm-up.
  Processor time is the ratio of the processor seconds of all processes, which other work disturbs less.
  Older sections leave out processes that ended in a run, such as those that land changes of a database.
- Ours writes Delta with exactly-once markers; state is RocksDB with changelog in both.
- Kafka: one broker on this machine, as many JSON records of 120 bytes in 4 partitions. Kafka Streams has two
  threads, commits every second and writes windows to a topic, not to Delta; its Java start is not counted.
- Flink: as many events as Nexmark; what both do, and what differs, is told in docs/nexmark.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of one benchmark, by its name on the command line, and how they were measured."""

    name: str
    figures: tuple[Figure, ...]
    told: str


def conditions(*, rows: int, pairs: int, load_before: str) -> str:
    """What a reader must know of a measurement, in lines."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {rows:,} rows, pairs of runs: at most {pairs}, load before (1 / 5 / 15 minutes)"
        f" {load_before}.\n{machine()}."
    )


@cache
def machine() -> str:
    """Cores, memory and versions, in a line."""
    told = subprocess.run([java_home() / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
    java = told.stderr.split('"')[1] if '"' in told.stderr else "?"
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    memory = f"{psutil.virtual_memory().total / 2**30:.0f} GiB"
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {memory}, {system}, Java {java}, Python {platform.python_version()}, {packages}"


def load() -> str:
    """How busy the machine is besides."""
    return " / ".join(f"{value:.1f}" for value in os.getloadavg())


def as_table(figures: Sequence[Figure]) -> Table:
    """For a terminal."""
    table = Table("benchmark", "what", "figure", "target", "", "median times", title="Benchmarks")
    colours = {True: "green", False: "red", None: ""}
    for figure in figures:
        verdict = VERDICT[figure.met]
        table.add_row(
            figure.benchmark, figure.what, _shown(figure), _target(figure),
            f"[{colours[figure.met]}]{verdict}[/]" if verdict else "", escape(figure.note),
        )  # fmt: skip
    return table


def write(path: Path, measured: Iterable[Measured], *, order: Sequence[str]) -> None:
    """Write the sections of what was measured into `path`, in the place of those of the same names there.

    They stand in the `order` of the names of benchmarks, before those that are written by hand.
    """
    before = path.read_text(encoding="utf-8").rstrip() if path.exists() else ""
    sections = {text.split("\n", 1)[0]: text for text in before.split(HEADING)[1:]}
    sections |= {each.name: _section(each) for each in measured}
    names = sorted(sections, key=lambda name: order.index(name) if name in order else len(order))
    texts = (f"{text.rstrip()}\n" for text in (HEAD, *(sections[name] for name in names)))
    path.write_text(HEADING.join(texts), encoding="utf-8")


def _section(measured: Measured) -> str:
    rows = [figure for figure in measured.figures if not figure.cells]
    lines = [measured.name, "", measured.told, ""]
    if rows:
        lines += ["| benchmark | what | figure | target | | details |", "|---|---|---:|---:|---|---|"]
        lines += (
            f"| {f.benchmark} | {f.what} | {_shown(f)} | {_target(f)} | {VERDICT[f.met]} | {f.note} |" for f in rows
        )
    return "\n".join([*lines, *own_tables(measured.figures), *plots(measured.figures)])


def own_tables(figures: Sequence[Figure]) -> list[str]:
    """The lines of a table for each benchmark whose figures have cells."""
    lines = list[str]()
    for name in dict.fromkeys(figure.benchmark for figure in figures if figure.cells):
        rows = [dict(figure.cells) for figure in figures if figure.benchmark == name and figure.cells]
        columns = tuple(rows[0])
        lines += [f"{name}:", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        # A bar within a cell would end it.
        lines += [f"| {' | '.join(row[column].replace('|', '/') for column in columns)} |" for row in rows]
        lines.append("")
    return lines


def plots(figures: Sequence[Figure]) -> list[str]:
    """The lines of a plot in Mermaid for each benchmark whose figures are points of lines."""
    lines = list[str]()
    for name in dict.fromkeys(figure.benchmark for figure in figures if figure.line):
        points = [figure for figure in figures if figure.benchmark == name and figure.line]
        places = ", ".join(f'"{at:,}"' for at in dict.fromkeys(point.at for point in points))
        drawn = {line: [p.value for p in points if p.line == line] for line in dict.fromkeys(p.line for p in points)}
        lines += ["", "```mermaid", "xychart-beta"]
        lines += [f'  title "{name}, {points[0].unit}: {", then ".join(drawn)}"', f"  x-axis [{places}]"]
        lines += [f"  line [{', '.join(f'{value:.3g}' for value in values)}]" for values in drawn.values()]
        lines.append("```")
    return lines


def _shown(figure: Figure) -> str:
    digits = 0 if figure.value >= 100 else 2
    return f"{figure.value:.{digits}f} {figure.unit}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"<= {figure.target:g} {figure.unit}"

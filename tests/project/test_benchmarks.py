"""The benchmarks run, with sizes at which their figures mean nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.data import generate
from benchmarks.measure import Comparison, DifferentResultsError, Figure, Taken, compare, timed
from benchmarks.report import Measured
from pipelines.nexmark.in_sql import QUERIES as IN_SQL
from pipelines.nexmark.queries import QUERIES

# Kafka Streams runs along where its program can be compiled.
PEERS = 1 if shutil.which("javac") else 0


BESIDE_KAFKA = [
    *["filter, 1 % kept"] * 6, *["10 s windows"] * 2, *["windows over 10 s windows"] * 2,
    *["windows that fire more than once"] * 9, *["interval join"] * 4, *["a large dimension"] * 2,
    *["latency of a row"] * 3, "small batches", *["fixed cost of a run"] * 6, *["memory"] * 4,
    "files that were seen before", *["cost of upkeep"] * 2, *["a state of a million keys"] * 6,
]  # fmt: skip
KEYED = ["windows by keys"] * (2 + 2 * 7 + 2 * 4 + 7)
KEYED_OVER_KAFKA = ["Kafka, windows by keys"] * (2 * 9 * (1 + PEERS))
OVER_KAFKA = [
    *["Kafka to Kafka, half kept"] * (2 + 2 * PEERS), *["Kafka, 10 s windows"] * (2 + 2 * PEERS),
    *["Kafka to Kafka, 200 records/s"] * 10,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("names", "figures"),
    [
        (["window", "small"], ["10 s windows", "10 s windows", "small batches", *["fixed cost of a run"] * 6]),
        pytest.param(["map", "one_file"], [*["map of three fields"] * 3, *["one file"] * 2], marks=pytest.mark.long),
        pytest.param(
            [
                "filter",
                "window",
                "chain",
                "firing",
                "joins",
                "dimension",
                "latency",
                "small",
                "memory",
                "seen",
                "upkeep",
            ],
            BESIDE_KAFKA,
            marks=pytest.mark.long,
        ),
        pytest.param(["slope"], [*["filter, 1 % kept"] * 4, *["10 s windows"] * 4], marks=pytest.mark.long),
        pytest.param(
            ["ranges", "logs"],
            [*["lookups by networks and ranges"] * 4, "lines of logs"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            ["recorded"],
            [*["a try of equal code"] * 3 * 4, *["a stream beside a backfill"] * 2],
            marks=pytest.mark.long,
        ),
        pytest.param(["lookups"], ["lookups"] * 2, marks=pytest.mark.long),
        pytest.param(
            ["scale"],
            [*["columns"] * 3, *["steps"] * 6, *["pipelines of a code location"] * 3],
            marks=pytest.mark.long,
        ),
        pytest.param(
            ["rows"],
            [*["filter, 1 % kept, by rows"] * 6, *["10 s windows, by rows"] * 6],
            marks=pytest.mark.long,
        ),
        pytest.param(["requests"], ["sinks of requests"] * 2, marks=pytest.mark.long),
        pytest.param(["collectors"], ["collectors"] * 2, marks=pytest.mark.long),
        pytest.param(["nexmark"], ["Nexmark"] * len(QUERIES), marks=pytest.mark.long),
        pytest.param(["sql"], ["Nexmark in SQL"] * len(IN_SQL), marks=pytest.mark.long),
        pytest.param(["keys"], KEYED, marks=pytest.mark.long),
        pytest.param(["kafka_firing"], KEYED_OVER_KAFKA, marks=pytest.mark.long),
        pytest.param(["kafka_tables"], ["Kafka, tables by keys"] * (2 * PEERS), marks=pytest.mark.long),
        pytest.param(["kafka"], OVER_KAFKA, marks=pytest.mark.long),
        # A table of its own.
        pytest.param(["flink"], ["query", *QUERIES], marks=pytest.mark.long),
        pytest.param(["rules"], ["rules"] * 9, marks=pytest.mark.long),
    ],
)
def test_the_command_writes_every_figure(tmp_path: Path, names: list[str], figures: list[str]) -> None:
    output = tmp_path / "figures.md"
    sizes = ["--rows", "4000", "--pairs", "1", "--warm-up", "0", "--latency-rows", "2"]
    command = [sys.executable, "-m", "benchmarks", *names, *sizes, "--output", str(output)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = output.read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == names
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| benchmark |")]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == figures
    assert str(Path.home()) not in text


def test_the_input_is_the_same_every_time(tmp_path: Path) -> None:
    one, two = (generate(tmp_path / name, rows=1001, files=3) for name in ("a", "b"))
    texts = [[f.read_text() for f in sorted(folder.iterdir())] for folder in (one, two)]
    assert texts[0] == texts[1]
    lines = "".join(texts[0]).splitlines()
    assert len(lines) == 1001
    assert sum('"/checkout"' in line for line in lines) == 11


def test_ways_that_write_different_rows_are_not_compared() -> None:
    with pytest.raises(DifferentResultsError, match="our run wrote 1 rows, the other one 2"):
        compare(lambda: 1, lambda: 2, pairs=1)


def test_processor_time_of_a_process_that_has_ended_is_counted() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    taken, _ = timed(lambda: subprocess.run([sys.executable, "-c", burn], check=True).returncode)
    assert taken.cpu_s > 0.25


def test_pairs_are_compared_one_by_one() -> None:
    ours = tuple(Taken(seconds=s, cpu_s=1) for s in (1.0, 4.0, 30.0))
    other = tuple(Taken(seconds=s, cpu_s=2) for s in (1.0, 2.0, 10.0))
    result = Comparison(ours=ours, other=other)
    assert (result.ratio, result.cpu_ratio) == (2.0, 0.5)


@pytest.mark.parametrize(("value", "target", "met"), [(1.05, 1.05, True), (1.06, 1.05, False), (9, None, None)])
def test_a_figure_meets_its_target(value: float, target: float | None, met: bool | None) -> None:
    assert Figure(benchmark="b", what="w", value=value, unit="x", target=target).met is met


def test_a_section_takes_the_place_of_the_one_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "figures.md"

    def measured(name: str, value: float) -> Measured:
        figure = Figure(benchmark="b", what="w", value=value, unit="x", target=2.0)
        return Measured(name=name, figures=(figure,), told="On some day.")

    def write(*sections: Measured) -> None:
        report.write(path, sections, order=("filter", "joins"))

    write(measured("joins", 2.5))
    path.write_text(f"{path.read_text()}\n## What was tried\n\nThis and that.\n")
    write(measured("filter", 1.5))
    write(measured("filter", 3.5))
    head, *sections = path.read_text().split("\n## ")
    assert head == f"{report.HEAD}\n"
    assert [text.split("\n")[0] for text in sections] == ["filter", "joins", "What was tried"]
    assert "| b | w | 3.50 x | <= 2 x | missed |  |" in sections[0]
    assert "On some day." in sections[1]
    assert sections[2].endswith("This and that.\n")


def test_figures_that_are_points_of_lines_are_a_table_and_a_plot():
    points = [
        Figure(benchmark="by rows", what=f"{line}, {at:,}", value=value, unit="µs", line=line, at=at)
        for at, values in ((1000, (0.5, 1.25)), (20000, (0.1, 0.5)))
        for line, value in zip(("ours", "by hand"), values, strict=True)
    ]
    assert report.plots([Figure(benchmark="other", what="x", value=1, unit="s"), *points]) == [
        "",
        "```mermaid",
        "xychart-beta",
        '  title "by rows, µs: ours, then by hand"',
        '  x-axis ["1,000", "20,000"]',
        "  line [0.5, 0.1]",
        "  line [1.25, 0.5]",
        "```",
    ]

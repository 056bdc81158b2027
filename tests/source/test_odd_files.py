"""CSV, Parquet and archives as other programs write and break them, held against plain Python, by a seed."""

from __future__ import annotations

import math
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.files.header import columns_in_order
from rs_assets.connectors.files.lines.offsets import LineRange
from rs_assets.connectors.files.lines.spark_source import FORMAT, register
from rs_assets.connectors.files.parse import LineFormat, parse_lines
from rs_assets.connectors.files.whole import spark_files
from rs_assets.connectors.files.whole.counting import check_lines
from rs_assets.errors import BadRecordError, SourceReadError
from rs_assets.records.columns import LINE, REASON, SPLIT
from rs_assets.runtime.options import RunOptions
from tests.source.odd_files import KINDS, archive, csv_file, csv_lines, drift

# Spark's own reader reads one file at a time here, for their rows have no file.
MOST_IN_PARSER = 2
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())


def same(name: str, found: Any, expected: Any) -> bool:
    if name == "f" and expected is not None and not math.isnan(expected):
        expected = struct.unpack("f", struct.pack("f", expected))[0]
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    return found == expected


def good_values(rows):
    """`rows` with nulls for what is in bad ones, which Python may not have."""
    return rows.select(
        *(F.when(F.col(REASON).isNull(), F.col(name)).alias(name) for name in KINDS),
        *(name for name in rows.columns if name not in KINDS),
    )


def by_lines(spark, files: list[Path], form: LineFormat) -> dict[tuple[str, int], Any]:
    """What the reader of lines makes of each line of some files, which is that of dead letters and followed files."""
    register(spark)
    ranges = [LineRange(file=str(file), split=file.name).dump() for file in files]
    reader = spark.read.format(FORMAT).option("ranges", orjson.dumps(ranges).decode())
    rows = good_values(parse_lines(reader.options(**form.line_options).load(), form, addressed=True)).collect()
    found = {(row[SPLIT], row[LINE]): row for row in rows}
    assert len(found) == len(rows), "a line came twice"
    return found


def check_csv(spark, folder: Path, seed: int, files: int, rows: int = 30) -> Counter:
    """Each line of the files is what plain Python says; what it cannot say is a row or has a reason."""
    dice, delimiter = Random(seed), Random(seed).choice(",,;")
    folder.mkdir()
    made = {f"{n:03}.csv": csv_file(dice, rows, delimiter) for n in range(files)}
    for name, content in made.items():
        (folder / name).write_bytes(content)
    form = LineFormat("csv", schema=StructType.fromDDL(SCHEMA), delimiter=delimiter)
    found = by_lines(spark, [folder / name for name in made], form)
    counts, wrong = Counter(), []
    for name, content in made.items():
        lines = csv_lines(content, delimiter)
        assert {number for file, number in found if file == name} == set(lines), (seed, name)
        for number, line in lines.items():
            row = found[name, number]
            good = row[REASON] is None
            equal = good and line.values is not None and all(same(n, row[n], v) for n, v in line.values.items())
            counts["rows" if good else "bad"] += 1
            counts["unsure"] += not line.sure
            if line.sure and not (equal or (not good and line.values is None)):
                wrong.append((seed, name, number, content.split(b"\n")[number - 1], row, line))
    assert not wrong, (len(wrong), wrong[:5])
    check_in_parser(spark, folder, made, form, found)
    return counts


def check_in_parser(spark, folder: Path, made: dict[str, bytes], form: LineFormat, found: dict) -> None:
    """Spark's own reader, for runs that fail, gives the same rows of a file, or something is found in it."""
    in_order = [name for name in made if columns_in_order(folder / name, SCHEMA, delimiter=form.delimiter)]
    for name in in_order[:MOST_IN_PARSER]:
        whole = check_lines(folder / name)
        loaded = spark_files._load(spark.read, str(folder / name), form)
        theirs = good_values(spark_files._with_reason(loaded, form)).collect()
        ours = [row for (file, _), row in found.items() if file == name]
        refused = whole.unbalanced or whole.nul or any(row[REASON] for row in theirs)
        if whole.returns:
            continue
        assert refused == any(row[REASON] for row in ours), name
        if not refused:
            theirs, ours = (Counter(str([row[name] for name in KINDS]) for row in rows) for rows in (theirs, ours))
            assert theirs == ours, name


@pytest.mark.canary
def test_each_line_of_odd_csv_is_the_row_that_it_says_or_bad(spark, tmp_path: Path) -> None:
    counts = check_csv(spark, tmp_path / "in", 1, files=8)
    assert min(counts["rows"], counts["bad"]) > 30


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_sixty_thousand_lines_of_odd_csv(spark, tmp_path: Path) -> None:
    for seed in range(2, 42):
        check_csv(spark, tmp_path / str(seed), seed, files=50)


def run(path: Path, options: RunOptions, home: str, form: str, schema: str, **source: Any) -> list[dict] | None:
    """The rows of a run in a home of its own; None if a file or a record of it was refused."""
    out = MemoryChannel()
    stream = StreamBuilder.data_stream("odd", "files").from_file(path, form, schema=schema, **source)
    with suppress(BadRecordError, SourceReadError):
        stream.to_memory(out).build().run(replace(options, home=Home(path.parent / f"rs{home}")))
        return out.rows()
    return None


def check_parquet(folder: Path, options: RunOptions, seeds: range) -> Counter:
    """A file's rows are its values as of the declared types, exactly; or the run ends."""
    counts = Counter()
    for seed in seeds:
        case, file = drift(Random(seed)), folder / f"{seed}.parquet"
        pq.write_table(case.table, file)
        rows, expected = run(file, options, str(seed), "parquet", case.schema), case.values()
        counts["read" if rows is not None else "refused" if expected is None else "refused though it fits"] += 1
        if rows is not None:
            assert expected is not None, (seed, case, rows)
            assert [plain(row["v"]) for row in rows] == [plain(each) for each in expected], (seed, case)
    return counts


def plain(value: Any) -> str:
    """A text that equal values share: maps are dicts here, and lists of pairs in Arrow."""
    if isinstance(value, dict):
        return plain([*value.items()])
    return str([plain(each) for each in value]) if isinstance(value, list | tuple) else repr(value)


def check_archives(folder: Path, options: RunOptions, seeds: range) -> Counter:
    """An archive gives each of its lines once, by both readers, or ends the run."""
    counts = Counter()
    for seed in seeds:
        dice = Random(seed)
        ending, tail = dice.choice([".gz", ".zst"]), dice.random() < 0.5
        content, ids = archive(dice, ending)
        (file := folder / f"{seed}.jsonl{ending}").write_bytes(content)
        rows = run(file, options, str(seed), "json", "id bigint", tail=tail)
        assert (None if rows is None else [row["id"] for row in rows]) == ids, (seed, ending, tail)
        counts["read" if ids is not None else "refused"] += 1
    return counts


def test_odd_parquet_is_read_exactly_or_refused(options: RunOptions, tmp_path: Path) -> None:
    assert check_parquet(tmp_path, options, range(4))


def test_odd_archives_are_read_whole_or_refused(options: RunOptions, tmp_path: Path) -> None:
    assert check_archives(tmp_path, options, range(4))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_hundred_odd_files_of_parquet(options: RunOptions, tmp_path: Path) -> None:
    counts = check_parquet(tmp_path, options, range(4, 304))
    print(counts)
    assert min(counts["read"], counts["refused"]) > 50


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_odd_archives(options: RunOptions, tmp_path: Path) -> None:
    counts = check_archives(tmp_path, options, range(4, 204))
    assert min(counts["read"], counts["refused"]) > 50

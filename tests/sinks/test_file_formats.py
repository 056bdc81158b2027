"""CSV, Parquet and text as well as JSON lines: each value comes back, read by DuckDB and by this project."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rs_assets import MemoryChannel, StreamBuilder
from rs_assets.common.home import Home
from rs_assets.connectors.files.form import FileForm
from rs_assets.connectors.files.written import rows_in
from rs_assets.errors import SinkError, UnknownMethodError
from rs_assets.runtime.options import RunOptions
from rs_assets.testing import SinkCase, check_sink

UTC = dt.UTC
AT = dt.datetime(2026, 1, 5, 10, 0, 0, 123456, UTC)
SCHEMA = (
    "n bigint, text string, cents decimal(38,10), mean double, ok boolean, day date, at timestamp, local timestamp_ntz"
)
ROWS = [
    {
        "n": 1,
        "text": 'say "a, b"',
        "cents": Decimal("0.0000001000"),
        "mean": -0.0,
        "ok": True,
        "day": dt.date(1, 1, 1),
        "at": AT,
        "local": AT.replace(tzinfo=None),
    },
    {
        "n": -(2**63),
        "text": "",
        "cents": Decimal("-1234567890123456789012345678.0123456789"),
        "mean": 1e300,
        "ok": False,
        "day": dt.date(9999, 12, 31),
        "at": AT.replace(microsecond=0),
        "local": AT.replace(year=1969, microsecond=0, tzinfo=None),
    },
    {"n": None, "text": None, "cents": None, "mean": None, "ok": None, "day": None, "at": None, "local": None},
]
# The columns for DuckDB, so that it guesses nothing.
DUCK = {
    "n": "BIGINT",
    "text": "VARCHAR",
    "cents": "DECIMAL(38,10)",
    "mean": "DOUBLE",
    "ok": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMPTZ",
    "local": "TIMESTAMP",
}
SINKS = {
    "json": {},
    "json.gz": {"compression": "gzip"},
    "json.zst": {"compression": "zstd"},
    "csv": {"format": "csv"},
    "csv.gz": {"format": "csv", "compression": "gzip", "header": False, "delimiter": ";"},
    "csv.zst": {"format": "csv", "compression": "zstd", "delimiter": "\t"},
    "parquet": {"format": "parquet"},
    "gz.parquet": {"format": "parquet", "compression": "gzip"},
    "zstd.parquet": {"format": "parquet", "compression": "zstd"},
}
PLACES = ["a/b", "a=b", "%41", "x:y", "..", "ü 😀", "a\nb", " lead", "{x}", "*", "01", "it's", '"', "a\\b", "#"]
NULLS = [None, "", "__HIVE_DEFAULT_PARTITION__"]


def duck(sql):
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(sql)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def csv_text(path, kinds, delimiter=",", header=True):
    """The rows of CSV, of which null and the empty text differ."""
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in kinds.items())
    ends = "new_line = '\\n', allow_quoted_nulls = false"
    options = f"{ends}, header = {header}, delim = '{delimiter}', quote = '\"', escape = '\"'"
    return duck(
        f"FROM read_csv('{path}', auto_detect = false, hive_partitioning = false, columns = {{{columns}}}, {options})"
    )


def ordered(rows):
    return sorted(rows, key=repr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, driver):
    """One run of one stream into all forms, and of places into partitions."""
    root = tmp_path_factory.mktemp("formats")
    channel, places = MemoryChannel(schema=SCHEMA), MemoryChannel(schema="n int, place string, day date")
    stream = StreamBuilder.data_stream("shop", "forms").from_memory(channel)
    for name, options in SINKS.items():
        stream = stream.to_file(root / name, name=name.replace(".", "_"), **options)
    stream.filter("n > 0").map("text AS value").to_file(root / "lines", "text", compression="gzip", name="lines")
    made = StreamBuilder.data_stream("shop", "places").from_memory(places)
    for form in ("parquet", "csv", "json"):
        made = made.to_file(root / f"places.{form}", form, partition_by=["place", "day"], name=f"p_{form}")
    channel.put(*ROWS)
    day = dt.date(2026, 1, 5)
    places.put(*({"n": n, "place": place, "day": day if n else None} for n, place in enumerate(PLACES + NULLS)))
    options = RunOptions(home=Home(root / "rs"), driver=driver)
    assert stream.build().run(options).rows_out == len(SINKS) * len(ROWS) + 1
    assert made.build().run(options).rows_out == 3 * len(PLACES + NULLS)
    return root


def test_a_row_of_csv_is_what_rfc_4180_says(folder):
    (first, *_) = sorted(folder.glob("csv/batch=*/part-*.csv"), key=lambda file: -file.stat().st_size)
    lines = [line for file in folder.glob("csv/*/part-*.csv") for line in file.read_text().splitlines()]
    assert first.read_text().startswith("n,text,cents,mean,ok,day,at,local\n")
    assert set(lines) >= {
        '1,"say ""a, b""",0.0000001000,-0.0,true,0001-01-01,2026-01-05T10:00:00.123456Z,2026-01-05T10:00:00.123456',
        ",,,,,,,",
    }
    assert any(line.startswith('-9223372036854775808,"",') for line in lines)


@pytest.mark.parametrize("name", SINKS)
def test_duckdb_reads_each_value_as_it_was(folder, name):
    files, written = f"{folder}/{name}/*/part-*.{name}", ROWS
    # Of a number of JSON DuckDB makes a double first.
    columns = ", ".join(f"'{each}': '{kind}'" for each, kind in {**DUCK, "cents": "DOUBLE"}.items())
    if "parquet" in name:
        found = duck(f"FROM read_parquet('{folder}/{name}/*/part-*.parquet', hive_partitioning = false)")
    elif "json" in name:
        found = duck(f"FROM read_json('{files}', columns = {{{columns}}}, hive_partitioning = false)")
        written = [{**row, "cents": row["cents"] and float(row["cents"])} for row in ROWS]
    else:
        found = csv_text(files, DUCK, SINKS[name].get("delimiter", ","), SINKS[name].get("header", True))
    assert ordered(found) == ordered(written)
    assert all(file.name[0] in "._" or file.suffix in (".gz", ".zst", ".json", ".csv", ".parquet")
               for file in Path(folder, name).glob("*/*"))  # fmt: skip


@pytest.fixture(scope="module")
def read_again(folder, driver):
    """All forms that this project reads, in one run: rows by form."""
    forms = [*SINKS]
    outs = {name: MemoryChannel() for name in forms}
    options = RunOptions(home=Home(folder / "again"), driver=driver)
    for name, out in outs.items():
        begin = StreamBuilder.data_stream("shop", f"again_{forms.index(name)}")
        how = {"format": "json"} | {key: each for key, each in SINKS[name].items() if key != "compression"}
        begin.from_file(folder / name, schema=SCHEMA, **how).to_memory(out).build().run(options)
    lines = MemoryChannel()
    begin = StreamBuilder.data_stream("shop", "again_lines")
    begin.from_file(folder / "lines", "text").to_memory(lines).build().run(options)
    return {name: list(out.rows()) for name, out in {**outs, "lines": lines}.items()}


def test_this_project_reads_what_it_writes(read_again):
    assert read_again.pop("lines") == [{"value": 'say "a, b"'}]
    for name, rows in read_again.items():
        # An empty value of CSV is null, in quotes too.
        written = [{**row, "text": row["text"] or None} for row in ROWS] if "csv" in name else ROWS
        # A line of tabs alone is blank.
        written = written[:-1] if SINKS[name].get("delimiter") == "\t" else written
        assert ordered(rows) == ordered(written), name


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_folders_of_partitions_read_back_as_the_fields_they_were(folder, form):
    files = f"'{folder}/places.{form}/**/part-*', hive_partitioning = true, hive_types_autocast = false"
    rows = duck(f"SELECT n, place, day FROM read_{form}({files})")
    found = {row["n"]: (row["place"], row["day"]) for row in rows}
    assert found == {
        n: (place if place not in NULLS else None, "2026-01-05" if n else None)
        for n, place in enumerate(PLACES + NULLS)
    }
    folders = {path.parent.parent.name for path in Path(folder, f"places.{form}").rglob("part-*")}
    assert {"place=a%2Fb", "place=x%3Ay", "place=__HIVE_DEFAULT_PARTITION__", "place=ü 😀"} <= folders


def test_spark_reads_partitions_too(folder, spark):
    rows = spark.read.schema("n int, place string, day date").parquet(str(folder / "places.parquet")).collect()
    assert {row.n: row.place for row in rows} == dict(enumerate([*PLACES, *[None] * len(NULLS)]))


TEXTS = st.none() | st.text(st.sampled_from("\",;\n\r\t \\'#aé😀\x01\u2028\x00N"), max_size=6)


@settings(
    max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=40, max_size=60))
def test_any_texts_of_csv_come_back(rows, driver, tmp_path_factory):
    root = tmp_path_factory.mktemp("texts")
    written = [{"n": n, "a": a, "b": b} for n, (a, b) in enumerate(rows)]
    channel = MemoryChannel(schema="n int, a string, b string")
    stream = StreamBuilder.data_stream("shop", root.name).from_memory(channel)
    stream.to_file(root / "comma", "csv").to_file(root / "semi", "csv", delimiter=";", header=False)
    stream.map("a").to_file(root / "one", "csv")
    lines = stream.filter("NOT concat(coalesce(a, ''), coalesce(b, '')) RLIKE '[\\n\\r]'")
    lines.to_file(root / "own", "csv", delimiter=";", compression="gzip")
    channel.put(*written)
    report = stream.build().run(RunOptions(home=Home(root / "rs"), driver=driver))
    own = [row for row in written if not {*"\n\r"} & {*(row["a"] or ""), *(row["b"] or "")}]
    assert report.rows_out == 3 * len(rows) + len(own), "a line break in a value is no row"
    kinds = {"n": "INT", "a": "VARCHAR", "b": "VARCHAR"}
    assert ordered(csv_text(f"{root}/comma/*/part-*", kinds)) == ordered(written)
    assert ordered(csv_text(f"{root}/semi/*/part-*", kinds, ";", header=False)) == ordered(written)
    # This project reads an empty text as null, and a record of CSV is a line.
    begin, read = StreamBuilder.data_stream("shop", f"{root.name}_own"), MemoryChannel()
    source = begin.from_file(root / "own", "csv", schema="n int, a string, b string", delimiter=";")
    source.to_memory(read).build().run(RunOptions(home=Home(root / "rs"), driver=driver))
    assert ordered(read.rows()) == ordered({**row, "a": row["a"] or None, "b": row["b"] or None} for row in own)
    # A column of its own has no null: its line would be empty, and no reader takes that for a row.
    alone = csv_text(f"{root}/one/*/part-*", {"a": "VARCHAR"})
    assert ordered(row["a"] for row in alone) == ordered(row["a"] or "" for row in written)


@pytest.mark.parametrize(
    "name",
    ["csv", "zstd.parquet", *(pytest.param(n, marks=pytest.mark.long) for n in ("parquet", "csv.zst", "json.gz"))],
)
def test_every_form_keeps_the_promises_of_a_sink(tmp_path, driver, name):
    out = tmp_path / "out"
    options = {"partition_by": ["text"], **SINKS[name]} if name != "csv.zst" else SINKS[name]

    def rows():
        if not [*out.glob("batch=*")]:
            return []
        files, hive = f"{out}/batch=*/**/part-*", "hive_partitioning = true, hive_types_autocast = false"
        if "parquet" in name:
            return duck(f"SELECT n, text FROM read_parquet('{files}', {hive})")
        if "json" in name:
            return duck(f"SELECT n, text FROM read_json('{files}', {hive})")
        return duck(f"SELECT n::BIGINT AS n, text FROM read_csv('{files}', {hive}, header = true, all_varchar = true)")

    check_sink(
        SinkCase(write=lambda stream: stream.to_file(out, name="sink", **options), rows=rows),
        spark=driver,
        home=tmp_path / "rs",
    )


def test_a_value_without_a_place_ends_the_run_with_the_remedy(options, tmp_path):
    """A text that would be two lines; a partition whose folder has no name."""
    steps = {
        "line": lambda stream: stream.to_file(tmp_path / "line", "text"),
        "folder": lambda stream: stream.with_fields(n="1").to_file(tmp_path / "folder", partition_by=["line"]),
    }
    values = {"line": ["one", "two\nthree", None], "folder": ["one", "/" * 84, "a\0b"]}
    remedies = {}
    for name, write in steps.items():
        channel = MemoryChannel(schema="line string")
        channel.put(*({"line": value} for value in values[name]))
        begin = StreamBuilder.data_stream("shop", f"wrong_{name}").from_memory(channel)
        with pytest.raises(SinkError, match="would be more than one line|too many bytes") as refused:
            write(begin).build().run(options)
        remedies[name] = refused.value.remedy
        assert not [*tmp_path.glob(f"{name}/batch=*")]
    assert "with_fields(line=\"replace(line, '\\n', ' ')\")" in remedies["line"]
    assert "with_fields(start='left(replace(page, char(0)), 50)') and partition_by=['start']" in remedies["folder"]
    for name, value in {"line": "replace(line, '\n', ' ')", "folder": "left(replace(line, char(0)), 50)"}.items():
        channel = MemoryChannel(schema="line string")
        channel.put(*({"line": value} for value in values[name]))
        begin = StreamBuilder.data_stream("shop", f"mended_{name}").from_memory(channel)
        steps[name](begin.with_fields(line=value)).build().run(options)
    lines = [line for file in tmp_path.glob("line/*/*.txt") for line in file.read_text().splitlines()]
    assert sorted(lines) == ["", "one", "two three"]
    assert len([*tmp_path.glob("folder/batch=*/line=*")]) == 3


def test_a_table_has_no_files_but_its_changes_do():
    stream = StreamBuilder.data_stream("shop", "tables").from_memory(MemoryChannel(schema="id bigint, page string"))
    for table in (stream.to_table("id"), stream.group_by("page").count("n")):
        with pytest.raises(UnknownMethodError, match="has no method 'to_file'") as refused:
            table.to_file("out")
        assert refused.value.remedy == "write .to_stream().to_file(...): a row that goes has the field 'retracted'"
    begin = StreamBuilder.data_stream("shop", "changes").from_memory(MemoryChannel(schema="id bigint, page string"))
    assert begin.to_table("id").to_stream().to_file("out").build()


def test_a_folder_has_files_of_one_form(options, tmp_path):
    channel = MemoryChannel(schema="n bigint, page string")
    stream = StreamBuilder.data_stream("shop", "changed").from_memory(channel)
    channel.put({"n": 1, "page": "/a"})
    stream.to_file(tmp_path / "out", "csv").build().run(options)
    channel.put({"n": 2, "page": "/b"})
    again = StreamBuilder.data_stream("shop", "changed").from_memory(channel)
    other = again.to_file(tmp_path / "out", "csv", header=False).build()
    with pytest.raises(SinkError, match="has files of the form 'csv', this is 'csv, no header'") as refused:
        other.run(options)
    assert refused.value.remedy == "write to a folder of its own, or begin a new generation (--new-generation)"
    packed = StreamBuilder.data_stream("shop", "changed").from_memory(channel)
    packed.to_file(tmp_path / "out", "csv", compression="gzip").build().run(options)
    assert sorted(row["n"] for row in duck(f"FROM read_csv('{tmp_path}/out/*/part-*', header = true)")) == [1, 2]
    channel.put({"n": 3, "page": "/c"})
    other.run(replace(options, new_generation=True))
    lines = [line for file in tmp_path.glob("out/*/part-*") for line in file.read_text().splitlines()]
    assert sorted(lines) == ["1,/a", "2,/b", "3,/c"]


def test_rows_are_counted_in_files_of_each_form(tmp_path):
    file = tmp_path / "part-0.csv"
    file.write_text('a,b\n1,"x\ny""\n"\n2,\n' * 1)
    assert rows_in(file, FileForm(format="csv")) == 2
    assert rows_in(file, FileForm(format="csv", header=False)) == 3
    assert rows_in(file, FileForm(format="text")) == 5

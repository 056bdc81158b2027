"""Joins with a dimension against a plain model, and which version of it a batch sees."""

import json
import math
import sqlite3
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from rs_assets import Dimension, StreamBuilder, Time, TumblingWindow
from rs_assets.compile.provenance import fields_of, provenance
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import RsError, SourceReadError, TopologyError, UnknownFieldError
from rs_assets.testing import PipelineDriver
from rs_assets.topology.describe import as_mermaid
from tests.operators.model import at

SCHEMA = "k string, v bigint"


def clicks(job="dim", path="in.jsonl"):
    return StreamBuilder.data_stream("test", job).from_file(path, schema=SCHEMA)


def written(path, rows):
    hidden = path.with_suffix(".new")
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(path)
    return path


def model(rows, dimension, how, fits=lambda left, right: True):
    """Pairs of v and tier."""
    made = []
    for row in rows:
        met = [each["tier"] for each in dimension if row["k"] and each["k"] == row["k"] and fits(row, each)]
        made += [(row["v"], tier) for tier in met or ([None] if how == "left" else [])]
    return sorted(made, key=str)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_of_a_file_are_found_several_multiply_and_missing_keys_match_nothing(drive, tmp_path, how):
    users = [{"k": k, "tier": f"t{n}"} for n, k in enumerate(["a", "b", "a", "", None, "größe", "c"])]
    path = written(tmp_path / "users.jsonl", users)
    dimension = Dimension.from_file(path, schema="k string, tier string")
    rows = [{"k": k, "v": n} for n, k in enumerate(["a", "b", "x", "", None, "größe", "a"])]
    made = drive(clicks().dim_join(dimension, on="k", how=how), rows[:3], rows[3:])
    assert sorted(((row["v"], row["tier"]) for row in made), key=str) == model(rows, users, how)
    assert all(row["k"] == rows[row["v"]]["k"] for row in made)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_condition_is_asked_of_each_candidate(drive, tmp_path, how):
    """Rows of one key stand in several Arrow batches."""
    users = [{"k": k, "tier": f"t{n}", "least": n % 7} for n, k in enumerate("aab" * 2000)]
    path = written(tmp_path / "users.jsonl", users)
    dimension = Dimension.from_file(path, schema="k string, tier string, least int")
    rows = [{"k": k, "v": n} for n, k in enumerate(["a", "b", "x", "a", "b", "b"])]
    stream = clicks().dim_join(dimension, on="k", how=how, condition="left.v >= least AND right.least > 2", prefix="u_")
    made = drive(stream, rows)
    expected = model(rows, users, how, lambda left, right: left["v"] >= right["least"] > 2)
    assert sorted(((row["v"], row["u_tier"]) for row in made), key=str) == expected


@pytest.mark.parametrize("how", ["inner", "left"])
def test_fields_called_left_and_right_are_named_behind_their_side(driver, how):
    """In a join of streams and in one with a dimension."""
    schema = "k string, left bigint, right bigint, ts timestamp"
    dimension = Dimension.from_loader(lambda: [{"k": "a", "left": n, "Right": n} for n in range(6)],
                                      schema="k string, left bigint, Right bigint")  # fmt: skip
    job = StreamBuilder.data_stream("test", "sides")
    one, two = (job.from_file(f"{name}.jsonl", schema=schema, name=name) for name in ("one", "two"))
    pairs = one.join(two, on="k", within=Time.seconds(5), time_field="ts", condition="left.left < right.left",
                     how=how, prefix="r_")  # fmt: skip
    met = pairs.dim_join(dimension, on="k", condition="left.right = right.Right", how=how, prefix="d_")
    with PipelineDriver(met.to_print().build(), spark=driver) as running:
        running.push([{"k": "a", "left": n, "right": 2 * n, "ts": at(n)} for n in (1, 2, 3)], "one")
        running.push([{"k": "a", "left": 3, "right": 0, "ts": at(2)}], "two")
        running.finish()
        made = sorted((row["left"], row["r_left"], row["right"], row["d_Right"]) for row in running.take())
    assert made[:2] == [(1, 3, 2, 2), (2, 3, 4, 4)]
    assert made[2:] == ([] if how == "inner" else [(3, None, 6, None)])


KEYED = "t string, i int, d decimal(20,2), on date, at timestamp, x double"
PARTS = {
    "t": ["a", "größe", "", None],
    "i": [1, -1, None],
    "d": [Decimal("1.10"), Decimal("-99999999999999999.99"), None],
    "on": [date(1969, 12, 31), date(2024, 2, 29), None],
    "at": [datetime(1960, 1, 1, 0, 0, 0, 1, UTC), datetime(2024, 1, 1, tzinfo=UTC), None],
    "x": [0.0, -0.0, math.nan, 1.5, None],
}


def keyed(count, seed):
    """Rows with a value of each kind, null and empty ones among them."""
    drawn = Random(seed)
    return [{name: drawn.choice(values) for name, values in PARTS.items()} | {"v": n} for n in range(count)]


@pytest.mark.parametrize("on", [["t", "i"], ["d", "on", "at"], ["x"]], ids=str)
def test_keys_of_every_kind_should_give_the_rows_of_duckdb(options, on):
    left, right = keyed(120, 7), keyed(70, 5)
    channels = {how: MemoryChannel() for how in ("inner", "left")}
    dimension = Dimension.from_loader(lambda: right, schema=f"{KEYED}, v bigint")
    stream = StreamBuilder.data_stream("test", "duck").from_array(left, schema=f"{KEYED}, v bigint")
    for how, channel in channels.items():
        joined = stream.dim_join(dimension, on=on, how=how, condition="(left.v + right.v) % 3 <> 0", prefix="r_")
        joined.to_memory(channel, name=how)
    stream.build().run(options)
    with duckdb.connect() as database:
        moment = pa.timestamp("us", "UTC")
        kinds = dict(
            zip(PARTS, (pa.string(), pa.int32(), pa.decimal128(20, 2), pa.date32(), moment, pa.float64()), strict=True)
        )
        schema = pa.schema([*kinds.items(), ("v", pa.int64())])
        for name, rows in (("l", left), ("r", right)):
            database.register(name, pa.Table.from_pylist(rows, schema=schema))
        equal = " AND ".join(f"l.{name} = r.{name}" for name in on)
        for how, channel in channels.items():
            full = " AND l.t <> ''" if "t" in on else ""
            wanted = database.execute(
                f"SELECT l.v, r.v FROM l {how} JOIN r ON {equal}{full} AND (l.v + r.v) % 3 <> 0"
            ).fetchall()
            assert len(wanted) > 20
            assert Counter((row["v"], row["r_v"]) for row in channel.take()) == Counter(wanted)


def test_a_reload_is_taken_up_and_one_that_fails_leaves_what_was_there(driver):
    """What the loader does is drawn from a list; the last entry stays."""
    does = [[("a", "one")], [("a", "two"), ("a", "too")], OSError("geheim? no: cable"), [], [("b", "three")]]

    def users():
        now = does.pop(0) if len(does) > 1 else does[0]
        if isinstance(now, OSError):
            raise now
        return [{"k": k, "tier": tier} for k, tier in now]

    stream = clicks().dim_left_join(Dimension.from_loader(users, schema="k string, tier string"), on="k")
    seen = []
    with PipelineDriver(stream.to_print().build(), spark=driver) as running:

        def batch():
            running.push([{"k": "a", "v": len(seen)}])
            running.step()
            seen.append(sorted((row["tier"] for row in running.take()), key=str))

        batch()
        running.reload()
        batch()
        for told in ("cable", "no rows.*may_be_empty"):
            with pytest.raises(SourceReadError, match=f"(?s){told}"):
                running.reload()
            batch()
        running.reload()
        batch()
        assert running.report().rows_in == 5
    assert seen == [["one"], ["too", "two"], ["too", "two"], ["too", "two"], [None]]


def test_before_and_behind_state_and_in_branches(drive, driver):
    pages = [{"page": "/a", "area": "shop"}, {"page": "/b", "area": "shop"}, {"page": "/c", "area": "help"}]
    areas = [{"area": "shop", "owner": "ann"}, {"area": "help", "owner": "bob"}]
    dimension = Dimension.from_loader(lambda: pages, schema="page string, area string")
    owners = Dimension.from_loader(lambda: areas, schema="area string, owner string")
    source = StreamBuilder.data_stream("test", "state").from_file("in.jsonl", schema="page string, ts timestamp")
    placed = source.dim_join(dimension, on="page", name="placed")
    counts = placed.window(TumblingWindow.of(Time.seconds(10), "ts")).group_by("area").count("n").to_data_stream()
    counts.dim_join(owners, on="area", name="owned").to_print(name="counts")
    placed.filter("page = '/c'").to_print(name="helped")
    rest = placed.distinct("area", "ts", within=Time.minutes(1), time_field="ts", name="once")
    with PipelineDriver(rest.to_print(name="firsts").build(), spark=driver) as running:
        running.push([{"page": page, "ts": at(second)} for second, page in enumerate(["/a", "/b", "/x", "/c", "/a"])])
        running.step()
        running.restart()
        running.push([{"page": "/c", "ts": at(11)}])
        running.finish()
        found = sorted((row["area"], row["n"], row["owner"]) for row in running.take("counts"))
        assert found == [("help", 1, "bob"), ("help", 1, "bob"), ("shop", 3, "ann")]
        assert [row["page"] for row in running.take("helped")] == ["/c", "/c"]
        assert len(running.take("firsts")) == 5


def test_files_tables_and_databases_give_the_same(options, tmp_path):
    """CSV, Parquet, a folder of it, Delta and SQLite; types that are not declared are those of the first load."""
    rows = pa.table({"k": ["a", "b", "a"], "least": pa.array([1, 2, 3], pa.int64()), "more": ["x", "y", None]})
    (tmp_path / "d.csv").write_text("k,least,more\na,1,x\nb,2,y\na,3,\n")
    (tmp_path / "d").mkdir()
    for path in (tmp_path / "d.parquet", tmp_path / "d" / "part.parquet"):
        pq.write_table(rows, path)
    write_deltalake(options.home.table("test", "d"), rows)
    with sqlite3.connect(tmp_path / "d.db") as database:
        database.execute("create table d (k text, least integer, more text)")
        database.executemany("insert into d values (?, ?, ?)", [tuple(row.values()) for row in rows.to_pylist()])
    url, schema = f"sqlite:///{tmp_path}/d.db", "k string, least bigint"
    dimensions = [
        Dimension.from_file(tmp_path / "d.csv", format="csv", schema=f"{schema}, more string"),
        Dimension.from_file(tmp_path / "d.parquet", format="parquet"),
        Dimension.from_file(tmp_path / "d", format="parquet", schema=schema),
        Dimension.from_delta("d"),
        Dimension.from_delta("d", schema=schema),
        Dimension.from_database(url, table="d", schema=schema),
        Dimension.from_database(url, sql="select k, least from d where least > 0"),
        Dimension.from_loader(lambda: rows),
    ]
    channels = [MemoryChannel() for _ in dimensions]
    stream = StreamBuilder.data_stream("test", "kinds").from_array([{"k": "a", "v": 1}, {"k": "c", "v": 2}])
    for number, (dimension, channel) in enumerate(zip(dimensions, channels, strict=True)):
        stream.dim_left_join(dimension, on="k").to_memory(channel, name=f"out_{number}")
    stream.build().run(options)
    for channel in channels:
        assert sorted((row["v"], row["least"]) for row in channel.rows() if row["v"] == 1) == [(1, 1), (1, 3)]
        assert [row["least"] for row in channel.take() if row["v"] == 2] == [None]


def test_what_cannot_be_joined_does_not_build():
    users = Dimension.from_file("users.jsonl", schema="k string, v string, tier string")
    with pytest.raises(TopologyError, match="(?s)two fields called 'v', a bigint.*prefix="):
        clicks().dim_join(users, on="k").to_print().build()
    with pytest.raises(TopologyError, match="(?s)cannot compare 'v', which is a bigint, with 'k'.*cast"):
        clicks().dim_join(users, on={"v": "k"}, prefix="u_").to_print().build()
    with pytest.raises(UnknownFieldError, match="'teer'"):
        clicks().dim_join(users, on="k", prefix="u_").filter("u_tier = 'a'").filter("teer = 'a'").to_print().build()
    for wrong in (lambda: Dimension.from_file("a", format="xml"), lambda: Dimension.from_file("a.json"),
                  lambda: Dimension.from_database("sqlite://"), lambda: clicks().dim_join([{"k": "a"}], on="k"),
                  lambda: clicks().dim_join(users, on="k", how="full"), lambda: Dimension.from_loader([])):  # fmt: skip
        with pytest.raises(TopologyError):
            wrong()


def test_a_column_is_made_of_the_keys_that_found_it():
    users = Dimension.from_file("users.jsonl", schema="k string, tier string")
    topology = clicks().dim_join(users, on="k", prefix="u_", name="users").to_print().build().topology
    assert f'users_dimension[("{topology["users"].dimension.text}")] -.-> users' in as_mermaid(topology)
    made = provenance(topology, "users")
    assert fields_of(made, "u_tier") == {("users", "tier"), ("file", "k")}
    assert fields_of(made, "v") == {("file", "v")}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://u:s3cr3t@127.0.0.1:1/x", "no database driver|cannot be read"),
        ("sqlite:////none/s3cr3t-not/x?timeout=s3cr3t", "cannot be read|cannot be loaded|does not accept"),
        ("nonsense s3cr3t", "no valid database URL"),
    ],
)
def test_a_database_that_cannot_be_read_refuses_the_start_without_its_secrets(options, tmp_path, url, shown):
    users = Dimension.from_database(url, table="users", schema="k string")
    pipeline = clicks(path=written(tmp_path / "in.jsonl", [])).dim_join(users, on="k").to_print().build()
    assert "s3cr3t" not in repr(pipeline) + pipeline.describe() + str(users)
    with pytest.raises(RsError, match=shown) as caught:
        pipeline.run(options)
    assert "s3cr3t" not in str(caught.value).replace("/none/s3cr3t-not", "")

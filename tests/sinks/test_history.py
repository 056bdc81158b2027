"""Tables that keep each version of a row equal a replay, however rows are ordered and cut into batches."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rs_assets import MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.delta.validity import Validity
from rs_assets.errors import RsError, TopologyError
from rs_assets.testing import SinkCase, check_sink

NAMED = ("id", "ts", "seq", "gone", "current AS row_current")
SCHEMA = "id bigint, tier string, ts timestamp, seq bigint, gone boolean"
BY = {"mode": "history", "keys": ["id"], "time_field": "ts", "order_by": ["seq"], "deletes": "gone"}


def at(seconds):
    return datetime(1969, 12, 31, 23, 59, tzinfo=UTC) + timedelta(seconds=seconds)


def row(key, tier, seconds, seq=0, *, gone=False):
    return {"id": key, "tier": tier, "ts": at(seconds), "seq": seq, "gone": gone}


def pipeline(channel, **options):
    stream = StreamBuilder.data_stream("shop", "tiers").from_memory(channel)
    return stream.to_delta("history", name="history", **{**BY, **options}).build()


def there(options, *names):
    path = options.home.table("shop", "history")
    rows = DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []
    names = names or ("id", "tier", "valid_from", "valid_to", "current")
    return sorted((tuple(row[name] for name in names) for row in rows), key=repr)


def test_rows_in_versions_out(options):
    channel = MemoryChannel(schema=SCHEMA)
    job = pipeline(channel)
    channel.put(row(1, "free", 0), row(2, "free", 5), row(1, "paid", 60))
    job.run(options)
    assert there(options) == [
        (1, "free", at(0), at(60), False),
        (1, "paid", at(60), None, True),
        (2, "free", at(5), None, True),
    ]
    # A late one, a deletion, and two changes at one time of which the greater `seq` stands.
    channel.put(row(1, "trial", 30), row(2, None, 90, gone=True), row(1, "gold", 99, 2), row(1, "silver", 99, 1))
    job.run(options)
    assert there(options) == [
        (1, "free", at(0), at(30), False),
        (1, "gold", at(99), None, True),
        (1, "paid", at(60), at(99), False),
        (1, "trial", at(30), at(60), False),
        (2, "free", at(5), at(90), False),
    ]


def model(rows):
    """The versions by a replay: of a key and a time the greatest `seq` stands, and lasts until the next time."""
    of = defaultdict(dict)
    for each in sorted(rows, key=lambda r: r["seq"]):
        of[each["id"]][each["ts"]] = each
    found = []
    for times in of.values():
        for start, end in zip(sorted(times), [*sorted(times)[1:], None], strict=True):
            each = times[start]
            if not each["gone"]:
                found.append((each["id"], each["tier"], start, end, end is None))
    return sorted(found, key=repr)


VERSIONS = """
SELECT id, tier, epoch_us(ts), epoch_us(following) FROM (
  SELECT *, lead(ts) OVER (PARTITION BY id ORDER BY ts) AS following FROM (
    SELECT * FROM rows QUALIFY row_number() OVER (PARTITION BY id, ts ORDER BY seq DESC) = 1))
WHERE NOT gone
"""


def random_rows(random_, count, *, keys=6, seconds=40):
    """Deletions are of the keys' newest rows, as a log has them, and none is of a time that another row has."""
    rows, used = [], set()
    for seq in range(count):
        key, second = random_.choice([None, *range(keys)]), random_.randrange(seconds)
        gone = random_.random() < 0.2 and (key, second) not in used
        used.add((key, second))
        rows.append(row(key, random_.choice("abc"), second, seq, gone=gone))
    return rows


def in_some_order(random_, rows):
    """A deletion comes after the rows that it may end; all else comes at any time."""
    ordered = random_.sample(rows, len(rows))
    for gone in [each for each in ordered if each["gone"]]:
        ordered.remove(gone)
        ended = [n for n, r in enumerate(ordered) if r["id"] == gone["id"] and r["ts"] <= gone["ts"]]
        ordered.insert(random_.randint(max(ended, default=-1) + 1, len(ordered)), gone)
    return ordered


ARROW = pa.schema(
    {"id": pa.int64(), "tier": pa.string(), "ts": pa.timestamp("us", "UTC"), "seq": pa.int64(), "gone": pa.bool_()}
)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 40))])
def test_versions_should_equal_a_replay_whatever_the_batches(tmp_path, seed):
    random_ = random.Random(seed)
    rows, path = random_rows(random_, 60), str(tmp_path / "t")
    ordered = in_some_order(random_, rows)
    by = Validity(step="s", keys=("id",), time="ts", order_by=("seq",), deletes="gone")
    while ordered:
        cut = random_.randint(1, 20)
        batch, ordered = ordered[:cut], ordered[cut:]
        random_.shuffle(batch)
        net = by.net(pa.Table.from_pylist(batch, ARROW))
        if DeltaTable.is_deltatable(path):
            by.merge(DeltaTable(path), path, net, None)
        else:
            write_deltalake(path, by.begun(net))
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    names = ("id", "tier", "valid_from", "valid_to", "current")
    assert sorted((tuple(each[name] for name in names) for each in found), key=repr) == model(rows)
    with duckdb.connect() as connection:
        connection.register("rows", pa.Table.from_pylist(rows, ARROW))
        asked = connection.execute(VERSIONS).fetchall()
    shown = [
        (*(each[name] for name in names[:2]), *map(micros, (each["valid_from"], each["valid_to"]))) for each in found
    ]
    assert sorted(shown, key=repr) == sorted(asked, key=repr)


def micros(moment):
    return None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128(14, 2), pa.bool_()], ids=str
)
@pytest.mark.parametrize("count", [3, 2_000])
@pytest.mark.parametrize("null", [[], [None]], ids=["without nulls", "with a null"])
def test_keys_of_each_type_should_be_found_again(tmp_path, kind, count, null):
    path, by = str(tmp_path / "t"), Validity(step="s", keys=("key",), time="ts")
    plain = pa.array([*range(count), *null], pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    keys = plain.cast(kind)
    for second in (0, 1, 2):
        net = by.net(pa.table({"key": keys, "ts": pa.array([at(second)] * len(keys), pa.timestamp("us", "UTC"))}))
        if second:
            by.merge(DeltaTable(path), path, net, None)
        else:
            write_deltalake(path, by.begun(net))
    found = DeltaTable(path).to_pyarrow_table()
    different = len(keys.unique())
    assert (found.num_rows, sum(found["current"].to_pylist())) == (3 * different, different)


def test_a_history_should_keep_the_promises_of_a_sink(tmp_path, driver):
    path = tmp_path / "out"

    def write(stream):
        return stream.to_delta(path, mode="history", keys=["n"], name="sink")

    def rows():
        found = DeltaTable(str(path)).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(str(path)) else []
        return [{"n": each["n"], "text": each["text"]} for each in found]

    check_sink(SinkCase(write=write, rows=rows), spark=driver, home=tmp_path / "rs")


def test_a_table_should_keep_what_each_batch_left(options):
    channel = MemoryChannel(schema="id bigint, tier string, gone boolean")
    table = StreamBuilder.data_stream("shop", "tiers").from_memory(channel).to_table("id", deletes="gone")
    job = table.map_values("tier").to_delta("history", mode="history").build()
    ends = []
    for tier, gone in (("free", False), ("paid", False), (None, True), ("back", False)):
        channel.put({"id": 1, "tier": "between", "gone": False}, {"id": 1, "tier": tier, "gone": gone})
        job.run(options)
        ends.append(datetime.now(UTC))
    (a, b, c) = sorted(there(options, "valid_from", "valid_to", "tier", "current"))
    assert [(each[2], each[3]) for each in (a, b, c)] == [("free", False), ("paid", False), ("back", True)]
    assert a[0] < ends[0] < a[1] == b[0] < ends[1] < b[1] < ends[2] < c[0] < ends[3]
    assert c[1] is None


def test_what_cannot_be_a_history_is_refused(options):
    channel = MemoryChannel(schema=SCHEMA)
    for wrong, what in (
        ({"keys": []}, "keys belong to mode='upsert' and 'history'"),
        ({"mode": "upsert"}, "time_field belongs to mode='history'"),
        ({"connector": "jvm"}, "only the native connector"),
        ({"time_field": "seq"}, "cannot be the time of a record"),
        ({"time_field": "never"}, "never"),
    ):
        with pytest.raises(RsError, match=what):
            pipeline(channel, **wrong)
    pipeline(channel)
    stream = StreamBuilder.data_stream("shop", "tiers").from_memory(channel)
    with pytest.raises(TopologyError, match="a field 'current'") as refused:
        stream.with_fields(current="seq = 1").to_delta("history", **BY).build()
    assert "current AS row_current" in refused.value.remedy
    stream.with_fields(current="seq = 1").map(*NAMED).to_delta("t", **BY).build()


def test_a_row_without_a_time_is_refused(options):
    channel = MemoryChannel(schema=SCHEMA)
    channel.put({"id": 1, "tier": "free"}, row(2, "free", 0))
    with pytest.raises(RsError, match="1 row without 'ts'") as refused:
        pipeline(channel).run(options)
    assert ".filter('ts IS NOT NULL')" in str(refused.value)
    stream = StreamBuilder.data_stream("shop", "tiers").from_memory(channel).filter("ts IS NOT NULL")
    stream.to_delta("history", name="history", **BY).build().run(options)
    assert there(options, "id") == [(2,)]


HISTORY_SQL = """
CREATE TABLE tiers (id BIGINT, tier STRING, ts TIMESTAMP_LTZ(3), gone BOOLEAN)
  WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');
CREATE TABLE history (id BIGINT, tier STRING, ts TIMESTAMP_LTZ(3), gone BOOLEAN, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'delta', 'table' = 'history', 'mode' = 'history', 'time-field' = 'ts', 'deletes' = 'gone');
INSERT INTO history SELECT id, tier, ts, gone FROM tiers;
"""


def test_a_history_in_sql(options, tmp_path):
    lines = [
        (1, "free", "10:00", False),
        (1, "paid", "12:00", False),
        (2, "free", "11:00", False),
        (2, None, "13:00", True),
    ]
    (tmp_path / "in").mkdir()
    text = "".join(
        json.dumps({"id": key, "tier": tier, "ts": f"2024-03-01T{time}:00Z", "gone": gone}) + "\n"
        for key, tier, time, gone in lines
    )
    (tmp_path / "in" / "1.json").write_text(text)
    job = pipeline_from_sql(HISTORY_SQL.format(folder=tmp_path / "in"), namespace="shop")
    job.run(options)
    shown = [(a, b, c.hour, d and d.hour, e) for a, b, c, d, e in there(options)]
    assert shown == [(1, "free", 10, 12, False), (1, "paid", 12, None, True), (2, "free", 11, 13, False)]

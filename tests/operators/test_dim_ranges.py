"""Keys of a dimension that contain values, networks and intervals, against plain models and DuckDB."""

import ipaddress
import json
import math
import socket
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets import Dimension, Network, Range, StreamBuilder
from rs_assets.connectors.memory import MemoryChannel
from rs_assets.errors import TopologyError, UnknownFieldError
from rs_assets.operators.dimension.range_faults import crossing, unusable
from rs_assets.operators.dimension.ranges import build, open_index
from rs_assets.testing import PipelineDriver

DAY = datetime(2024, 1, 1, tzinfo=UTC)
# Values by type, in their order.
KINDS = {
    pa.int64(): [-(2**63), -3, 0, 1, 2, 5, 2**53, 2**53 + 1, 2**63 - 1],
    pa.int16(): [-5, -1, 0, 1, 2, 3, 4, 9],
    pa.float64(): [-math.inf, -1.5, 0.0, 5e-324, 1.0, 1.5, 2.0**60, math.inf],
    pa.date32(): [date(1969, 12, 31), *(date(2024, 1, 1) + timedelta(n) for n in range(6))],
    pa.timestamp("us", "UTC"): [DAY.replace(year=1960), *(DAY + timedelta(microseconds=n) for n in range(6))],
}


def found(table, keys, probes):
    """What an index finds for each probe, as values of the field `n`."""
    with tempfile.TemporaryDirectory() as folder:
        build(table, keys, Path(folder))
        index = open_index(Path(folder), keys)
        ends, rows = index.find(probes)
        values = index.values("n", rows).to_pylist()
    return [values[ends[at] : ends[at + 1]] for at in range(len(probes[0]))]


def width(low, high, kind):
    """How much an interval contains, as exact as the documentation says."""
    if kind == pa.float64():
        made = (math.inf if high is None else high) - (-math.inf if low is None else low)
        return 0.0 if math.isnan(made) else made
    if low is None or high is None:
        # As far as the type goes.
        most = pa.scalar(2**63 - 1).as_py()
        numbers = pa.array([low, high], kind).cast(pa.int32() if kind == pa.date32() else pa.int64()).to_pylist()
        return (most if high is None else numbers[1]) - (-most - 1 if low is None else numbers[0])
    one, two = pa.array([low, high], kind).cast(pa.int32() if kind == pa.date32() else pa.int64()).to_pylist()
    return two - one


def narrowest(rows, probe, *, closed, kind):
    """The rows of the narrowest interval that contains a probe, by brute force."""
    key, value = probe
    if key is None or key == "" or value is None or value != value:
        return []

    def inside(low, high):
        return (low is None or low <= value) and (high is None or (value <= high if closed else value < high))

    held = [(n, low, high) for n, (k, low, high) in enumerate(rows) if k == key and inside(low, high)]
    if not held:
        return []
    order = KINDS[kind]
    place = {value: at for at, value in enumerate(order)}

    def rank(low, high):
        return (width(low, high, kind), -place.get(low, -1), place.get(high, len(order)))

    best = min((low, high) for _, low, high in [min(held, key=lambda row: rank(*row[1:]))])
    return [n for n, low, high in held if (low, high) == best]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_value_should_find_the_rows_of_the_narrowest_interval_around_it(data):
    kind, closed = data.draw(st.sampled_from(list(KINDS))), data.draw(st.booleans())
    keyed = data.draw(st.booleans())
    names = st.sampled_from(["a", "b", "", None]) if keyed else st.just("a")
    value = st.sampled_from(KINDS[kind])
    rows = data.draw(st.lists(st.tuples(names, st.none() | value, st.none() | value), max_size=25))
    asked = data.draw(st.lists(st.tuples(names, st.none() | value), min_size=1, max_size=15))
    table = pa.table({
        "k": pa.array([k for k, _, _ in rows], pa.string()),
        "low": pa.array([low for _, low, _ in rows], kind),
        "high": pa.array([high for _, _, high in rows], kind),
        "n": pa.array(range(len(rows)), pa.int64()),
    })  # fmt: skip
    within = Range("low", "high", closed=closed)
    probes = [pa.array([None, *(k for k, _ in asked)], pa.string()).slice(1)] if keyed else []
    probes.append(pa.array([None, *(value for _, value in asked)], kind).slice(1))
    made = found(table, (["k"] if keyed else []) + [within], probes)
    assert made == [narrowest(rows, probe, closed=closed, kind=kind) for probe in asked]


def drawn_networks(count, seed):
    """Networks of both kinds, many inside of others, and addresses, many inside of them."""
    drawn = Random(seed)
    networks = []
    for _ in range(count):
        if networks and drawn.random() < 0.3:
            outer = ipaddress.ip_network(drawn.choice(networks))
            length = drawn.randint(outer.prefixlen, outer.max_prefixlen)
            base = int(outer.network_address) | drawn.getrandbits(outer.max_prefixlen - outer.prefixlen or 1)
            kind = type(outer)
            networks.append(str(kind((min(base, 2**outer.max_prefixlen - 1), length), strict=False)))
        elif drawn.random() < 0.6:
            networks.append(str(ipaddress.IPv4Network((drawn.getrandbits(32), drawn.randint(8, 32)), strict=False)))
        else:
            networks.append(str(ipaddress.IPv6Network((drawn.getrandbits(128), drawn.randint(16, 128)), strict=False)))
    return networks


def drawn_addresses(networks, count, seed):
    drawn = Random(seed)
    made = []
    for _ in range(count):
        inside = ipaddress.ip_network(drawn.choice(networks))
        free = inside.max_prefixlen - inside.prefixlen
        number = int(inside.network_address) | (drawn.getrandbits(free) if free else 0)
        if drawn.random() < 0.2:
            number = drawn.getrandbits(inside.max_prefixlen)
        four = inside.version == 4
        made.append(str(ipaddress.IPv4Address(number) if four else ipaddress.IPv6Address(number)))
    return made


def in_duckdb(networks, addresses):
    """The longest networks around each address, by numbers that Python's ipaddress gives."""
    spans = [(n, net.version, int(net.network_address), int(net.broadcast_address), net.prefixlen)
             for n, net in enumerate(map(ipaddress.ip_network, networks))]  # fmt: skip
    probes = [(n, each.version, int(each)) for n, each in enumerate(map(ipaddress.ip_address, addresses))]
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as one, tempfile.NamedTemporaryFile("w", suffix=".csv") as two:
        for file, rows in ((one, spans), (two, probes)):
            file.writelines(",".join(map(str, row)) + "\n" for row in rows)
            file.flush()
        with duckdb.connect() as database:
            rows = database.execute(f"""
                WITH nets AS (SELECT * FROM read_csv('{one.name}', header=false, columns={{'n': 'BIGINT',
                              'v': 'INT', 'low': 'UHUGEINT', 'high': 'UHUGEINT', 'prefix': 'INT'}})),
                     asked AS (SELECT * FROM read_csv('{two.name}', header=false,
                               columns={{'n': 'BIGINT', 'v': 'INT', 'at': 'UHUGEINT'}})),
                     met AS (SELECT asked.n AS a, nets.n AS b, rank() OVER (PARTITION BY asked.n ORDER BY prefix DESC)
                             AS place FROM asked JOIN nets ON asked.v = nets.v AND asked.at BETWEEN low AND high)
                SELECT a, list(b ORDER BY b) FROM met WHERE place = 1 GROUP BY a""").fetchall()
    return dict(rows)


def test_addresses_should_find_the_networks_that_duckdb_finds():
    networks = drawn_networks(3000, 1)
    addresses = drawn_addresses(networks, 3000, 2)
    wanted = in_duckdb(networks, addresses)
    table = pa.table({"cidr": networks, "n": range(len(networks))})
    made = found(table, [Network("cidr")], [pa.array(addresses)])
    assert made == [wanted.get(n, []) for n in range(len(addresses))]
    assert 2000 < len(wanted) < 3000


ODD = ["::ffff:10.1.2.3", "::FFFF:0A01:0203", " 10.1.2.3 ", "10.1.2.3.", "010.1.2.3", "10.1.2", "10.1.2.3/32", "", None,
       "2001:DB8::1", "2001:0db8:0:0::1", "fe80::1%eth0", "10.1.2.3\0", "größe", "::1", "1::2::3"]  # fmt: skip


def test_odd_addresses_should_find_what_they_mean_or_nothing():
    networks = ["10.0.0.0/8", "::ffff:10.1.0.0/112", "2001:db8::/32", "::/0", "0.0.0.0/0", "10.1.2.3"]
    table = pa.table({"cidr": networks, "n": range(len(networks))})
    made = found(table, [Network("cidr")], [pa.array(ODD, pa.string())])
    shown = dict(zip(ODD, made, strict=True))
    ten = [[5]] * 3
    assert [shown[each] for each in ODD[:3]] == ten
    assert [shown[each] for each in ("2001:DB8::1", "2001:0db8:0:0::1", "::1")] == [[2], [2], [3]]
    others = set(ODD) - set(ODD[:3]) - {"2001:DB8::1", "2001:0db8:0:0::1", "::1"}
    assert all(shown[each] == [] for each in others)
    four = found(table.slice(0, 5), [Network("cidr")], [pa.array(["10.1.9.9", "10.2.0.0", "11.0.0.0"])])
    assert four == [[1], [0], [4]]


BAD = [
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/",
    "10.0.0.0/255.0.0.0",
    "10.0.0/8",
    "10.0.0.0/" + "1" * 5000,
    "2001:db8::/129",
    "x",
    "",
    "/8",
]


def test_bad_networks_should_match_nothing_and_be_said():
    table = pa.table({"cidr": [*BAD, None, "10.1.2.3/8"], "n": range(len(BAD) + 2)})
    assert found(table, [Network("cidr")], [pa.array(["10.0.0.0", "10.9.9.9"])]) == [[len(BAD) + 1]] * 2
    assert unusable(table, [Network("cidr")]) == f"{len(BAD)} of its rows have no network, first '10.0.0.0/33'"


def test_empty_and_crossing_intervals_should_be_said():
    table = pa.table({"k": ["a", "a", "b", "a"], "low": [1.0, 3, 2, 9], "high": [4.0, 6, 5, math.nan]})
    keys = ["k", Range("low", "high")]
    assert unusable(table, keys) == "1 of its rows has an empty interval, 9.0 to nan"
    assert crossing(table, keys) == "1.0 to 4.0 and 3.0 to 6.0"
    assert crossing(table.slice(1, 2), keys) is None
    touching = pa.table({"low": [1, 3], "high": [3, None]})
    assert crossing(touching, [Range("low", "high")]) is None
    assert crossing(touching, [Range("low", "high", closed=True)]) == "1 to 3 and 3 to open"


LOGS = "ip string, who string, ms bigint, at timestamp"


def logs(job="ranges"):
    return StreamBuilder.data_stream("test", job).from_file("in.jsonl", schema=LOGS)


def written(path, rows):
    hidden = path.with_suffix(".new")
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(path)
    return path


def test_a_stream_is_joined_by_networks_and_by_intervals_of_a_key(driver, tmp_path):
    """A version that is replaced while the pipeline runs, and rows that are left out."""
    nets = tmp_path / "nets.jsonl"
    feed = Dimension.from_file(written(nets, [{"cidr": "10.0.0.0/8", "zone": "ten"}, {"cidr": "10/8", "zone": "no"}]),
                               schema="cidr string, zone string")  # fmt: skip
    prices = [("ann", 0, 10, "low"), ("ann", 10, None, "high"), ("bob", None, 5, "few")]
    rows = [dict(zip(("who", "least", "most", "price"), each, strict=True)) for each in prices]
    tariffs = Dimension.from_loader(lambda: rows, schema="who string, least int, most int, price string")
    stream = logs().dim_left_join(feed, on={"ip": Network("cidr")}, name="feed")
    stream = stream.dim_left_join(tariffs, on={"who": "who", "ms": Range("least", "most")}, name="tariff", prefix="t_")
    pipeline = stream.to_print().build()
    with PipelineDriver(pipeline, spark=driver) as running:
        running.push([{"ip": "10.1.1.1", "who": "ann", "ms": 9}, {"ip": "::ffff:10.0.0.1", "who": "ann", "ms": 10}])
        running.push([{"ip": "9.1.1.1", "who": "bob", "ms": 5}, {"ip": None, "who": "bob", "ms": -3}])
        running.step()
        first = sorted((row["ms"], row["zone"], row["t_price"]) for row in running.take())
        written(nets, [{"cidr": "10.1.0.0/16", "zone": "one"}, {"cidr": "9.1.1.1/32", "zone": "nine"}])
        assert "1 of its rows has no network, '10/8'" in str(running.report().warnings)
        running.reload("feed")
        assert not running.report().warnings
        running.push([{"ip": "10.1.1.1", "who": "eve", "ms": 9}, {"ip": "9.1.1.1", "who": "ann", "ms": None}])
        running.step()
        second = [(row["zone"], row["cidr"], row["t_price"]) for row in running.take()]
    assert first == [(-3, None, "few"), (5, None, None), (9, "ten", "low"), (10, "ten", "high")]
    assert second == [("one", "10.1.0.0/16", None), ("nine", "9.1.1.1/32", None)]


def test_times_are_found_in_intervals_and_what_is_bad_is_reported(options):
    rows = [{"since": datetime(2024, 1, n, tzinfo=UTC), "until": datetime(2024, 1, n + 2, tzinfo=UTC), "v": n}
            for n in (1, 2, 9)] + [{"since": DAY, "until": DAY, "v": 0}]  # fmt: skip
    feed = Dimension.from_loader(lambda: rows, schema="since timestamp, until timestamp, v int")
    channel = MemoryChannel()
    hours = ((1, 0), (2, 0), (3, 23), (4, 0), (9, 1))
    asked = [{"at": datetime(2024, 1, day, hour, tzinfo=UTC)} for day, hour in hours]
    stream = StreamBuilder.data_stream("test", "times").from_array(asked, schema="at timestamp")
    joined = stream.dim_join(feed, on={"at": Range("since", "until")}, name="when")
    report = joined.to_memory(channel).build().run(options)
    assert sorted((row["at"].day, row["v"]) for row in channel.take()) == [(1, 1), (2, 2), (3, 2), (9, 9)]
    said = "\n".join(report.warnings)
    assert "1 of its rows has an empty interval" in said
    assert "overlap, and neither contains the other: the narrower one is found" in said


@pytest.mark.parametrize(("on", "schema", "why"), [
    ({"ip": Network("cidr"), "ms": Range("a", "b")}, "cidr string, a int, b int", "2 keys that contain values"),
    ({"ms": Network("cidr")}, "cidr string", "addresses and networks are texts"),
    ({"ip": Range("a", "b")}, "a int, b int", "intervals are of numbers or times"),
    ({"at": Range("a", "b")}, "a int, b int", "cannot look for 'at', which is a timestamp, in 'a'"),
    ({"ms": Range("ms", "b")}, "ms int, b int", "would replace 'ms', which it looks up"),
])  # fmt: skip
def test_keys_that_cannot_contain_a_value_are_refused_when_it_is_built(on, schema, why):
    feed = Dimension.from_file("/data/feed.jsonl", schema=schema)
    with pytest.raises(TopologyError, match=why):
        logs().dim_join(feed, on=on).to_print().build()
    with pytest.raises(UnknownFieldError):
        logs().dim_join(feed, on={"nope": Network("x")}).to_print().build()


def test_remedies_of_keys_that_contain_values_are_taken(options, tmp_path):
    """Each of the refused pipelines above, and of the reports, with what its remedy says."""
    feed = Dimension.from_loader(lambda: [{"cidr": "7.0.0.0/8", "a": 1, "b": 9, "ms": 5}],
                                 schema="cidr string, a int, b int, ms int")  # fmt: skip
    rows = [{"ip": "7.1.1.1", "ms": 7, "at": DAY}]
    stream = StreamBuilder.data_stream("test", "remedies").from_array(rows, schema=LOGS)
    net = {"ip": Network("cidr")}
    made = [
        stream.dim_join(feed, on=net, prefix="x_").dim_join(feed, on={"ms": Range("a", "b")}, prefix="y_"),
        stream.dim_join(feed, on=net, condition="left.ms >= a AND left.ms < b", prefix="x_"),
        stream.with_fields(ip="cast(ip as string)").dim_join(feed, on=net, prefix="x_"),
        stream.with_fields(ip="cast(1 as bigint)").dim_join(feed, on={"ip": Range("a", "b")}, prefix="x_"),
        stream.with_fields(at="cast(3 as int)").dim_join(feed, on={"at": Range("a", "b")}, prefix="x_"),
        stream.dim_join(feed, on={"ms": Range("ms", "b")}, prefix="dim_"),
    ]
    channel = MemoryChannel()
    for number, each in enumerate(made):
        each.to_memory(channel, name=f"m{number}")
    report = stream.build().run(options)
    assert len(channel.take()) == len(made)
    assert not report.warnings


def test_every_address_that_the_system_reads_is_read_as_it_does():
    drawn = Random(5)
    texts = ["".join(drawn.choices("0129af.:", k=drawn.randint(1, 14))) for _ in range(20_000)]

    def system(text):
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                return socket.inet_pton(family, text)
            except OSError:
                continue
        return None

    table = pa.table({"cidr": ["0.0.0.0/0", "::/0"], "n": [4, 16]})
    made = found(table, [Network("cidr")], [pa.array(texts)])
    mapped = b"\0" * 10 + b"\xff\xff"
    read = [system(text) for text in texts]
    wanted = [[] if one is None else [4 if len(one) == 4 or one[:12] == mapped else 16] for one in read]
    assert made == wanted
    assert sum(map(bool, wanted)) > 100

"""The index of a dimension against a plain model, without Spark."""

import math
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rs_assets.operators.dimension.hashing import LONG_BYTES, fingerprints
from rs_assets.operators.dimension.index import Index, build_index
from rs_assets.operators.dimension.packing import packed, unpacked
from rs_assets.operators.dimension.versions import VersionStore

LONG = "x" * LONG_BYTES
VALUES = {
    pa.string(): ["", "a", "b", "größe", "日本", "a" * 9, LONG, LONG + "a", LONG + "b", "\0", "\0\0"],
    pa.binary(): [b"", b"\0", b"\0\0", b"a", b"\xff" * 8, b"\xff" * 9],
    pa.int32(): [0, 1, -1, 2**31 - 1, -(2**31)],
    pa.int64(): [0, 1, -1, 2**53 + 1, 2**53, 2**63 - 1, -(2**63)],
    pa.float64(): [0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, 5e-324],
    pa.decimal128(38, 3): [Decimal("1.500"), Decimal(-1), Decimal(2**64), Decimal("1e30")],
    pa.date32(): [date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime(1960, 1, 1, 0, 0, 0, 1, UTC), datetime(1970, 1, 1, tzinfo=UTC)],
    pa.bool_(): [True, False],
}


def plain(value):
    """A key as Python compares it; None for one that equals nothing."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return None if value == "" else value


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_each_key_should_find_its_rows_in_their_order(data):
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    key = st.tuples(*(st.none() | st.sampled_from(VALUES[kind]) for kind in kinds))
    rows, asked = data.draw(st.lists(key, max_size=60)), data.draw(st.lists(key, min_size=1, max_size=20))
    names = [f"k{n}" for n in range(len(kinds))]
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)]
    table = pa.table([*columns, pa.array(range(len(rows)), pa.int64())], names=[*names, "v"])
    with tempfile.TemporaryDirectory() as folder:
        build_index(table, names, Path(folder))
        index = Index.open(Path(folder), names)
        # A slice has an offset into its buffers.
        probes = [pa.array([None, *(each[n] for each in asked)], kind).slice(1) for n, kind in enumerate(kinds)]
        ends, found = index.find(probes)
        values = index.values("v", found).to_pylist()
    for number, probe in enumerate(asked):
        wanted = [plain(part) for part in probe]
        same = [n for n, row in enumerate(rows) if None not in wanted and [plain(part) for part in row] == wanted]
        assert values[ends[number] : ends[number + 1]] == same


TEXTS = st.one_of(
    st.lists(st.text("0123456789abcdef", min_size=4, max_size=4), min_size=1, max_size=40),
    st.lists(st.none() | st.sampled_from(["gold", "silber", "größe", ""]), min_size=1, max_size=200),
    st.lists(st.sampled_from(["00FF", "日1", "00ff", "xyz1"]), min_size=1, max_size=40),
    st.lists(st.none() | st.text(max_size=5), min_size=1, max_size=40),
)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]), st.data())
def test_values_come_out_of_their_packing_as_they_were(texts, kind, data):
    values = [t if t is None or "string" in str(kind) else t.encode() for t in texts]
    column, field = packed(pa.array([values[0], *values], kind).slice(1), "k")
    places = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=20))
    back = unpacked(column.take(pa.array(places, pa.int64())), field)
    assert back.type == kind
    assert back.to_pylist() == [values[place] for place in places]


def test_what_has_one_length_or_few_values_takes_less_room():
    ids = pa.array([f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(1000)])
    assert packed(ids, "id")[0].nbytes == 8 * len(ids)
    assert packed(pa.array([f"ß{n:04}" for n in range(1000)]), "id")[0].nbytes == 6 * len(ids)
    assert packed(pa.array(["gold", "silber"] * 500), "tier")[0].nbytes < 2 * len(ids)


def test_keys_of_one_fingerprint_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.setattr("rs_assets.operators.dimension.index.fingerprints", lambda keys: fingerprints(keys) * 0 + 7)
    keys = [f"k{n}" for n in range(50)] * 2
    build_index(pa.table({"k": keys, "v": range(100)}), ["k"], tmp_path)
    index = Index.open(tmp_path, ["k"])
    ends, found = index.find([pa.array(["k3", "none", "k49"])])
    assert (ends.tolist(), index.values("v", found).to_pylist()) == ([0, 2, 2, 4], [3, 53, 49, 99])


def test_whole_numbers_of_any_width_are_equal(tmp_path):
    build_index(pa.table({"k": pa.array([-1, 5], pa.int16()), "v": ["a", "b"]}), ["k"], tmp_path)
    index = Index.open(tmp_path, ["k"])
    ends, found = index.find([pa.array([5, 2**40 + 5, -1], pa.int64())])
    assert (ends.tolist(), index.values("v", found).to_pylist()) == ([0, 1, 1, 2], ["b", "a"])


def test_the_same_rows_are_no_new_version_and_what_nobody_needs_goes(tmp_path):
    store = VersionStore(tmp_path / "users")
    one = store.add(pa.table({"k": ["a"], "v": [1]}), ["k"])
    assert store.add(pa.table({"k": ["a"], "v": [1]}), ["k"]) == one
    two = store.add(pa.table({"k": ["a"], "v": [2]}), ["k"])
    back = store.add(pa.table({"k": ["a"], "v": [1]}), ["k"])
    assert [two.number, back.number, back.digest] == [2, 3, one.digest]
    assert store.newest(one.shape, "") == back
    assert store.newest(one.shape, "elsewhere") is store.newest("k string by k", "") is None
    assert store.prune({two.name}) == (one.name, back.name)
    assert store.newest(one.shape, "") == two == store.named(two.name)


@pytest.mark.parametrize("file", ["rows.arrow", "buckets.npy", "version.json"])
def test_a_version_that_is_damaged_is_none(tmp_path, file):
    store = VersionStore(tmp_path)
    version = store.add(pa.table({"k": ["a"]}), ["k"])
    (tmp_path / version.name / file).write_bytes(b"{")
    assert store.named(version.name) is store.newest(version.shape, "") is None


def test_a_load_that_is_killed_leaves_nothing(tmp_path, monkeypatch):
    store = VersionStore(tmp_path)
    first = store.add(pa.table({"k": ["a"]}), ["k"])

    def killed(table, keys, folder):
        (folder / "rows.arrow").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("rs_assets.operators.dimension.versions.build", killed)
    monkeypatch.setattr("rs_assets.operators.dimension.versions.shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        store.add(pa.table({"k": ["b"]}), ["k"])
    monkeypatch.undo()
    assert store.newest(first.shape, "") == first
    store.sweep()
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_versions_have_an_order_however_many_there_were(tmp_path):
    store = VersionStore(tmp_path)
    (tmp_path / "v-by-hand").mkdir()
    (tmp_path / "v999999-0123456789ab").mkdir()
    made = [store.add(pa.table({"k": ["a"], "v": [n]}), ["k"]) for n in range(2)]
    assert [version.number for version in made] == [1_000_000, 1_000_001]
    assert store.newest(made[0].shape, "") == made[1]
    assert store.prune({made[1].name}) == ("v999999-0123456789ab", made[0].name)

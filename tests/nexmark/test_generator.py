"""Nexmark's events: the same bytes every time, and as the benchmark describes them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pytest

from pipelines.nexmark.chance import DRAWS, Chance
from pipelines.nexmark.generator import Settings, lines, write

KINDS = ("persons", "auctions", "bids")
SMALL = Settings(events=20_000, files=3, disorder=100)


def read(kind: str, settings: Settings) -> list[dict]:
    return [orjson.loads(line) for file in range(settings.files) for line in lines(kind, file, settings)]


def times(rows: list[dict]) -> list[datetime]:
    return [datetime.fromisoformat(row["date_time"]) for row in rows]


def test_the_same_settings_write_the_same_bytes(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, SMALL) for name in ("a", "b"))
    files = sorted(path.relative_to(one) for path in one.rglob("*.*"))
    assert [str(path) for path in files] == [
        *(f"{kind}/part-{number:05}.jsonl" for kind in sorted(KINDS) for number in range(3)), "side_input.csv",
    ]  # fmt: skip
    for path in files:
        assert (one / path).read_bytes() == (two / path).read_bytes()
    assert sum(len((one / path).read_bytes().splitlines()) for path in files[:-1]) == 20_000
    with pytest.raises(FileExistsError):
        write(one, SMALL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_first_bid_is_known() -> None:
    """Whoever changes the generator changes what others measured with it."""
    assert read("bids", Settings(events=50))[0] == {
        "auction": 1006,
        "bidder": 1001,
        "price": 340,
        "channel": "channel-2817",
        "url": "https://www.nexmark.com/cnpr/ljzh/wtqb/item.htm?query=1&channel_id=22307823",
        "date_time": "2026-01-05T09:30:00.004Z",
        "extra": "bjqsyannmhnzphpajewhgzqjsqfbqixqoqzrnhkywxclmiewtzbjocezlyqpgplmtybjovgivrebmh",
    }


def test_events_do_not_depend_on_how_they_are_cut_or_on_their_order() -> None:
    whole = Settings(events=5_000, files=1)
    for kind in KINDS:
        expected = read(kind, whole)
        assert read(kind, Settings(events=5_000, files=7)) == expected
        mixed = read(kind, Settings(events=5_000, files=7, disorder=500))
        assert mixed != expected
        assert sorted(mixed, key=orjson.dumps) == sorted(expected, key=orjson.dumps)


def test_another_seed_makes_other_events() -> None:
    assert read("bids", Settings(events=100)) != read("bids", Settings(events=100, seed=1))


@pytest.mark.parametrize("disorder", [1, 100])
def test_events_come_in_order_but_for_their_groups(disorder: int) -> None:
    settings = Settings(events=20_030, disorder=disorder)
    seen = times(read("bids", settings))
    steps = [two - one for one, two in pairwise(seen)]
    assert (min(steps) < timedelta(0)) == (disorder > 1)
    assert min(steps) > -timedelta(milliseconds=disorder)
    assert settings.start <= min(seen) < max(seen) < settings.start + settings.span


def test_shares_and_hot_ones_are_as_published() -> None:
    rows = {kind: read(kind, SMALL) for kind in KINDS}
    assert [len(rows[kind]) for kind in KINDS] == [400, 1_200, 18_400]
    for kind in ("persons", "auctions"):
        ids = [row["id"] for row in rows[kind]]
        assert sorted(ids) == list(range(1_000, 1_000 + len(ids)))
    hot = sum(row["auction"] % 100 == 0 for row in rows["bids"]) / 18_400
    assert hot == pytest.approx(0.5 + 0.5 / 110, abs=0.02)
    sellers = sum(row["seller"] % 100 == 0 for row in rows["auctions"]) / 1_200
    bidders = sum(row["bidder"] % 100 == 1 for row in rows["bids"]) / 18_400
    assert (sellers, bidders) == (pytest.approx(0.75, abs=0.04), pytest.approx(0.75, abs=0.02))
    channels = Counter(row["channel"] for row in rows["bids"])
    assert sum(channels[name] for name in ("Google", "Apple", "Facebook", "Baidu")) / 18_400 == pytest.approx(
        0.5, abs=0.02
    )
    assert {row["category"] for row in rows["auctions"]} == set(range(10, 15))
    assert 100 <= min(row["price"] for row in rows["bids"]) < max(row["price"] for row in rows["bids"]) <= 10**8
    median = sorted(row["price"] for row in rows["bids"])[9_200]
    assert 80_000 < median < 125_000
    assert all(row["reserve"] > row["initial_bid"] for row in rows["auctions"])


def test_auctions_are_open_for_less_than_the_longest() -> None:
    settings = Settings(events=20_000, rate=200)
    open_ = [
        datetime.fromisoformat(row["expires"]) - datetime.fromisoformat(row["date_time"])
        for row in read("auctions", settings)
    ]
    assert timedelta(0) < min(open_) < max(open_) <= settings.longest_auction
    assert sum(open_, timedelta(0)) / len(open_) == pytest.approx(settings.horizon, rel=0.05)


def test_some_bids_come_before_their_auction() -> None:
    auctions = {row["id"]: at for row, at in zip(read("auctions", SMALL), times(read("auctions", SMALL)), strict=True)}
    bids = read("bids", SMALL)
    early = [row for row, at in zip(bids, times(bids), strict=True) if at < auctions.get(row["auction"], at)]
    assert 0 < len(early) < len(bids) / 10


def test_chance_is_even_and_has_an_end() -> None:
    chance = Chance(1, np.arange(10_000))
    for _ in range(3):
        assert abs(chance.unit().mean() - 0.5) < 0.02
    bounds = np.arange(10_000) + 1
    assert (chance.below(bounds) < bounds).all()
    for _ in range(DRAWS - 5):
        chance.unit()
    with pytest.raises(ValueError, match="fewer than"):
        chance.unit()


def test_settings_make_events() -> None:
    with pytest.raises(ValueError, match="are positive"):
        Settings(events=0)


def test_the_command_writes_once(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    command = [sys.executable, "-m", "pipelines.nexmark.generator", str(folder)]
    for events in ("500", "900"):
        subprocess.run([*command, events], cwd=Path(__file__).parents[2], check=True)
    assert len(list(folder.rglob("*.jsonl"))) == 24
    assert sum(len(path.read_bytes().splitlines()) for path in folder.rglob("*.jsonl")) == 500
    assert datetime.fromisoformat(read("bids", Settings(events=500))[0]["date_time"]).tzinfo == UTC

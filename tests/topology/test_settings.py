"""`Topology.code` has every setting but those of which the table says why not, and is the same in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rs_assets import KafkaCluster, StreamBuilder
from rs_assets.checkpoint.manifest import QueryFacts
from rs_assets.runtime.identity import stored_shape
from rs_assets.stream.data_stream import DataStream
from rs_assets.topology.nodes.shuffle import ShuffleRead, ShuffleWrite
from rs_assets.topology.shape import Shape, changes, shape_of
from rs_assets.topology.user_code.settings import settings_text
from tests.topology.code_pipelines import (
    MINUTE,
    Count,
    Double,
    Largest,
    Smallest,
    begin,
    built,
    digests,
    doubled,
    kafka,
    longer,
    pipelines,
    processed,
    reduced,
    shorter,
    totals,
    tripled,
    windows,
)
from tests.topology.settings import COUNTS, REASONS, TABLE, decided, settings

ROOT = Path(__file__).parents[2]
SETTINGS, DECIDED = settings(), decided()


def test_of_each_setting_it_is_decided_whether_it_counts() -> None:
    added, gone = sorted(SETTINGS.keys() - DECIDED.keys()), sorted(DECIDED.keys() - SETTINGS.keys())
    assert not added, f"python -m tests.topology.settings, and decide in {TABLE.name}: {added}"
    assert not gone
    assert {*DECIDED.values()} <= {COUNTS, *REASONS}


def test_what_is_decided_of_a_setting_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    for (declaring, name), kind in SETTINGS.items():
        if hasattr(kind, "identity"):
            # What it adds is no field.
            monkeypatch.setattr(kind, "identity", lambda _: "")
        counts = settings_text(_filled(kind)) != settings_text(_filled(kind, **{name: "other"}))
        assert counts == (DECIDED[declaring, name] == COUNTS), (declaring, name)


def _filled(kind: Any, /, **given: str) -> Any:
    """An object with texts in all its fields."""
    made = object.__new__(kind)
    for each in fields(kind):
        object.__setattr__(made, each.name, given.get(each.name, "one"))
    return made


@pytest.mark.canary
def test_the_code_is_the_same_in_every_process_and_as_a_script(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.topology.code_pipelines"]
    processes = [
        subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, text=True,
        )
        for seed in "12"
    ]  # fmt: skip
    assert {process.communicate()[0].strip() for process in processes} == {digests()}


READ_IN_ANOTHER_WAY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "times": ({}, {"time_format": "dd/MM/yyyy"}),
    "header": ({"format": "csv"}, {"format": "csv", "header": False}),
    "bad records": ({}, {"bad_records": "dead_letter"}),
}


@pytest.mark.parametrize("case", READ_IN_ANOTHER_WAY)
def test_how_a_source_reads_counts(case: str) -> None:
    one, other = (built(begin(**settings)).code for settings in READ_IN_ANOTHER_WAY[case])
    assert one != other


def test_the_bounds_of_event_times_count() -> None:
    since = begin().window(MINUTE).count("n").event_time(earliest=datetime(2020, 1, 1, tzinfo=UTC))
    assert built(since.to_data_stream()).code != built(begin().window(MINUTE).count("n").to_data_stream()).code


OTHER_CODE: dict[str, tuple[Any, Any]] = {
    "reduce": (reduced(longer), reduced(shorter)),
    "merge": (reduced(longer, merge=max), reduced(longer, merge=min)),
    "accumulator": (reduced(Largest()), reduced(Smallest())),
    "processor": (processed(Count), processed(Double)),
    "values of a table": (totals(doubled).to_stream(), totals(tripled).to_stream()),
    "spaces in a text": (begin().filter("page = 'a  b'"), begin().filter("page = 'a b'")),
}


@pytest.mark.parametrize("case", OTHER_CODE)
def test_functions_and_classes_inside_of_a_step_count(case: str) -> None:
    one, other = OTHER_CODE[case]
    assert built(one).code != built(other).code
    assert built(one).code == built(one).code


def test_what_a_run_sets_and_secrets_do_not_count() -> None:
    topology = pipelines()["shuffled"]
    ends = (ShuffleRead, ShuffleWrite)
    nodes = (replace(n, place="p", folder="/home/g0001") if isinstance(n, ends) else n for n in topology)
    assert replace(topology, nodes=tuple(nodes)).code == topology.code
    login = {"bootstrap_servers": "broker:9092", "username": "me", "protocol": "SASL_SSL"}
    one, other = (KafkaCluster(**login, password=password) for password in "ab")
    assert built(kafka(bootstrap_servers=one)).code == built(kafka(bootstrap_servers=other)).code
    assert "'me'" not in settings_text(built(kafka(bootstrap_servers=one)).sources)


def state_of(stream: DataStream) -> Shape:
    return shape_of(built(windows(stream)), "window")


REFUSED: dict[str, tuple[Shape, Shape]] = {
    "tombstones": (state_of(kafka(tombstones="keep")), state_of(kafka())),
    "aborted transactions": (state_of(kafka()), state_of(kafka(isolation="read_uncommitted"))),
    "times": (state_of(begin()), state_of(begin(time_format="dd/MM/yyyy"))),
    "header": (state_of(begin(format="csv")), state_of(begin(format="csv", header=False))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_state_of_records_that_were_read_in_another_way_is_refused(case: str) -> None:
    one, other = REFUSED[case]
    for was, now in ((one, other), (other, one)):
        assert len(changes(was, now)) == 2
        assert changes(_of_earlier_releases(was), now) == ()
        assert changes(was, was) == ()


def _of_earlier_releases(shape: Shape) -> Shape:
    stored = tuple({name: value for name, value in asdict(node).items() if name != "reading"} for node in shape)
    return stored_shape(QueryFacts(generation=1, shape=stored))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (kafka(tombstones="bad"), kafka()),
        (kafka(on_data_loss="continue"), kafka()),
        (kafka(bad_records="dead_letter"), kafka()),
        (kafka(bootstrap_servers="other:9092"), kafka()),
        (begin(bad_records="skip"), begin()),
        (begin(header=False), begin()),
    ],
)
def test_state_is_kept_where_the_same_records_make_the_same_rows(one: DataStream, other: DataStream) -> None:
    assert changes(state_of(one), state_of(other)) == ()


def test_state_above_which_a_function_makes_the_rows_of_a_table_is_refused_with_another_one() -> None:
    was, now = (shape_of(built(totals(function).to_stream()), "totals") for function in (doubled, tripled))
    assert len(changes(was, now)) == 2
    told = re.compile("~[0-9a-f]{16}")
    earlier = tuple(replace(node, identity=tuple(told.sub("", text) for text in node.identity)) for node in was)
    assert earlier != was
    assert changes(was, was) == changes(earlier, now) == ()


def test_rows_of_a_join_with_other_names_are_refused_over_state() -> None:
    for kind in ("stream", "table", "stream with a table"):
        was, now, other = (_joined(kind, prefix) for prefix in ("a_", "b_", None))
        assert len(changes(was, now)) == len(changes(was, other)) == 2
        assert changes(was, was) == changes(other, other) == changes(_of_earlier_releases(was), now) == ()


def _joined(kind: str, prefix: str | None) -> Shape:
    """The shape of a join whose sides have other names, so that it needs no prefix."""
    begun = StreamBuilder.data_stream("shop", "code")
    left = begun.from_file("in.jsonl", schema="page string, ms bigint, ts timestamp", name="left")
    right = begun.from_file("other.jsonl", schema="p string, m bigint, ts timestamp", name="right")
    if kind == "stream":
        within = timedelta(minutes=1)
        made = left.join(right, on={"page": "p"}, within=within, time_field="ts", prefix=prefix, name="join")
        return shape_of(built(made), "join")
    table = right.select_fields("p", "m").to_table("p", order_by="m", name="prices")
    if kind == "table":
        both = left.to_table("page", order_by="ms", name="pages").join(table, prefix=prefix, name="join")
        return shape_of(built(both.to_stream()), "join")
    return shape_of(built(left.join_table(table, on={"page": "p"}, prefix=prefix, name="join")), "join")

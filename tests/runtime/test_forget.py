"""Forget: no file of the home has the key any more, whatever ended it in between, and the pipeline goes on."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from rs_assets import EventTimePartitions, Home, MemoryChannel, RsError, StreamBuilder, Time, TumblingWindow
from rs_assets.catalog.forgotten import digest_of
from rs_assets.catalog.ledger import Ledger
from rs_assets.checkpoint.log import CheckpointLog
from rs_assets.connectors.dead_letters import dead_letters_of
from rs_assets.connectors.delta.forgetting import TableErasure
from rs_assets.errors import CheckpointError, ConfigurationError, PipelineBusyError
from rs_assets.recovery import forget_marker
from rs_assets.runtime.forget import state
from rs_assets.runtime.forget.state import QueryState
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.runtime.upkeep import beside
from rs_assets.runtime.upkeep.savepoints import rewind, savepoint, savepoints_of
from rs_assets.runtime.upkeep.state import snapshot_state
from rs_assets.stream.pipeline import Pipeline

KEY, OTHER = "zq17zq", "ann"
SCHEMA = "user string, city string, ms bigint, ts timestamp"


def row(user: str, second: int, ms: int = 1) -> dict[str, Any]:
    return {"user": user, "city": "rome", "ms": ms, "ts": f"2026-01-05 10:00:{second:02d}"}


def made(source: MemoryChannel) -> Pipeline:
    """Rows, windows of each user, and windows of each city."""
    read = StreamBuilder.data_stream("gone", "visits").from_memory(source, name="read")
    usual = read.expect("ms >= 0", on_fail="dead_letter", name="usual")
    usual.to_delta("visits", name="out")
    minutes = TumblingWindow.of(Time.minutes(1), "ts")
    usual.window(minutes, name="of_city").group_by("city").count("n").to_delta("of_city")
    made: Pipeline = usual.window(minutes, name="of_user").group_by("user").count("n").to_delta("of_user").build()
    return made


def holding(folder: Path, text: str = KEY) -> list[str]:
    """The files with a text: Parquet in any column, archives in any member, all others in their bytes."""
    found = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.suffix == ".parquet":
            content = str(pq.ParquetFile(file).read().to_pylist()).encode()
        elif zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                content = b"".join(archive.read(name) for name in archive.namelist())
        else:
            content = file.read_bytes()
        found += [str(file.relative_to(folder))] if text.encode() in content else []
    return found


def table(options: RunOptions, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(options.home.table("gone", name)).to_pyarrow_table().to_pylist()
    return found


@pytest.fixture
def source() -> MemoryChannel:
    return MemoryChannel(schema=SCHEMA)


@pytest.fixture
def visits(source: MemoryChannel, options: RunOptions) -> Pipeline:
    """A pipeline with rows, open windows and dead letters of the key."""
    pipeline = made(source)
    source.put(row(KEY, 1), row(OTHER, 2), row(KEY, 3, ms=-1), row(OTHER, 4, ms=-1))
    pipeline.run(options)
    source.put(row(KEY, 5), row(OTHER, 6))
    pipeline.run(options)
    return pipeline


def test_forget_leaves_no_file_of_the_home_with_the_key(
    visits: Pipeline, source: MemoryChannel, options: RunOptions
) -> None:
    root = options.home.root
    savepoint(visits.topology, options)
    snapshot_state(visits.topology, options)
    # As a rescale that was killed leaves them.
    job = options.home.job("gone", "visits")
    shutil.copytree(job / "g0001", job / beside.FOLDER / "g0001")
    before = holding(root)
    for place in ("tables/gone/visits/", "catalog/dead_letters/", "checkpoints/", "savepoints/", "state/", "served/"):
        assert any(file.startswith(place) for file in before), (place, before)
    with pytest.raises(ConfigurationError, match="1 savepoint of gone.visits may have the keys") as refused:
        visits.forget({"user": KEY}, options)
    assert "--savepoints remove" in refused.value.remedy

    planned = visits.forget({"user": KEY}, options, plan=True)
    assert (planned.complete, planned.entry, holding(root)) == (False, None, before)
    done = visits.forget({"user": KEY}, options, savepoints="remove")
    assert [str(each) for each in done.places if each.left] == []
    assert (done.complete, holding(root)) == (True, [])
    rows = {(each.place, each.name): each.rows for each in done.places if each.rows}
    assert rows[("output", "out")] == 2
    assert rows[("dead letters", "")] == 1
    assert rows[("state", "of_user")] == 1
    said = [str(each) for each in done.elsewhere]
    assert any(each.startswith("source read") for each in said)
    assert any(each.startswith("state of_city: what it has computed by city still contains") for each in said)

    assert [query.found for query in visits.verify(options)] == [()] * 3
    with pytest.raises(CheckpointError, match="cannot be rewound"):
        rewind(visits.topology, 0, options, step="of_user")
    assert [
        letter["record"] for letter in dead_letters_of(options.home.dead_letters, "gone", "visits").to_pylist()
    ] != []
    source.put(row(OTHER, 7), {**row(OTHER, 1), "ts": "2026-01-05 10:05:00"})
    visits.run(options)
    assert [(each["user"], each["n"]) for each in table(options, "of_user")] == [(OTHER, 3)]
    assert [(each["city"], each["n"]) for each in table(options, "of_city")] == [("rome", 5)]
    assert {each["user"] for each in table(options, "visits")} == {OTHER}

    ledger = Ledger(options.home.catalog, visits.name)
    (entry,) = ledger.entries()
    noted = json.loads(entry["forgotten"])
    assert (ledger.first_break(), entry["kind"], noted["complete"]) == ("", "forget", True)
    assert noted["digests"] == {"user": [digest_of(noted["salt"], "user", KEY)]}
    # A new batch can be gone back to.
    assert "to batch" in rewind(visits.topology, visits_batch(visits, options), options, step="of_user")


def visits_batch(pipeline: Pipeline, options: RunOptions) -> int:
    """The last batch of the query with the windows of users."""
    (log,) = options.home.job("gone", "visits").glob("g*/of_user/checkpoint")
    return CheckpointLog(log).last_committed()


class KilledError(Exception):
    """The process ends here."""


def killed(visits: Pipeline, options: RunOptions, owner: Any, name: str, when: str, *, call: int = 1) -> None:
    """Forget the key, which ends before or after a call of a method: nothing is undone by this process."""
    method: Callable[..., Any] = getattr(owner, name)
    calls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:

        def dies(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            if len(calls) != call:
                return method(*arguments, **named)
            if when == "after":
                method(*arguments, **named)
            patch.setattr(forget_marker, "undo", lambda _: None)
            raise KilledError(f"{when} {name}")

        patch.setattr(owner, name, dies)
        with pytest.raises((KilledError, RsError), match=f"{when} {name}"):
            visits.forget({"user": KEY}, options)


@pytest.mark.parametrize(
    ("owner", "name", "when", "call"),
    [
        (CheckpointLog, "begin_rewrite", "before", 1),
        (CheckpointLog, "begin_rewrite", "after", 1),
        (CheckpointLog, "end_rewrite", "before", 1),
        (CheckpointLog, "end_rewrite", "after", 2),
        (QueryState, "_compare", "after", 2),
    ],
)
def test_forget_killed_while_state_is_written_is_undone_by_the_next_start(
    visits: Pipeline, source: MemoryChannel, options: RunOptions, owner: Any, name: str, when: str, call: int
) -> None:
    job = options.home.job("gone", "visits")
    killed(visits, options, owner, name, when, call=call)
    cut = forget_marker.under_way(job)
    assert cut is not None
    assert not cut.switched
    with pytest.raises(CheckpointError, match="interrupted before any row was removed") as early:
        visits.verify(options)
    assert early.value.remedy.startswith("run the pipeline")

    source.put(row(KEY, 8), row(OTHER, 9))
    visits.run(options)
    assert forget_marker.under_way(job) is None
    assert [query.found for query in visits.verify(options)] == [()] * 3
    # The state that Spark reads from the disk is that of the stream.
    assert visits.forget({"user": OTHER}, options).complete
    source.put({**row("zoe", 1), "ts": "2026-01-05 10:05:00"})
    visits.run(options)
    assert [(each["user"], each["n"]) for each in table(options, "of_user")] == [(KEY, 3)]
    assert [(each["city"], each["n"]) for each in table(options, "of_city")] == [("rome", 6)]


def test_state_that_spark_writes_wrongly_is_undone_at_once(
    visits: Pipeline, source: MemoryChannel, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = holding(options.home.root)
    with monkeypatch.context() as patch:
        patch.setattr(state, "_rest", lambda families: {"0/default/default": (len(patched), str(patched.append(1)))})
        patched: list[int] = []
        with pytest.raises(CheckpointError, match="that was written again differs in 0/default/default") as refused:
            visits.forget({"user": KEY}, options)
    assert refused.value.remedy.startswith("nothing was removed")
    assert (forget_marker.under_way(options.home.job("gone", "visits")), holding(options.home.root)) == (None, before)
    source.put({**row(OTHER, 1), "ts": "2026-01-05 10:05:00"})
    visits.run(options)
    assert sorted((each["user"], each["n"]) for each in table(options, "of_user")) == [(OTHER, 2), (KEY, 2)]


def test_cause_for_which_spark_cannot_write_state_is_shown(
    visits: Pipeline, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "An error occurred while calling z:leaveOut.\n: SparkException: Job aborted\nCaused by: No space left"
    real = QueryState._call

    def call(state: QueryState, spark: object) -> Mock:
        return Mock(wraps=real(state, spark), leaveOut=Mock(side_effect=RuntimeError(text)))

    with monkeypatch.context() as patch:
        patch.setattr(QueryState, "_call", call)
        with pytest.raises(CheckpointError, match=r"again: SparkException: Job aborted \(No space left\)"):
            visits.forget({"user": KEY}, options)
    assert visits.forget({"user": KEY}, options).complete


def test_forget_killed_after_state_is_written_is_refused_by_starts_until_it_is_done_again(
    visits: Pipeline, source: MemoryChannel, options: RunOptions
) -> None:
    for owner, name, when in (
        (state, "remove_earlier", "before"),
        (state, "remove_earlier", "after"),
        (TableErasure, "_commit", "after"),
        (TableErasure, "_cut_log", "before"),
        (Ledger, "add", "before"),
        (Ledger, "add", "after"),
    ):
        killed(visits, options, owner, name, when)
        with pytest.raises(CheckpointError, match="keys were being forgotten") as refused:
            visits.run(options)
        assert "rs-assets forget gone.visits" in refused.value.remedy
    with pytest.raises(CheckpointError, match="keys were being forgotten"):
        rewind(visits.topology, 0, options, step="of_user")
    for others in (OTHER, [KEY, "zoe"]):
        with pytest.raises(CheckpointError, match="other keys were being forgotten") as wrong:
            visits.forget({"user": others}, options)
        assert "forget those again first" in wrong.value.remedy

    done = visits.forget({"user": KEY}, options)
    assert [str(each) for each in done.places if each.left] == []
    assert (done.complete, holding(options.home.root)) == (True, [])
    assert [query.found for query in visits.verify(options)] == [()] * 3
    source.put({**row(OTHER, 1), "ts": "2026-01-05 10:05:00"})
    visits.run(options)
    assert [(each["user"], each["n"]) for each in table(options, "of_user")] == [(OTHER, 2)]
    assert [(each["city"], each["n"]) for each in table(options, "of_city")] == [("rome", 4)]
    assert visits.forget({"user": KEY}, options).complete


def test_forget_of_an_unfinished_batch_asks_for_a_run(
    visits: Pipeline, options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = options.home.job("gone", "visits").glob("g*/of_user/checkpoint")
    last = CheckpointLog(log).last_committed()
    planned = (log / "offsets" / str(last)).read_bytes()
    (log / "offsets" / str(last + 1)).write_bytes(planned)
    with pytest.raises(CheckpointError, match=f"batch {last + 1} is not complete") as refused:
        visits.forget({"user": KEY}, options)
    assert "run the pipeline once" in refused.value.remedy
    visits.run(options)
    assert visits.forget({"user": KEY}, options).complete


def test_state_that_keeps_the_key_within_rows_of_other_keys_is_refused(
    source: MemoryChannel, options: RunOptions
) -> None:
    read = StreamBuilder.data_stream("gone", "table").from_memory(source, name="read")
    pipeline = read.to_table("city", name="cities").to_delta("cities", name="out").build()
    source.put(row(KEY, 1))
    pipeline.run(options)
    with pytest.raises(ConfigurationError, match="keeps under other keys") as refused:
        pipeline.forget({"user": KEY}, options)
    assert "run the pipeline until they have left" in refused.value.remedy
    source.put(row(OTHER, 2))
    pipeline.run(options)
    assert pipeline.forget({"user": KEY}, options).complete
    assert holding(options.home.root) == []


def test_state_of_earlier_generations_and_what_a_return_moved_aside_is_removed(
    visits: Pipeline, source: MemoryChannel, options: RunOptions
) -> None:
    rewind(visits.topology, 0, options, step="of_user")
    visits.run(replace(options, new_generation=True))
    source.put(row(OTHER, 7), row(KEY, 7))
    visits.run(options)
    job = options.home.job("gone", "visits")
    for begin in (".trash-", "g0001"):
        assert any(begin in file for file in holding(job)), begin
    planned = visits.forget({"user": KEY}, options, plan=True)
    assert any(each.place == "checkpoints" and each.more for each in planned.places)
    assert visits.forget({"user": KEY}, options).complete
    assert holding(options.home.root) == []
    source.put({**row(OTHER, 1), "ts": "2026-01-05 10:05:00"})
    visits.run(options)
    assert [(each["user"], each["n"]) for each in table(options, "of_user")] == [(OTHER, 3)]


def test_a_field_that_is_unknown_and_an_unknown_place_are_refused_and_taken_after_the_remedy(
    visits: Pipeline, options: RunOptions
) -> None:
    before = holding(options.home.root)
    for wrong in ("User", "usr"):
        with pytest.raises(ConfigurationError, match=f"has no field '{wrong}'") as refused:
            visits.forget({wrong: KEY}, options)
        assert refused.value.remedy.startswith("did you mean 'user'? name one of: city, ")
    with pytest.raises(ConfigurationError, match="'outt' of the column 'user' is not a place") as place:
        visits.forget({"who": KEY}, options, columns={"outt:user": "who"})
    assert place.value.remedy.startswith("did you mean 'out'? name a step, ")
    assert holding(options.home.root) == before
    named = visits.forget({"who": KEY}, options, columns={"out:user": "who"}, plan=True)
    assert [each.rows for each in named.places if each.place == "output"] == [2]
    assert visits.forget({"user": KEY}, options).complete


def test_an_output_that_the_pipeline_had_before_is_named(source: MemoryChannel, options: RunOptions) -> None:
    read = StreamBuilder.data_stream("gone", "plain").from_memory(source, name="read")
    read.to_delta("plain", name="out")
    source.put(row(KEY, 1))
    read.to_delta("former", name="once").build().run(options)
    now = (
        StreamBuilder.data_stream("gone", "plain")
        .from_memory(source, name="read")
        .to_delta("plain", name="out")
        .build()
    )
    now.run(options)
    said = [str(each) for each in now.forget({"user": KEY}, options).elsewhere]
    assert any(each.startswith("former output once (former): the pipeline does not write it any more") for each in said)


def test_requests_that_cannot_be_met_are_refused_and_taken_after_the_remedy(
    source: MemoryChannel, options: RunOptions
) -> None:
    read = StreamBuilder.data_stream("gone", "plain").from_memory(source, name="read")
    pipeline = read.to_delta("plain", name="out").build()
    with pytest.raises(CheckpointError, match="has no checkpoint yet") as early:
        pipeline.forget({"user": KEY}, options)
    assert early.value.remedy == "run it first"
    source.put(row(KEY, 1))
    pipeline.run(options)
    with pytest.raises(ConfigurationError, match="savepoints= must be one of") as wrong:
        pipeline.forget({"user": KEY}, options, savepoints="keep")  # type: ignore[arg-type]
    assert wrong.value.remedy == "savepoints='remove'"
    with pipeline.start(options), pytest.raises(PipelineBusyError):
        pipeline.forget({"user": KEY}, options)
    assert pipeline.forget({"user": KEY}, options, savepoints="remove").complete

    shuffled = read.shuffle(2, strategy="delta").to_delta("apart").build()
    with pytest.raises(ConfigurationError, match="durable shuffle") as apart:
        shuffled.forget({"user": KEY}, options)
    assert "begin a new generation" in apart.value.remedy


def test_forget_beside_a_stream_of_the_process_is_refused(
    visits: Pipeline, source: MemoryChannel, options: RunOptions
) -> None:
    other = StreamBuilder.data_stream("gone", "other").from_memory(MemoryChannel(schema=SCHEMA)).to_delta("o").build()
    with other.start(options), pytest.raises(ConfigurationError, match="other streams run in this process") as busy:
        visits.forget({"user": KEY}, options)
    assert "a process of its own" in busy.value.remedy
    source.put(row(OTHER, 9))
    visits.run(options)


def test_uploads_of_earlier_batches_are_replaced(source: MemoryChannel, options: RunOptions, tmp_path: Path) -> None:
    policy = SavepointPolicy(uri=str(tmp_path / "store"), upload=True)
    pipeline, uploading = made(source), replace(options, savepoints=policy)
    source.put(row(KEY, 1), row(OTHER, 2))
    pipeline.run(uploading)
    assert holding(tmp_path / "store")
    off = replace(options, savepoints=replace(policy, upload=False))
    with pytest.raises(ConfigurationError, match="uploads are off") as refused:
        pipeline.forget({"user": KEY}, off)
    assert "--savepoints remove" in refused.value.remedy
    assert pipeline.forget({"user": KEY}, uploading).complete
    assert holding(tmp_path) == []
    source.put({**row(OTHER, 1), "ts": "2026-01-05 10:05:00"})
    pipeline.run(uploading)
    assert [(each["user"], each["n"]) for each in table(options, "of_user")] == [(OTHER, 1)]
    assert pipeline.forget({"user": "zoe"}, off, savepoints="remove").complete


def test_forget_is_refused_before_anything_changes_while_a_savepoint_is_taken(
    visits: Pipeline, options: RunOptions
) -> None:
    savepoint(visits.topology, options)
    before = table(options, "visits")
    with savepoints_of(options).announced("taking"), pytest.raises(CheckpointError, match="is being taken"):
        visits.forget({"user": KEY}, options, savepoints="remove")
    assert table(options, "visits") == before
    assert visits.run(options).rows_in == 0
    assert visits.forget({"user": KEY}, options, savepoints="remove").complete


def test_new_generation_knows_its_output_when_the_home_is_lost_after_a_removal(
    source: MemoryChannel, options: RunOptions, tmp_path: Path
) -> None:
    begin = StreamBuilder.data_stream("gone", "visits")
    pipeline = begin.from_memory(source, name="read").to_delta(str(tmp_path / "out"), name="out").build()
    source.put(row(KEY, 1), row(OTHER, 2))
    pipeline.run(options)
    assert pipeline.forget({"user": KEY}, options).complete
    elsewhere = replace(options, home=Home.at(tmp_path / "new"))
    with pytest.raises(CheckpointError, match="written from another one") as refused:
        pipeline.run(elsewhere)
    assert str(options.home.root) in str(refused.value)
    pipeline.run(replace(elsewhere, new_generation=True))
    assert sorted(each["user"] for each in DeltaTable(str(tmp_path / "out")).to_pyarrow_table().to_pylist()) == [
        OTHER,
        KEY,
    ]


def test_join_keyed_by_the_field_forgets_its_waiting_rows(options: RunOptions) -> None:
    left, right = MemoryChannel(schema=SCHEMA), MemoryChannel(schema="who string, ts timestamp")
    begin = StreamBuilder.data_stream("gone", "joined")
    one, two = begin.from_memory(left, name="left"), begin.from_memory(right, name="right")
    pipeline = one.join(two, on={"user": "who"}, within=Time.minutes(5), time_field="ts").to_delta("joined").build()
    left.put(row(KEY, 1), row(OTHER, 2))
    right.put({"who": "bob", "ts": "2026-01-05 10:00:01"})
    pipeline.run(options)
    done = pipeline.forget({"user": KEY}, options)
    assert (done.complete, holding(options.home.root)) == (True, [])
    right.put({"who": KEY, "ts": "2026-01-05 10:00:02"}, {"who": OTHER, "ts": "2026-01-05 10:00:03"})
    pipeline.run(options)
    assert [each["user"] for each in table(options, "joined")] == [OTHER]


def test_backfill_and_proof_leave_forgotten_keys_out(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    hours = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(0))

    def put(*rows: dict[str, Any]) -> None:
        file = folder / f"f{len(list(folder.iterdir()))}.jsonl"
        file.write_text("".join(f"{json.dumps(each)}\n" for each in rows))

    read = StreamBuilder.data_stream("gone", "hours").from_file(
        folder, schema=SCHEMA, name="read", max_files_per_batch=1
    )
    pipeline = read.to_delta("hours", partitions=hours, name="out").build()
    put(row(KEY, 1), row(OTHER, 2))
    pipeline.run(options)
    assert pipeline.forget({"user": KEY}, options).complete
    # The person comes back.
    put(row(KEY, 3), {**row(OTHER, 4), "ts": "2026-01-05 12:00:00"})
    pipeline.run(options)
    (done,) = pipeline.backfill("2026-01-05-10:00", options)
    assert done.rows == 2
    found = [(each["user"], each["ts"].second) for each in table(options, "hours") if each["ts"].hour == 10]
    assert sorted(found) == [(OTHER, 2), (KEY, 3)]
    (proof,) = pipeline.prove(options, partition="2026-01-05-10:00")
    assert proof.holds


def test_batches_before_keys_were_forgotten_twice_are_read_again(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    hours = EventTimePartitions.hourly("start_time", since="2026-01-01")
    read = StreamBuilder.data_stream("gone", "twice").from_file(folder, schema=SCHEMA, name="read")
    minutes = read.window(TumblingWindow.of(Time.minutes(1), "ts"), name="minutes").group_by("user").count("n")
    pipeline = minutes.to_delta("twice", partitions=hours, name="out").build()

    def run(number: int, *rows: dict[str, Any]) -> None:
        (folder / f"f{number}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
        pipeline.run(options)

    run(0, row(KEY, 1), row(OTHER, 2), row("bob", 3), row("cid", 4))
    for key in (KEY, "bob"):
        assert pipeline.forget({"user": key}, options).complete
    run(1, {**row(OTHER, 4), "ts": "2026-01-05 12:00:00"})
    (proof,) = pipeline.prove(options, partition="2026-01-05-10:00")
    assert (proof.holds, proof.rows_stream) == (True, 2)


def test_backfill_leaves_forgotten_keys_of_steps_out_that_have_other_names_since(
    tmp_path: Path, options: RunOptions
) -> None:
    folder, names = tmp_path / "in", ("read", "again", "later")
    folder.mkdir()
    hours = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(0))

    def pipeline(n: int) -> Pipeline:
        source = StreamBuilder.data_stream("gone", "hours").from_file(
            folder, schema="a int, ts timestamp", name=names[n]
        )
        fields = source.with_fields(b="a").select_fields("b", "ts")
        out = fields.to_delta("hours", partitions=hours, name=f"{names[n]}_out")
        renamed = {f"{names[n - 1]}{end}": f"{names[n]}{end}" for end in ("", "_out")} if n else {}
        return out.build(renamed=renamed)

    for n in range(3):
        rows = ({"a": a, "ts": f"2026-01-05 1{n}:00:0{a}"} for a in (1, 2, 3))
        (folder / f"{n}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
        pipeline(n).run(options)
        if n < 2:
            columns = {f"{names[n]}:a": "user", f"{names[n]}_out:b": "user"}
            assert pipeline(n).forget({"user": n + 1}, options, columns=columns).complete
    (done,) = pipeline(2).backfill("2026-01-05-10:00", options)
    assert (done.rows_before, done.rows) == (1, 1)
    assert sorted(each["b"] for each in table(options, "hours") if each["ts"].hour == 10) == [3]


def test_backfill_leaves_forgotten_numbers_and_nested_fields_out(tmp_path: Path, options: RunOptions) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    hours = EventTimePartitions.hourly("ts", since="2026-01-01", settle=Time.minutes(0))
    schema = "acc decimal(10,2), d double, who struct<id string>, seen array<struct<id int>>, ts timestamp"
    read = StreamBuilder.data_stream("gone", "hours").from_file(folder, schema=schema, name="read")
    pipeline = read.to_delta("hours", partitions=hours, name="out").build()
    for n in range(4):
        lines = [
            {
                "acc": acc,
                "d": acc + 0.5,
                "who": {"id": f"w{acc}"},
                "seen": [{"id": acc}],
                "ts": f"2026-01-05 1{n}:00:00",
            }
            for acc in (15, 16, 17, 18, 19)
        ]
        (folder / f"f{n}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        pipeline.run(options)
    for keys in ({"acc": 15}, {"d": "16.50"}, {"who.id": "w17"}):
        assert pipeline.forget(keys, options).complete
    assert pipeline.forget({"user": 18}, options, columns={"out:seen.id": "user", "read:seen.id": "user"}).complete
    assert {int(each["acc"]) for each in table(options, "hours")} == {19}
    (done,) = pipeline.backfill("2026-01-05-10:00", options)
    assert (done.rows_before, done.rows) == (1, 1)
    assert {int(each["acc"]) for each in table(options, "hours")} == {19}


def test_a_table_with_a_time_and_no_declared_schema_is_read_and_forgotten(
    source: MemoryChannel, options: RunOptions
) -> None:
    """The inferred schema is known to the manifest, with the time in it."""
    source.put(row(KEY, 1), row(OTHER, 2))
    StreamBuilder.data_stream("gone", "writes").from_memory(source).to_delta("visits").build().run(options)
    copied = StreamBuilder.data_stream("gone", "copies").from_delta("visits").to_delta("copy").build()
    copied.run(options)
    copied.forget({"user": [KEY]}, options)
    assert [each["user"] for each in table(options, "copy")] == [OTHER]

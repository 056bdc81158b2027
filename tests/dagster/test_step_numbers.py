"""The numbers of each step, as its op and its asset show them, against a plain count of the rows of the files."""

from __future__ import annotations

import json
import os

from dagster import DagsterInstance

from rs_assets import RunResource, SparkResource, StreamBuilder, Time, TumblingWindow, WindowResource, build_definitions

FIELDS = "id bigint, user string, at timestamp"
SHOWN = ("rows_in", "rows_dead", "rows_late", "rows_out")


def files(folder, *batches):
    """A folder with a file for each batch: rows of (id, second), or lines."""
    folder.mkdir()
    for number, rows in enumerate(batches):
        file = folder / f"{number}.jsonl"
        lines = [row if isinstance(row, str) else json.dumps(one(*row)) for row in rows]
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def one(key, second):
    at = f"2026-01-05 10:{second // 60:02}:{second % 60:02}" if second is not None else None
    return {"id": key, "user": "ann", "at": at}


def source(job, folder, name, bad_records="dead_letter"):
    return job.from_file(folder, schema=FIELDS, bad_records=bad_records, max_files_per_batch=1, name=name)


def numbers(pipeline, home):
    """What each op and each asset says after a run: a text, and its numbers of rows."""
    own = {
        "spark": SparkResource(share=True),
        "window": WindowResource(finish=True),
        "run": RunResource(home=str(home), local_storage_only=True),
    }
    job = build_definitions([pipeline], own).resolve_job_def(f"{pipeline.topology.label}_run")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(run_config=quiet, instance=instance)
        logged = [entry.dagster_event for entry in instance.all_logs(done.run_id) if entry.dagster_event]
    ops = {
        event.step_key.rpartition(".")[2]: event.message
        for event in logged
        if event.event_type_value == "ENGINE_EVENT" and event.step_key
    }
    assets = {
        event.asset_key.path[-1]: {
            name: value.value for name, value in event.materialization.metadata.items() if name in SHOWN
        }
        for event in done.get_asset_materialization_events()
    }
    return ops, assets


def test_records_on_which_a_step_fails_count_once_and_nothing_after_them_is_lost(tmp_path, driver):
    folder = files(tmp_path / "in", [(0, 1), (1, 2)], [(2, 3), "{bad", (3, 4)], [(4, 5), (5, 6)])
    job = StreamBuilder.data_stream("shop", "poisoned")
    rows = source(job, folder, "orders", "quarantine").with_fields(part="12 / (id - 3)", name="parts")
    ops, assets = numbers(rows.to_delta("parts_of").build(), tmp_path / "rs")
    assert ops["orders"] == "7 rows read, 2 dead"
    assert ops["parts_of_table"] == "5 rows written"
    assert assets == {"orders": {"rows_in": 7, "rows_dead": 2}, "parts_of": {"rows_out": 5}}


def test_each_source_of_a_join_has_its_own_rows(tmp_path, driver):
    job = StreamBuilder.data_stream("shop", "two")
    orders = source(job, files(tmp_path / "o", [(0, 1), (1, 20)], [(2, 21), (3, None)], ["{bad", (4, 60)]), "orders")
    paid = source(job, files(tmp_path / "p", [(0, 2)], [(4, 61)]), "paid")
    joined = orders.join(paid, on="id", within=Time.seconds(5), time_field="at", how="left", prefix="p_", name="pairs")
    ops, assets = numbers(joined.to_delta("pairs_of").build(), tmp_path / "rs")
    assert (ops["orders"], ops["paid"]) == ("6 rows read, 1 dead", "2 rows read, 0 dead")
    assert ops["pairs"].startswith("7 rows in, 1 dead, ")
    assert assets == {
        "orders": {"rows_in": 6, "rows_dead": 1},
        "paid": {"rows_in": 2, "rows_dead": 0},
        "pairs": {"rows_in": 7, "rows_dead": 1, "rows_late": 0},
        "pairs_of": {"rows_out": 4},
    }


def test_late_rows_are_shown_at_the_step_for_which_they_were_late(tmp_path, driver):
    folder = files(tmp_path / "in", [(0, 1), (1, 60)], [(2, 61)], [(3, 2)])
    job = StreamBuilder.data_stream("shop", "chain")
    tens = source(job, folder, "hits").window(TumblingWindow.of(Time.seconds(10), "at"), name="tens").count("n")
    halves = tens.to_data_stream().window(TumblingWindow.of(Time.seconds(30), "end_time"), name="halves").sum("n", "n")
    ops, assets = numbers(halves.to_data_stream().to_delta("halves_of").build(), tmp_path / "rs")
    assert ", 1 late, " in ops["tens"]
    assert ", 0 late, " in ops["halves"]
    assert (assets["tens"]["rows_late"], assets["halves"]["rows_late"]) == (1, 0)
    assert assets["hits"] == {"rows_in": 4, "rows_dead": 0}

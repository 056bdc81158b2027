"""The families' resources in ops and assets of a user's own, without a pipeline."""

# No `from __future__ import annotations` here: Dagster compares the annotation of `context` with the class itself.

import json
import socket
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from dagster import (
    AssetExecutionContext,
    DagsterInstance,
    Definitions,
    In,
    Nothing,
    OpExecutionContext,
    ReexecutionOptions,
    RetryRequested,
    asset,
    define_asset_job,
    execute_job,
    job,
    op,
    reconstructable,
)
from deltalake import DeltaTable, write_deltalake

from rs_assets import (
    BadRecords,
    Dimension,
    Home,
    JoinResource,
    Processor,
    ProcessorResource,
    ShuffleResource,
    SinkResource,
    SourceResource,
    SparkResource,
    StepResource,
    StreamBuilder,
    TableResource,
    Time,
    TumblingWindow,
    ValueStore,
    WindowResource,
)
from rs_assets.connectors.delta.log.commit_info import author
from rs_assets.errors import BadRecordError, TopologyError, UnknownFieldError
from rs_assets.spark.driver import SparkDriver

SHARED = SparkResource(share=True)
RESOURCES = {
    "rs_spark": SHARED,
    "rs_source": SourceResource(),
    "rs_step": StepResource(),
    "rs_shuffle": ShuffleResource(partitions=2),
    "rs_window": WindowResource(),
    "rs_join": JoinResource(),
    "rs_table": TableResource(),
    "rs_processor": ProcessorResource(),
    "rs_sink": SinkResource(),
}
MINUTES = TumblingWindow.of(Time.minutes(1), "at")


class Numbered(Processor):
    """Numbers the rows of each page."""

    seen = ValueStore("n bigint")

    def process(self, key, row, context):
        n = (context.seen.get() or {"n": 0})["n"] + 1
        context.seen.put({"n": n})
        context.forward({"page": key["page"], "n": n})


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RS_HOME", str(tmp_path / "rs"))
    return Home(tmp_path / "rs")


@pytest.fixture
def hits(tmp_path):
    path = tmp_path / "hits.jsonl"
    rows = [{"page": f"/{n % 2}", "user": n % 3, "at": f"2026-01-05 10:0{n // 4}:0{n % 4}"} for n in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return StreamBuilder.data_stream("shop", "hits").from_file(path, schema="page string, user int, at timestamp")


def rows_of(frame):
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.long
def test_one_asset_reads_computes_by_all_families_and_writes(hits, home, driver):
    seen = {}

    @asset
    def minutes(
        context: AssetExecutionContext,
        rs_spark: SparkResource,
        rs_source: SourceResource,
        rs_step: StepResource,
        rs_shuffle: ShuffleResource,
        rs_window: WindowResource,
        rs_join: JoinResource,
        rs_table: TableResource,
        rs_processor: ProcessorResource,
        rs_sink: SinkResource,
    ) -> None:
        read = rs_source.read(hits.filter("user < 2"), spark=rs_spark)
        seen["read"] = read.count()
        spread = rs_shuffle.spread(read, keys=["page"])
        seen["parts"] = spread.rdd.getNumPartitions()
        named = rs_step.compute(spread, lambda rows: rows.with_fields(site="concat('shop', page)"))
        seen["named"] = {row.site for row in named.collect()}
        counted = rs_window.aggregate(named, lambda rows: rows.window(MINUTES).group_by("page").count("n"))
        seen["counted"] = rows_of(counted.select("page", "n"))
        users = rs_table.keep(read, steps=lambda rows: rows.to_table("user", order_by="at"))
        seen["users"] = rows_of(users.selectExpr("user", "date_format(at, 'mm:ss')"))
        joined = rs_join.join(counted.select("page", "n"), read, lambda one, two: one.join(two, on="page", within=None))
        seen["joined"] = joined.count()
        numbered = rs_processor.process(
            read, lambda rows: rows.process(Numbered, keys="page", schema="page string, n bigint")
        )
        seen["numbered"] = rows_of(numbered)
        seen["written"] = rs_sink.write(context, counted, lambda rows: rows.to_delta("minutes"), namespace="shop").rows

    definitions = Definitions(assets=[minutes], jobs=[define_asset_job("all")], resources=RESOURCES)
    assert definitions.resolve_job_def("all").execute_in_process().success
    assert (seen["read"], seen["parts"], seen["named"]) == (8, 2, {"shop/0", "shop/1"})
    assert sum(n for _, n in seen["counted"]) == 8
    assert seen["users"] == [(0, "02:01"), (1, "02:02")]
    # Each of the 8 rows meets the windows of its page, of which there are 3.
    assert seen["joined"] == sum(len([p for p, _ in seen["counted"] if p == page]) * 4 for page in ("/0", "/1"))
    assert seen["numbered"] == [(page, n) for page in ("/0", "/1") for n in (1, 2, 3, 4)]
    assert seen["written"] == len(seen["counted"])
    written = DeltaTable(home.table("shop", "minutes")).to_pyarrow_table().to_pylist()
    assert sorted((row["page"], row["n"]) for row in written) == seen["counted"]


def frame(driver, rows, schema):
    return driver.call(lambda spark: spark.createDataFrame(rows, schema))


def table_rows(path):
    return sorted(row["id"] for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def test_a_step_that_dagster_repeats_writes_nothing_again(home, driver, tmp_path):
    attempts, path = [], str(tmp_path / "ids")

    @op
    def ids(context: OpExecutionContext, rs_sink: SinkResource) -> None:
        for rows in ([(1,), (2,)], [(3,)]):
            done = rs_sink.write(context, frame(driver, rows, "id int"), lambda out: out.to_delta(path))
            attempts.append((done.rows, done.again))
        if context.retry_number == 0:
            raise RetryRequested(max_retries=1)

    @job(resource_defs={"rs_sink": SinkResource()})
    def once() -> None:
        ids()

    assert once.execute_in_process().success
    assert attempts == [(2, False), (1, False), (0, True), (0, True)]
    assert table_rows(path) == [1, 2, 3]
    assert once.execute_in_process().success
    assert table_rows(path) == [1, 1, 2, 2, 3, 3]


def test_a_run_that_goes_on_from_a_failure_does_not_write_again(home, driver, tmp_path, monkeypatch):
    monkeypatch.setenv("IDS", str(tmp_path / "ids"))
    (tmp_path / "dagster").mkdir()
    with DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        failed = execute_job(reconstructable(failing_once), instance, raise_on_error=False)
        assert not failed.success
        monkeypatch.setenv("IDS_GO_ON", "1")
        again = ReexecutionOptions.from_failure(failed.run_id, instance)
        assert execute_job(reconstructable(failing_once), instance, reexecution_options=again).success
    assert table_rows(tmp_path / "ids") == [1]


def test_a_failed_run_is_found_though_a_run_between_never_came_to_the_step(home, driver, tmp_path, monkeypatch):
    """The second run ended before the step, so the third one repeats the first."""
    monkeypatch.setenv("IDS", str(tmp_path / "ids"))
    (tmp_path / "dagster").mkdir()
    with DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:

        def attempt(after=None):
            again = ReexecutionOptions(parent_run_id=after.run_id) if after else None
            return execute_job(reconstructable(two_steps), instance, raise_on_error=False, reexecution_options=again)

        first = attempt()
        monkeypatch.setenv("IDS_REFUSED", "1")
        second = attempt(first)
        monkeypatch.delenv("IDS_REFUSED")
        monkeypatch.setenv("IDS_GO_ON", "1")
        third = attempt(second)
        assert [done.success for done in (first, second, third)] == [False, False, True]
        assert table_rows(tmp_path / "ids") == [1]
        # After a success a run of all steps writes its own rows, though a run between did not come so far.
        monkeypatch.setenv("IDS_REFUSED", "1")
        fourth = attempt(third)
        monkeypatch.delenv("IDS_REFUSED")
        assert attempt(fourth).success
    assert table_rows(tmp_path / "ids") == [1, 1]


def test_an_attempt_may_write_its_tables_in_another_order(home, driver, tmp_path):
    paths = [str(tmp_path / part / "ids") for part in ("one", "two")]

    @op
    def ids(context: OpExecutionContext, rs_sink: SinkResource) -> None:
        first, second = paths if context.retry_number == 0 else reversed(paths)
        rs_sink.write(context, frame(driver, [(1,)], "id int"), lambda out: out.to_delta(first))
        if context.retry_number == 0:
            raise RetryRequested(max_retries=1)
        rs_sink.write(context, frame(driver, [(1,)], "id int"), lambda out: out.to_delta(second))

    @job(resource_defs={"rs_sink": SinkResource()})
    def once() -> None:
        ids()

    assert once.execute_in_process().success
    assert [table_rows(path) for path in paths] == [[1], [1]]


def test_the_history_names_the_step_and_nothing_is_left_beside_the_table(home, driver, tmp_path):
    path = tmp_path / "ids"

    @op
    def ids(context: OpExecutionContext, rs_sink: SinkResource) -> None:
        rs_sink.write(context, frame(driver, [(1,)], "id int"), lambda out: out.to_delta(path))

    @job(resource_defs={"rs_sink": SinkResource()})
    def once() -> None:
        ids()

    done = [once.execute_in_process() for _ in range(2)]
    writers = [author(entry) for entry in DeltaTable(path).history()]
    assert [(run.split(".")[:2], sink) for run, sink in writers] == [
        ([each.run_id, "ids"], "ids_table") for each in reversed(done)
    ]
    assert list((path / "_rs_staged").iterdir()) == []


def test_an_op_that_is_called_directly_writes_each_time(home, driver, tmp_path):
    from dagster import build_op_context

    rows, path = frame(driver, [(1,)], "id int"), str(tmp_path / "ids")
    for _ in range(2):
        with build_op_context() as context:
            SinkResource().write(context, rows, lambda out: out.to_delta(path, mode="upsert", keys=["id"]))
    assert table_rows(path) == [1]
    assert DeltaTable(path).version() == 1


def test_other_steps_than_a_sink_are_refused(home, driver, tmp_path):
    from dagster import build_op_context

    rows, sink, path = frame(driver, [(1,), (2,)], "id int"), SinkResource(), str(tmp_path / "ids")
    with build_op_context() as context, pytest.raises(TopologyError, match=r"(?s)no other step, not: filter_1"):
        sink.write(context, rows, lambda out: out.filter("id > 1").to_delta(path))
    with build_op_context() as context:
        computed = StepResource().compute(rows, lambda out: out.filter("id > 1"))
        sink.write(context, computed, lambda out: out.to_delta(path))
    assert table_rows(path) == [2]


@op
def writes_then_fails(context: OpExecutionContext, rs_sink: SinkResource) -> None:
    import os

    rows = SparkDriver.shared().call(lambda spark: spark.createDataFrame([(1,)], "id int"))
    rs_sink.write(context, rows, lambda out: out.to_delta(os.environ["IDS"]))
    if "IDS_GO_ON" not in os.environ:
        raise RuntimeError("the machine was lost")


@job(resource_defs={"rs_sink": SinkResource()}, config={"execution": {"config": {"in_process": {}}}})
def failing_once() -> None:
    writes_then_fails()


@op
def may_be_refused() -> None:
    import os

    if "IDS_REFUSED" in os.environ:
        raise RuntimeError("refused")


@op(ins={"after": In(Nothing)})
def writes_after(context: OpExecutionContext, rs_sink: SinkResource) -> None:
    import os

    rows = SparkDriver.shared().call(lambda spark: spark.createDataFrame([(1,)], "id int"))
    rs_sink.write(context, rows, lambda out: out.to_delta(os.environ["IDS"]))
    if "IDS_GO_ON" not in os.environ:
        raise RuntimeError("the machine was lost")


@job(resource_defs={"rs_sink": SinkResource()}, config={"execution": {"config": {"in_process": {}}}})
def two_steps() -> None:
    writes_after(may_be_refused())


def test_read_refuses_steps_with_state(hits, home):
    def counted(rows):
        return rows.window(MINUTES).group_by("page").count("n").to_data_stream()

    source = SourceResource()
    with pytest.raises(TopologyError, match=r"(?s)read takes a source and stateless steps.*resource of its family"):
        source.read(counted(hits), spark=SHARED)
    windows = WindowResource().aggregate(source.read(hits, spark=SHARED), counted)
    assert sum(row.n for row in windows.collect()) == 12


def test_read_refuses_what_would_remain_at_the_system(hits, home, tmp_path):
    """A slot would hold the server's log until its disk is full, and refuse the pipeline that wants it."""
    rows = StreamBuilder.data_stream("shop", "slots").from_postgres(
        "postgresql://localhost/none", "orders", schema="id bigint"
    )
    with pytest.raises(TopologyError, match=r"(?s)reserves the replication slot 'rs_shop_slots_postgres'.*from_delta"):
        SourceResource().read(rows, spark=SHARED)
    path = tmp_path / "orders"
    write_deltalake(path, pa.table({"id": [1, 2]}))
    written = StreamBuilder.data_stream("shop", "written").from_delta(path)
    assert rows_of(SourceResource().read(written, spark=SHARED)) == [(1,), (2,)]
    with pytest.raises(TopologyError, match=r"(?s)step 'kept_write' stores its rows.*read the source"):
        SourceResource().read(hits.shuffle(2, strategy="delta", name="kept"), spark=SHARED)
    assert SourceResource().read(hits, spark=SHARED).count() == 12


def test_read_commits_no_offsets_and_sends_no_dead_letters():
    topic = StreamBuilder.data_stream("shop", "topic").from_kafka(
        "localhost:9092",
        "orders",
        group="orders",
        starting_offsets="committed",
        bad_records="dead_letter",
        dead_letter_topic="bad_orders",
    )
    node = topic.draft.preview(topic.step)[0].apart()
    assert (node.group, node.starting, node.dead_letter_topic, node.topics) == (None, "earliest", None, ("orders",))


def test_a_run_of_an_op_is_not_published(driver, tmp_path, monkeypatch):
    """Neither in the database of checkpoints, nor at the port of metrics, which a stream may use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("RS_METRICS_PORT", str(taken.getsockname()[1]))
        monkeypatch.setenv("RS_CHECKPOINT_STORAGE", "db")
        monkeypatch.setenv("RS_STORAGE_URL", f"sqlite:///{tmp_path / 'checkpoints.db'}")
        rows = StepResource().compute(frame(driver, [(1,), (2,)], "id int"), lambda out: out.filter("id > 1"))
        assert rows_of(rows) == [(2,)]
    assert not (tmp_path / "checkpoints.db").exists()


def test_a_column_that_would_be_hidden_is_refused(driver, tmp_path):
    from dagster import build_op_context

    rows, path = frame(driver, [(1, 2)], "id int, _rs_n int"), str(tmp_path / "ids")
    with pytest.raises(TopologyError, match=r"(?s)a column '_rs_n'.*withColumnRenamed\('_rs_n', 'n'\)"):
        StepResource().compute(rows, lambda out: out.filter("id > 0"))
    with build_op_context() as context, pytest.raises(TopologyError, match="a column '_rs_n'"):
        SinkResource().write(context, rows, lambda out: out.to_delta(path))
    named = StepResource().compute(rows.withColumnRenamed("_rs_n", "n"), lambda out: out.filter("id > 0"))
    assert rows_of(named) == [(1, 2)]


def test_a_sink_in_the_steps_is_refused(driver, tmp_path):
    rows = frame(driver, [(1, datetime(2026, 1, 5, tzinfo=UTC))], "id int, at timestamp")
    with pytest.raises(TopologyError, match=r"(?s)the steps have the sink 'ids_table'.*rs_sink.write"):
        StepResource().compute(rows, lambda out: out.filter("id > 0").to_delta(tmp_path / "ids"))
    with pytest.raises(TopologyError, match=r"(?s)the steps have the sink 'late_table'.*leave late_to= out"):
        WindowResource().aggregate(rows, lambda out: out.window(MINUTES).count("n").late_to(tmp_path / "late"))
    with pytest.raises(TopologyError, match=r"(?s)there is no frame.*keep\(frame, steps=...\)"):
        TableResource().keep(steps=lambda out: out.to_table("id"))
    assert rows_of(StepResource().compute(rows, lambda out: out.filter("id > 0").select_fields("id"))) == [(1,)]
    assert rows_of(WindowResource().aggregate(rows, lambda out: out.window(MINUTES).count("n")).select("n")) == [(1,)]
    assert rows_of(TableResource().keep(rows, steps=lambda out: out.to_table("id", order_by="at")).select("id"))


def test_steps_of_another_family_name_their_resource(driver):
    rows = frame(driver, [(1,), (2,)], "id int")

    def large(out):
        return out.filter("id > 1")

    with pytest.raises(TopologyError, match=r"(?s)the steps have no window; there is: step.*rs_step"):
        WindowResource().aggregate(rows, large)
    assert rows_of(StepResource().compute(rows, large)) == [(2,)]


def test_what_is_no_stream_is_refused(driver):
    rows = frame(driver, [(1,)], "id int")
    with pytest.raises(TopologyError, match="must return a stream or a table, not a int"):
        StepResource().compute(rows, lambda out: 1)
    assert rows_of(StepResource().compute(rows, lambda rows: rows.filter("id > 0"))) == [(1,)]


def test_a_key_that_is_not_there_is_refused(driver):
    with pytest.raises(UnknownFieldError):
        ShuffleResource().spread(frame(driver, [(1,)], "id int"), keys=["idd"])


def test_nothing_read_has_the_fields_of_the_steps(hits, home):
    none = SourceResource().read(hits.filter("user > 9").select_fields("page"), spark=SHARED)
    assert (none.columns, none.count()) == (["page"], 0)


def test_bad_records_end_a_read_or_are_logged(tmp_path, home, caplog):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": 1}\n{"id": "x"}\n')
    source = StreamBuilder.data_stream("shop", "bad")
    with pytest.raises(BadRecordError):
        SourceResource().read(source.from_file(path, schema="id int", name="one"), spark=SHARED)
    skipping = source.from_file(path, schema="id int", bad_records=BadRecords.SKIP, name="two")
    assert rows_of(SourceResource().read(skipping, spark=SHARED)) == [(1,)]
    assert "left out, because it could not be used: 1 row" in caplog.text


def test_tables_by_name_are_those_of_the_home(home, driver):
    tiers = frame(driver, [(1, "gold")], "user int, tier string")
    driver.call(lambda _: tiers.write.format("delta").save(home.table("ops", "tiers")))
    looked = StepResource().compute(
        frame(driver, [(1,), (2,)], "user int"),
        lambda rows: rows.dim_join(Dimension.from_delta("tiers", schema="user int, tier string"), on="user"),
    )
    assert rows_of(looked) == [(1, "gold")]

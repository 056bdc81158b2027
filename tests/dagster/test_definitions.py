"""What a code location gets: keys, groups, owners, a translator, merged definitions, a component."""

import keyword
import threading
import time
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetSpec,
    AutomationCondition,
    DagsterInstance,
    Definitions,
    SensorResult,
    SkipReason,
    asset,
    build_sensor_context,
    evaluate_automation_conditions,
)
from dagster._core.definitions.utils import DISALLOWED_NAMES
from dagster._core.execution.plan.resume_retry import ReexecutionStrategy
from dagster._daemon.auto_run_reexecution.auto_run_reexecution import get_reexecution_strategy
from dagster.components.core.package_entry import DG_PLUGIN_ENTRY_POINT_GROUP, get_package_objects_in_module
from dagster.components.testing import create_defs_folder_sandbox
from deltalake import DeltaTable, write_deltalake

from rs_assets import (
    Dimension,
    PipelineComponent,
    SparkResource,
    StreamBuilder,
    StreamTranslator,
    Time,
    TumblingWindow,
    build_definitions,
)
from rs_assets.catalog.offsets import CheckpointRow, storage_named
from rs_assets.common.home import Home
from rs_assets.dagster.assets import events as events_module
from rs_assets.dagster.assets import freshness
from rs_assets.dagster.assets.events import StepEvents, in_words
from rs_assets.dagster.assets.graph import pipeline_graph
from rs_assets.dagster.assets.newest_rows import as_markdown, newest_rows
from rs_assets.dagster.assets.roles import RESERVED
from rs_assets.dagster.assets.stream_assets import StreamAssets
from rs_assets.dagster.place import Place
from rs_assets.dagster.runs.external_runs import job_origin
from rs_assets.dagster.runs.outcome import cause_first
from rs_assets.dagster.sensors import freshness_sensor
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.operators.window.event_time import END_OF_TIME
from rs_assets.runtime.report import BatchProgress

ROWS = [{"page": "/", "ts": 1}]


def pipeline(job="pages", table="pages", **built):
    stream = StreamBuilder.data_stream("shop", job).from_file("in", schema="page string, ts timestamp", name="log")
    windows = stream.window(TumblingWindow.of(Time.seconds(10), "ts"), name="tens").group_by("page").count("n")
    return windows.to_data_stream().to_delta(table).build(**built)


def keys_of(definitions):
    return {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()}


class TestSpecs:
    def test_a_table_goes_by_its_name_and_any_other_step_by_its_own(self):
        assert keys_of(build_definitions([pipeline()])) == {"shop/pages/log", "shop/pages/tens", "shop/pages/pages"}
        assert keys_of(build_definitions(each for each in [pipeline()])) == keys_of(build_definitions([pipeline()]))

    def test_a_step_that_is_called_as_a_table_says_what_it_is(self):
        keys = keys_of(build_definitions([pipeline(table="lake/tens")]))
        assert keys == {"shop/pages/log", "shop/pages/tens_state", "shop/pages/tens"}

    def test_two_tables_of_one_name_go_by_their_steps(self):
        stream = StreamBuilder.data_stream("shop", "two").from_array(ROWS)
        stream.to_delta("a/pages", name="one")
        made = stream.to_delta("b/pages", name="other").build()
        assert keys_of(build_definitions([made])) == {"shop/two/array", "shop/two/one", "shop/two/other"}

    def test_a_pipeline_is_a_group_and_says_what_it_is_and_whose(self):
        made = pipeline(description="Views by page.", owners=["team:web"])
        specs = {spec.key.path[-1]: spec for spec in build_definitions([made]).resolve_all_asset_specs()}
        assert {spec.group_name for spec in specs.values()} == {"shop_pages"}
        assert all(list(spec.owners) == ["team:web"] for spec in specs.values())
        assert specs["pages"].description == "Appends rows to the Delta table `pages`.\n\nViews by page."
        assert {name: spec.kinds for name, spec in specs.items()} == {
            "log": {"source", "file"},
            "tens": {"spark"},
            "pages": {"table", "deltalake"},
        }

    def test_an_owner_that_is_none_is_refused_at_the_build(self):
        with pytest.raises(TopologyError, match=r"(?s)'web' is not an owner.*'team:web'"):
            pipeline(owners=["web"])

    @pytest.mark.parametrize(("described", "what"), [(AssetSpec("same"), "one key, same"), (None, "by a NoneType")])
    def test_a_translator_that_describes_no_assets_is_refused(self, described, what):
        class Bad(StreamTranslator):
            def get_asset_spec(self, step):
                return described

        with pytest.raises(ConfigurationError, match=what):
            build_definitions([pipeline()], translator=Bad())

    def test_names_that_are_one_in_dagster_are_refused(self):
        made = [
            StreamBuilder.data_stream(space, job).from_array(ROWS).to_delta("pages").build()
            for space, job in (("web", "shop_pages"), ("web_shop", "pages"))
        ]
        with pytest.raises(TopologyError, match=r"web.shop_pages and web_shop.pages are both called web_shop_pages"):
            build_definitions(made)

    def test_a_translator_is_believed_everywhere(self):
        class Lake(StreamTranslator):
            def get_asset_spec(self, step):
                spec = super().get_asset_spec(step)
                return spec.replace_attributes(key=spec.key.with_prefix("lake"), group_name="lake")

        definitions = build_definitions([pipeline()], translator=Lake())
        graph = definitions.resolve_asset_graph()
        table = graph.get(AssetKey(["lake", "shop", "pages", "pages"]))
        assert (table.group_name, table.parent_keys) == ("lake", {AssetKey(["lake", "shop", "pages", "tens"])})
        assert {key.asset_key.path[0] for key in graph.asset_check_keys} == {"lake"}


class TestMerge:
    def test_definitions_merge_with_one_another_and_with_ones_own(self):
        @asset
        def mine(spark: SparkResource) -> None: ...

        own = Definitions(assets=[mine], resources={"spark": SparkResource(), "run": 1, "mem": 2})
        resources = {"spark": SparkResource.configure_at_launch(memory="2g")}
        merged = Definitions.merge(
            own, *(build_definitions([pipeline(job)], resources=resources) for job in ("one", "two", "three"))
        )
        repository = merged.get_repository_def()
        repository.load_all_definitions()
        assert {f"shop_{job}_{name}" for job in ("one", "two") for name in ("run", "start", "upkeep")} <= set(
            repository.job_names
        )

    def test_what_stands_on_a_table_starts_by_itself_when_it_got_rows(self):
        table = AssetKey(["shop", "pages", "pages"])

        @asset(deps=[table], automation_condition=AutomationCondition.eager())
        def report() -> None: ...

        merged = Definitions.merge(Definitions(assets=[report]), build_definitions([pipeline()]))
        with DagsterInstance.ephemeral() as instance:
            before = evaluate_automation_conditions(merged, instance)
            for key in ("log", "tens", "pages"):
                instance.report_runless_asset_event(AssetMaterialization(AssetKey(["shop", "pages", key])))
            after = evaluate_automation_conditions(merged, instance, cursor=before.cursor)
        assert before.total_requested == 0
        assert after.get_num_requested(AssetKey("report")) == 1


# Dagster's own reading of defs.yaml.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
def test_pipelines_are_a_component_of_a_defs_folder(tmp_path, monkeypatch):
    module = tmp_path / "component_pipelines.py"
    module.write_text(
        "from rs_assets import StreamBuilder\n"
        'flow = StreamBuilder.data_stream("shop", "made").from_array([{"n": 1}]).to_delta("made").build()\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            component_cls=PipelineComponent,
            defs_yaml_contents={
                "type": "rs_assets.PipelineComponent",
                "attributes": {"modules": ["component_pipelines"]},
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=folder) as (component, definitions):
            assert component.modules == ["component_pipelines"]
            assert keys_of(definitions) == {"shop/made/array", "shop/made/made"}


def test_dg_lists_the_component():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [module] = project["entry-points"][DG_PLUGIN_ENTRY_POINT_GROUP].values()
    assert dict(get_package_objects_in_module(import_module(module))) == {"PipelineComponent": PipelineComponent}


class TestEvents:
    PROGRESS = BatchProgress(
        query="tens", steps=frozenset({"log", "tens", "pages_table"}), batch_id=7, rows_in=3, rows_dead=0, rows_late=0,
        rows_out={"pages_table": 3}, seconds=0.2,
    )  # fmt: skip

    def events(self, tables, *, live=True, computing_s=float, said=lambda _: None, **how):
        heard = []
        log = SimpleNamespace(info=said, warning=said)
        run = SimpleNamespace(run_id="r", tags={})
        instance = SimpleNamespace(get_run_by_id=lambda _: run)
        context = SimpleNamespace(log=log, log_event=heard.append, run=run, instance=instance)
        place = Place(home=Home(Path(next(iter(tables.values()))) / "home"))
        events = StepEvents(
            StreamAssets.of(pipeline()), context, place, live=live, tables=tables, computing_s=computing_s, **how
        )
        events.put(self.PROGRESS)
        return events, heard

    def test_a_stream_shows_its_tables_while_it_runs(self, tmp_path, monkeypatch):
        monkeypatch.setattr(events_module, "LIVE_EVERY_S", 0.0)
        write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}))
        events, heard = self.events({"pages_table": str(tmp_path)})
        events.close()
        told = {event.asset_key.path[-1]: event.metadata for event in heard}
        assert told["pages"]["dagster/row_count"].value == 3
        assert told["pages"]["newest_rows"].value.startswith("| n |")
        columns = told["pages"]["dagster/column_schema"].value.columns
        assert [(column.name, column.type) for column in columns] == [("n", "bigint")]

    def test_the_last_batches_of_a_stream_are_shown_though_no_other_comes(self, tmp_path, monkeypatch):
        monkeypatch.setattr(events_module, "LIVE_EVERY_S", 1.0)
        events, heard = self.events({"pages_table": str(tmp_path)})
        events.put(replace(self.PROGRESS, batch_id=8))
        deadline = time.monotonic() + 120
        while len(heard) < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        shown = [event.metadata["batch"].value for event in heard]
        events.close()
        assert shown == ["7"] * 3 + ["8"] * 3

    def test_the_end_of_a_stream_counts_all_its_batches_though_a_check_takes_long(self, tmp_path, monkeypatch):
        monkeypatch.setattr(events_module, "CLOSED_WITHIN_S", 0.01)
        begun, go_on = threading.Event(), threading.Event()

        def judge(_going):
            if threading.current_thread().name == "rs-events":
                begun.set()
                go_on.wait()

        events, _ = self.events({"pages_table": str(tmp_path)}, judge=judge)
        begun.wait()
        for batch in (8, 9):
            events.put(replace(self.PROGRESS, batch_id=batch))
        events.close()
        told = events.metadata("pages_table", "output")
        go_on.set()
        assert (told["batch"], told["batches"], told["rows_out"]) == ("9", 3, 9)
        events._thread.join()

    @pytest.mark.parametrize(
        ("seconds", "told"),
        [
            (0.0, "waiting for input"),
            (95.4, "a batch has been computed for 95 s"),
        ],
    )
    def test_a_stream_without_a_new_batch_says_why(self, tmp_path, monkeypatch, seconds, told):
        monkeypatch.setattr(events_module, "WAITING_EVERY_S", 0.01)
        heard = threading.Event()

        def listen(text):
            if text == f"{told}; batches so far: 1":
                heard.set()

        events, _ = self.events({"pages_table": str(tmp_path)}, computing_s=lambda: seconds, said=listen)
        assert heard.wait(120)
        events.close()

    def test_a_table_that_cannot_be_shown_fails_no_run(self, tmp_path):
        write_deltalake(str(tmp_path), pa.table({"n": [1]}))
        next(tmp_path.glob("*.parquet")).unlink()
        events, _ = self.events({"pages_table": str(tmp_path)}, live=False)
        events.close()
        told = events.metadata("pages_table", "output")
        assert (told["rows_out"], "newest_rows" in told) == (3, False)
        assert "Dagster does not show the table of pages_table" in events.failures.warnings[0]

    def test_times_that_python_lacks_are_shown(self, tmp_path):
        times = pa.array([253_402_300_800_000_000, -(10**18)], pa.timestamp("us", "UTC"))
        nested = pa.StructArray.from_arrays([times], ["at"])
        write_deltalake(str(tmp_path), pa.table({"at": times, "in": nested}))
        _, _, *rows = newest_rows(DeltaTable(str(tmp_path))).splitlines()
        assert [row.split()[1] for row in rows] == ["10000-01-01", "-29719-04-05"]

    def test_rows_are_shown_as_they_are_and_no_mark_of_theirs_counts(self):
        head, _, line = as_markdown([{"a|b": "x\r\n![i](http://e/x.png) <b>"}]).splitlines()
        assert (head, line) == ("| a\\|b |", r"| x \!\[i\](http://e/x.png) \<b\> |")

    def test_the_newest_rows_come_from_the_last_files_with_their_partitions(self, tmp_path):
        path = str(tmp_path / "t t")
        for n in (1, 2):
            rows = pa.table({"n": [n], "day": [f"d {n}"], "text": ["a|b\nc"]})
            write_deltalake(path, rows, mode="append", partition_by=["day"])
        head = "| n | text | day |\n|---|---|---|\n"
        assert newest_rows(DeltaTable(path), 1) == head + "| 2 | a\\|b c | d 2 |"
        assert newest_rows(DeltaTable(path)) == head + "| 2 | a\\|b c | d 2 |\n| 1 | a\\|b c | d 1 |"

    def test_newest_rows_have_the_columns_that_the_table_has_now(self, tmp_path):
        write_deltalake(str(tmp_path), pa.table({"n": [1]}))
        write_deltalake(str(tmp_path), pa.table({"n": [2], "m": [3]}), mode="append", schema_mode="merge")
        assert newest_rows(DeltaTable(str(tmp_path))).splitlines()[2:] == ["| 2 | 3 |", "| 1 |  |"]

    def test_a_table_without_rows_shows_none(self, tmp_path):
        write_deltalake(str(tmp_path), pa.table({"n": pa.array([], pa.int64())}))
        assert newest_rows(DeltaTable(str(tmp_path))) == ""

    def test_more_columns_than_fit_are_counted(self):
        head = as_markdown([{f"c{n}": "x" * 99 for n in range(15)}]).splitlines()
        assert head[0].endswith("| c11 | 3 more |")
        assert len(head[2].split(" | ")[1]) == 60

    def test_a_batch_in_words(self):
        progress = BatchProgress(
            query="tens", steps=frozenset(), batch_id=7, rows_in=1200, rows_dead=0, rows_late=3,
            rows_out={"pages": 40, "other": 0}, seconds=0.26,
        )  # fmt: skip
        assert in_words(progress) == "tens, batch 7: 1,200 rows in, 40 to pages, 3 late; 0.3 s"


def test_a_run_of_the_terminal_belongs_to_the_location_of_the_workspace(tmp_path, monkeypatch):
    from rs_assets.dagster.runs import external_runs as recorded

    monkeypatch.setattr(recorded, "project_folder", lambda: tmp_path)
    assert job_origin("j").repository_origin.code_location_origin.location_name == "rs_assets.definitions"
    (tmp_path / "workspace.yaml").write_text(
        "load_from:\n  - python_module:\n      module_name: pipelines.definitions\n      location_name: mine\n"
    )
    origin = job_origin("shop_pages_run")
    assert (origin.job_name, origin.repository_origin.repository_name) == ("shop_pages_run", "__repository__")
    assert origin.repository_origin.code_location_origin.location_name == "mine"


class TestFreshness:
    def stored(self, place, watermark):
        row = CheckpointRow(
            namespace="shop", group="pages", topic="log", name="tens", queue="a", offset="1", query="tens",
            generation=1, batch_id=0, run_id="r", at=datetime.now(UTC), watermark=watermark,
        )  # fmt: skip
        storage_named("delta", catalog=place.catalog).save([row])

    def test_a_promise_that_cannot_be_measured_is_refused_at_the_build(self):
        flow = StreamBuilder.data_stream("shop", "flat").from_array(ROWS).to_delta("flat")
        with pytest.raises(TopologyError, match="fresh_within needs a step with event time"):
            flow.build(fresh_within=Time.minutes(5))
        with pytest.raises(TopologyError, match="fresh_within must be a time, not 5"):
            pipeline(fresh_within=5)

    def test_event_time_that_is_too_old_fails_without_a_run_and_is_told_once(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RS_HOME", str(tmp_path))
        made = pipeline(fresh_within=Time.minutes(5))
        sensor = freshness_sensor(StreamAssets.of(made))

        def tick(cursor=None):
            result = sensor(build_sensor_context(cursor=cursor))
            return (result, result.asset_events[0]) if isinstance(result, SensorResult) else (result, None)

        first, told = tick()
        assert not told.passed
        self.stored(Home(tmp_path), datetime.now(UTC) - timedelta(minutes=1))
        second, told = tick(first.cursor)
        assert told.passed
        assert (told.asset_key, told.check_name) == (AssetKey(["shop", "pages", "pages"]), "event_time_is_fresh")
        assert 60 <= told.metadata["watermark_lag_seconds"].value < 120
        assert isinstance(tick(second.cursor)[0], SkipReason)
        monkeypatch.setattr(freshness, "datetime", Later)
        assert not tick(second.cursor)[1].passed

    @pytest.mark.parametrize(("ahead", "passed"), [(timedelta(minutes=4), True), (timedelta(days=1), False)])
    def test_a_watermark_of_the_future_is_not_fresh(self, ahead, passed):
        told = freshness.event_time_is_fresh(datetime.now(UTC) + ahead, timedelta(minutes=5))
        assert (told.passed, "ahead of the clock" in (told.description or "")) == (passed, not passed)

    def test_where_nobody_can_know_it_is_not_fresh(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RS_HOME", str(tmp_path))
        made = StreamAssets.of(pipeline(fresh_within=Time.minutes(5)))
        manifest = Place().job(made.topology) / "manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.write_text("{")
        [told] = freshness_sensor(made)(build_sensor_context()).asset_events
        assert (told.passed, "the manifest is damaged" in told.description) == (False, True)

    def test_an_input_that_has_ended_is_fresh_and_one_without_event_times_is_not(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RS_HOME", str(tmp_path))
        made = pipeline(fresh_within=Time.minutes(5))
        assert freshness.event_time_is_fresh(END_OF_TIME - timedelta(days=30), timedelta(minutes=5)).passed
        self.stored(Home(tmp_path), datetime.fromtimestamp(0, UTC))
        assert freshness.watermarks(made.topology, Place()) == {}

    def test_without_a_promise_there_is_no_check(self):
        assert freshness_sensor(StreamAssets.of(pipeline())) is None
        checks = build_definitions([pipeline(fresh_within=Time.hours(1))]).resolve_asset_graph().asset_check_keys
        assert [key.asset_key.path[-1] for key in checks if key.name == "event_time_is_fresh"] == ["pages"]


class Later(datetime):
    """A clock that goes ten minutes ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(minutes=10)


def test_what_is_looked_up_in_a_table_of_another_pipeline_depends_on_its_asset():
    def stream(job):
        return StreamBuilder.data_stream("shop", job).from_array([{"k": "a"}], name="rows")

    users, missing = Dimension.from_delta("users"), Dimension.from_delta("/elsewhere/users")
    writing = stream("users").to_delta("users").build()
    behind = stream("clicks").dim_join(users, on="k").dim_join(missing, on="k", prefix="m_")
    behind = behind.with_fields(ts="current_timestamp()").distinct(
        "k", within=Time.hours(1), time_field="ts", name="once"
    )
    reading = behind.to_delta("clicks").build()
    circle = stream("circle").dim_join(Dimension.from_delta("square"), on="k").to_delta("circle").build()
    square = stream("square").dim_join(Dimension.from_delta("circle"), on="k").to_delta("square").build()
    own = stream("own").dim_join(Dimension.from_delta("own"), on="k").to_delta("own").build()
    specs = build_definitions([reading, writing, circle, square, own]).resolve_all_asset_specs()
    above = {spec.key.to_user_string(): {dep.asset_key.to_user_string() for dep in spec.deps} for spec in specs}
    assert above["shop/clicks/once"] == {
        *("shop/clicks/rows", "shop/users/users"),
        "shop/clicks/dim_join_2_dimension",
    }
    assert above["shop/clicks/clicks"] == {"shop/clicks/once"}
    for name in ("circle", "square", "own"):
        assert above[f"shop/{name}/{name}"] == {f"shop/{name}/rows"}


def test_a_step_may_have_any_name():
    """Also the one of the op that processes the batches, and those that Dagster and Python reserve."""
    assert {*DISALLOWED_NAMES} == {*RESERVED, *keyword.kwlist}
    for name in ("process", *sorted(each for each in DISALLOWED_NAMES if each.islower())):
        stream = StreamBuilder.data_stream("test", "named").from_array([{"id": 1}]).to_table("id", name=name)
        pipeline = stream.to_delta("ids").build()
        build_definitions([pipeline]).get_repository_def()
        ops = {node.name for node in pipeline_graph(StreamAssets.of(pipeline)).nodes}
        assert ops == {"array", "ids_table", "Process", name if name == "process" else name.capitalize()}


def test_the_launchpad_of_upkeep_begins_with_an_action_to_choose():
    pipeline = StreamBuilder.data_stream("shop", "kept").from_array([{"k": "a"}]).to_delta("kept").build()
    job = build_definitions([pipeline]).resolve_job_def("shop_kept_upkeep")
    assert job.run_config == {"ops": {"upkeep": {"config": {"verify": {}}}}}


@pytest.mark.parametrize("mode", ["run", "start"])
def test_a_retry_that_a_launch_asks_for_repeats_all_steps_because_frames_are_in_memory(mode):
    pipeline = StreamBuilder.data_stream("shop", "kept").from_array([{"k": "a"}]).to_delta("kept").build()
    job = build_definitions([pipeline]).resolve_job_def(f"shop_kept_{mode}")
    with DagsterInstance.ephemeral() as instance:
        asked = instance.create_run_for_job(job, tags={**job.run_tags, "dagster/max_retries": "2"})
        assert get_reexecution_strategy(asked, instance) is ReexecutionStrategy.ALL_STEPS


def test_a_failure_of_ours_is_told_with_its_remedy_before_the_traces():
    said = []
    context = SimpleNamespace(log=SimpleNamespace(error=lambda text, *values: said.append(text % values)))
    with pytest.raises(ConfigurationError), cause_first(context):
        raise ConfigurationError("the port is taken", remedy="choose another one")
    assert len(said) == 1
    assert "the port is taken" in said[0]
    assert "choose another one" in said[0]

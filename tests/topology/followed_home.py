"""Remedies of what lies in a home and in modules: savepoints, checkpoints, versions, copies; no Spark."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner
from deltalake import write_deltalake
from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField, StructType

from rs_assets import Dimension, KafkaCluster
from rs_assets.catalog.catalog import Catalog
from rs_assets.catalog.deployments import LAST, SCHEMA, DeploymentTable, Version
from rs_assets.catalog.offsets.base import in_order, newest_of_each, row_of
from rs_assets.checkpoint.manifest import Manifest, QueryFacts
from rs_assets.cli.main import main
from rs_assets.cli.recorded.dead_letters import export
from rs_assets.cli.setup.init import write_project
from rs_assets.common.home import Home
from rs_assets.compile.planner.context import declared_dimension
from rs_assets.compile.planner.plan import plan_queries
from rs_assets.connectors.sqlite.table import Table
from rs_assets.dagster.discovery import find_pipelines
from rs_assets.deploy.supervisor import Supervisor
from rs_assets.deploy.texts import pipeline_of
from rs_assets.errors import RsError
from rs_assets.operators.dimension.loading import FunctionLoader, conformed
from rs_assets.operators.dimension.spec import LoaderOrigin
from rs_assets.operators.shuffle.cut import end_of
from rs_assets.operators.shuffle.topic import TopicShuffle
from rs_assets.operators.state.served import POINTER, ServedState
from rs_assets.operators.state.snapshot import state_at
from rs_assets.recovery import restore_marker
from rs_assets.recovery.savepoints.copy import queries_of
from rs_assets.recovery.savepoints.listing import _names
from rs_assets.recovery.savepoints.retention import retention
from rs_assets.recovery.savepoints.store import SavepointStore
from rs_assets.runtime.options import RunOptions, SavepointPolicy
from rs_assets.runtime.report import RunReport
from rs_assets.runtime.upkeep.ownership import newest_savepoint
from rs_assets.runtime.upkeep.savepoints import check_rewind, savepoint
from rs_assets.runtime.upkeep.state import _log
from rs_assets.spark.jars import maven_url
from rs_assets.testing import PipelineDriver
from tests.topology.followed_files import within
from tests.topology.followed_programs import BROKER, MINUTE, Case, built, counted, from_kafka, hits, two
from tests.topology.followed_settings import environment

SQL = """CREATE TABLE clicks (page STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE pages (page STRING) WITH ('connector' = 'delta', 'table' = 'pages');
INSERT INTO pages SELECT page FROM clicks
"""
ID = "20261121T004512.123456Z-b000042-0a1b2c"
LETTERS = pa.table({"record": ["{"]})
FIELD = StructType([StructField("a", LongType())])
COPY = "recovery/savepoints/copy.py::queries_of"
UPKEEP = "runtime/upkeep/savepoints.py"


def damaged_catalog(folder: Path) -> Path:
    log = Catalog(folder).path("pipelines") / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("spoiled")
    return folder


def moved_away(folder: Path) -> object:
    catalog = Catalog(damaged_catalog(folder))
    catalog.path("pipelines").rename(folder / "away")
    return catalog.last("pipelines", pipeline="shop.a")


def commands(folder: Path, *every: tuple[str, ...]) -> None:
    """Commands over a home of their own, with a file of SQL; the remedy of the first that is refused."""
    (folder / "a.sql").write_text(SQL)
    with environment(RS_HOME=str(folder / "rs")):
        for command in (("deploy", str(folder / "a.sql"), "--name", "shop.totals"), *every):
            done = CliRunner().invoke(main, command)
            if done.exit_code:
                raise RsError("the command is refused", remedy=done.output.partition("remedy: ")[2].strip())


def version(**columns: object) -> object:
    return pipeline_of(Version(**{"pipeline": "shop.totals", "version": 1, "text": SQL, **columns}))  # type: ignore[arg-type]


def after_last(folder: Path, name: str) -> int:
    """The version after the greatest one of `shop.totals`."""
    table = DeploymentTable(folder / "deployments")
    table.add("shop.totals", text=SQL)
    row = pa.Table.from_pylist([{**dict.fromkeys(SCHEMA.names), "pipeline": "shop.totals", "version": LAST}], SCHEMA)
    write_deltalake(str(table.path), row, mode="append")
    return table.add(name, text=SQL)


def options(folder: Path) -> RunOptions:
    return RunOptions(home=Home(folder), savepoints=SavepointPolicy(uri=str(folder / "savepoints")))


def facts(folder: Path, *, there: bool) -> object:
    if there:
        (folder / "g0001" / "q" / "checkpoint").mkdir(parents=True)
    return queries_of(folder, replace(Manifest.new(), queries={"q": QueryFacts(generation=1, query_id="x")}))


def served(folder: Path, pointer: str | None) -> object:
    if pointer is not None:
        (folder / POINTER).write_text(pointer)
    return ServedState(folder)


def report(folder: Path) -> object:
    made = RunReport(
        pipeline="shop.a", run_id="r", generation=1, seconds=1, sealed=False, queries=(), tables={"t": str(folder)}
    )
    return made.table("t")


def table(folder: Path, ddl: str, name: str = "t") -> object:
    with closing(sqlite3.connect(folder / "a.db")) as database:
        database.execute(ddl)
        return Table(database, name).columns()


def module(folder: Path, text: str) -> object:
    (folder / "followed_module.py").write_text(text)
    sys.modules.pop("followed_module", None)
    sys.path.insert(0, str(folder))
    try:
        return find_pipelines(("followed_module",))
    finally:
        sys.path.remove(str(folder))


def leaves() -> list[dict[str, int]]:
    raise SystemExit(1)


def raises() -> list[dict[str, int]]:
    raise OSError("away")


def mapped(key: object) -> StructType:
    return StructType([StructField("m", MapType(key, LongType()))])  # type: ignore[arg-type]


def looked_up(schema: str | None) -> object:
    users = Dimension.from_file("users.csv", format="csv", schema=schema)
    pipeline = built(hits().dim_join(users, on={"page": "user"}, name="users"))
    return declared_dimension(pipeline.topology["users"])


def maven_settings(folder: Path) -> object:
    (folder / ".m2").mkdir()
    (folder / ".m2" / "settings.xml").write_text("<a>")
    return maven_url({"HOME": str(folder)})


def mixed() -> object:
    one, other = two()
    first = counted(one, name="first").to_data_stream().select_fields("page", "end_time")
    plain = other.with_fields(end_time="ts").select_fields("page", "end_time")
    return plan_queries(built(counted(first.union(plain), window=MINUTE, name="second")).topology)


def shuffle() -> TopicShuffle:
    return TopicShuffle(topic="t", cluster=KafkaCluster(bootstrap_servers=BROKER), partitions=2, noted=Path("noted"))


STREAM = (
    "from rs_assets import StreamBuilder\nhits = StreamBuilder.data_stream('shop', 'found').from_array([{'n': 1}])\n"
)
CASES = [
    Case(
        "catalog/catalog.py::Catalog._open",
        within(lambda folder: Catalog(damaged_catalog(folder)).last("pipelines", pipeline="shop.a")),
        "move it away",
        within(moved_away),
    ),
    Case(
        "cli/recorded/dead_letters.py::export",
        within(lambda folder: [export(LETTERS, folder / "a") for _ in range(2)]),
        "name a new file",
        within(lambda folder: [export(LETTERS, folder / name) for name in "ab"]),
    ),
    Case(
        "cli/recorded/dead_letters.py::export",
        within(lambda folder: export(LETTERS, folder / "none" / "a")),
        "name another file",
        within(lambda folder: export(LETTERS, folder / "a")),
    ),
    Case(
        "cli/setup/init.py::write_project",
        within(lambda folder: [write_project(folder / "a") for _ in range(2)]),
        "name a new folder: rs-assets init my_project",
        within(lambda folder: [write_project(folder / name) for name in ("a", "my_project")]),
    ),
    Case(
        "cli/sql/deploy.py::deploy",
        within(lambda folder: commands(folder, ("deploy", "shop.totals", "--rollback", "1", "--stop"))),
        "give one of them",
        within(lambda folder: commands(folder, ("deploy", "shop.totals", "--rollback", "1"))),
    ),
    Case(
        "cli/sql/deploy.py::_deployed",
        within(lambda folder: commands(folder, ("deploy", str(folder / "none.sql")))),
        "name a file of SQL",
        within(lambda folder: commands(folder, ("deploy", str(folder / "a.sql")))),
    ),
    Case(
        "cli/sql/deploy.py::deployments",
        within(lambda folder: commands(folder, ("deployments", "shop.totals", "--text", "9"))),
        "see: rs-assets deployments NAME",
        within(lambda folder: commands(folder, ("deployments", "shop.totals"))),
    ),
    Case(
        "deploy/supervisor.py::Supervisor._standing",
        within(lambda folder: Supervisor("shop.totals", options(folder / "rs")).run()),
        "rs-assets deploy FILE",
        within(commands),
    ),
    Case(
        "deploy/texts.py::pipeline_of",
        lambda: version(fault="its state is 'runing'"),
        "append a row with a greater version",
        version,
    ),
    Case(
        "deploy/texts.py::pipeline_of",
        lambda: version(text="totals.sql"),
        "put the text of the file into the row: rs-assets deploy FILE",
        version,
    ),
    Case(
        COPY,
        within(lambda folder: queries_of(folder, Manifest.new())),
        "run it first",
        within(lambda folder: facts(folder, there=True)),
    ),
    Case(
        COPY,
        within(lambda folder: facts(folder, there=False)),
        "restore a savepoint",
        within(lambda folder: facts(folder, there=True)),
    ),
    Case(
        "recovery/savepoints/listing.py::_names",
        within(lambda folder: [(folder / "a\\b").touch(), _names(folder, folders=False)]),
        "move it away",
        within(lambda folder: [(folder / "a").touch(), _names(folder, folders=False)]),
    ),
    Case(
        "recovery/restore_marker.py::refuse",
        within(
            lambda folder: [(folder / restore_marker.FILE).write_text(f"restore {ID}"), restore_marker.refuse(folder)]
        ),
        f"restore the savepoint again: {ID}",
        None,
    ),
    Case(
        "recovery/savepoints/retention.py::retention",
        within(lambda folder: retention(SavepointStore(str(folder)), "shop", "a", keep=0)),
        "set keep to 1 or more",
        within(lambda folder: retention(SavepointStore(str(folder)), "shop", "a", keep=1)),
    ),
    Case(
        "recovery/savepoints/store.py::SavepointStore.load",
        within(lambda folder: SavepointStore(str(folder)).load("shop", "a", ID)),
        "list the savepoints to see which there are",
        within(lambda folder: SavepointStore(str(folder)).savepoints("shop", "a")),
    ),
    Case(
        "runtime/upkeep/ownership.py::newest_savepoint",
        within(lambda folder: newest_savepoint(options(folder), "shop", "a")),
        "take one: rs-assets savepoint",
        None,
    ),
    Case(
        f"{UPKEEP}::_stored",
        within(lambda folder: savepoint(built(hits()).topology, options(folder))),
        "run it first",
        None,
    ),
    Case(
        f"{UPKEEP}::check_rewind",
        within(lambda folder: check_rewind(built(hits()).topology, 0, options(folder))),
        "run it first",
        None,
    ),
    Case(
        "runtime/upkeep/state.py::_log",
        within(
            lambda folder: _log(built(counted()).topology, plan_queries(built(counted()).topology)[0], options(folder))
        ),
        "run it first",
        None,
    ),
    Case(
        "runtime/report.py::RunReport.table",
        within(report),
        "look into its folder",
        None,
    ),
    Case(
        "operators/state/served.py::ServedState.__init__",
        within(lambda folder: served(folder, None)),
        "take a snapshot: rs-assets state NAME STEP --refresh",
        None,
    ),
    Case(
        "operators/state/served.py::_facts",
        within(lambda folder: served(folder, "spoiled")),
        "remove the folder: the next snapshot makes a new one",
        None,
    ),
    Case(
        "operators/state/snapshot.py::snapshot_at",
        within(lambda folder: state_at(str(folder))),
        "take one: rs-assets state NAME STEP --refresh",
        None,
    ),
    Case(
        "operators/dimension/loading.py::_unfit",
        lambda: conformed(pa.table({"a": ["x"]}), FIELD, step="users"),
        "correct the rows, or declare another type",
        lambda: conformed(pa.table({"a": [1.0]}), FIELD, step="users"),
    ),
    Case(
        "operators/dimension/loading.py::conformed",
        lambda: conformed(pa.table({"b": [1]}), FIELD, step="users"),
        "it has: b",
        lambda: conformed(pa.table({"b": [1]}).rename_columns(["a"]), FIELD, step="users"),
    ),
    Case(
        "operators/dimension/loading.py::FunctionLoader.load",
        lambda: FunctionLoader(LoaderOrigin(leaves)).load(FIELD),
        "raise an exception of another kind when a load fails",
        None,
    ),
    Case(
        "operators/shuffle/cut.py::_opened",
        within(lambda folder: end_of(folder, 1)),
        "put it back, or restore a savepoint (rs-assets restore)",
        None,
    ),
    Case(
        "operators/shuffle/topic.py::TopicShuffle.check",
        lambda: shuffle().check(mapped(IntegerType()), step="s"),
        "map_entries(field)",
        lambda: shuffle().check(mapped(StringType()), step="s"),
    ),
    Case(
        "connectors/sqlite/table.py::Table.columns",
        within(lambda folder: table(folder, "CREATE TABLE other (id INTEGER PRIMARY KEY)")),
        "create it, or correct its name",
        within(lambda folder: table(folder, "CREATE TABLE t (id INTEGER PRIMARY KEY)")),
    ),
    Case(
        "connectors/sqlite/table.py::Table.columns",
        within(lambda folder: table(folder, "CREATE TABLE t (page TEXT)")),
        "add one: id INTEGER PRIMARY KEY AUTOINCREMENT",
        within(lambda folder: table(folder, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, page TEXT)")),
    ),
    Case(
        "compile/planner/context.py::declared_dimension",
        lambda: looked_up(None),
        "declare it: schema='user string, tier string'",
        None,
    ),
    Case(
        "dagster/discovery.py::_in_module",
        within(lambda folder: module(folder, STREAM)),
        "hits = ....to_delta('table').build()",
        within(lambda folder: module(folder, STREAM + "hits = hits.to_delta('table').build()\n")),
    ),
    Case(
        "dagster/discovery.py::_raised",
        within(lambda folder: module(folder, STREAM + "1 / 0\n")),
        "mend it there",
        within(lambda folder: module(folder, STREAM + "hits = hits.to_delta('table').build()\n")),
    ),
    Case(
        "spark/jars.py::maven_url",
        within(maven_settings),
        "correct them, or set RS_MAVEN_URL",
        lambda: maven_url({"RS_MAVEN_URL": "https://mirror.example/maven"}),
    ),
    Case(
        "common/node.py::equal_names",
        lambda: replace(built(hits()).topology, nodes=(*built(hits()).topology.nodes, *built(hits()).topology.nodes)),
        "name one of them: name='...', or .to_table(name='...') for a group of a table",
        None,
    ),
    Case(
        "topology/chain.py::_nearest",
        mixed,
        "after each stateful step that is united here",
        None,
    ),
    Case(
        "runtime/run/preview.py::_not_alone",
        lambda: from_kafka().preview(),
        "give rows: .preview([{...}])",
        None,
    ),
    Case(
        "catalog/deployments.py::DeploymentTable.add",
        within(lambda folder: after_last(folder, "shop.totals")),
        "deploy it under another name",
        within(lambda folder: after_last(folder, "shop.others")),
    ),
    Case(
        "catalog/offsets/base.py::_damaged",
        lambda: row_of({"key": "a"}, key="a"),
        "remove that row from the storage; the next batch writes a new one",
        lambda: (newest_of_each([]), in_order([])),
    ),
    Case(
        "testing/driver.py::PipelineDriver._replaced",
        lambda: PipelineDriver(built(hits(schema=None))),
        "declare it",
        lambda: PipelineDriver(built(hits(schema="page string"))),
    ),
]

"""A new project, what a machine lacks, and the folder that relative paths are meant from. No Spark."""

import importlib
import json
import shlex
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from rs_assets.cli.main import main
from rs_assets.cli.setup import doctor
from rs_assets.cli.setup.init import orders, write_project
from rs_assets.common.home import Home
from rs_assets.common.project import project_folder
from rs_assets.connectors.files.nodes import FileSource
from rs_assets.dagster.instance import ensure_home
from rs_assets.errors import ConfigurationError, UserError
from rs_assets.spark.jars import SPARK


def own_modules():
    """Loaded modules of packages that a new project has, and this one too."""
    return {name: module for name, module in sys.modules.items() if name.split(".")[0] in {"pipelines", "resources"}}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A new project; the working directory is a folder of it."""
    write_project(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop" / "data")
    for name in ("RS_HOME", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "shop"), *sys.path])
    known = own_modules()
    for name in known:
        del sys.modules[name]
    yield tmp_path / "shop"
    for name in own_modules():
        del sys.modules[name]
    sys.modules.update(known)


def call(*arguments):
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output


def test_the_next_commands_of_a_new_project_can_be_copied_to_a_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = call("init", "our shop's orders")
    command = next(line.strip() for line in said.splitlines() if line.startswith("  cd "))
    assert (code, shlex.split(command)) == (0, ["cd", "our shop's orders"])


def test_a_new_project_has_what_it_needs(shop):
    files = {path.relative_to(shop).as_posix() for path in shop.rglob("*") if path.is_file()}
    assert files == {
        "pyproject.toml", "README.md", ".gitignore", "workspace.yaml", "definitions.py", "data/orders.csv",
        "pipelines/__init__.py", "pipelines/orders.py", "resources/__init__.py", "tests/test_orders.py",
    }  # fmt: skip
    assert not [path for path in shop.rglob("*") if path.is_file() and "{{" in path.read_text()]
    assert len(list(orders())) == 301
    assert call("list") == (0, "shop.revenue_by_country  orders -> hours -> revenue  bounded\n")


def test_dagster_loads_what_the_project_lists_and_what_is_deployed(shop, monkeypatch):
    """Wherever it is started."""
    monkeypatch.chdir("/")
    monkeypatch.setenv("RS_HOME", str(shop / ".rs"))
    (shop / "pipelines" / "more.py").write_text(
        "from rs_assets import StreamBuilder\n"
        "stream = StreamBuilder.data_stream('shop', 'more').from_array([{'n': 1}])\n"
        "pipeline = stream.to_delta('more').build()\n"
    )
    settings = (shop / "pyproject.toml").read_text()
    (shop / "pyproject.toml").write_text(settings.replace('.orders"]', '.orders", "pipelines.more"]'))
    defs = importlib.import_module("definitions").defs
    jobs = {job.name for job in defs.resolve_all_job_defs()}
    assert {"shop_revenue_by_country_run", "shop_more_run", "rs_deployed"} <= jobs
    assert "rs_deployments" in {sensor.name for sensor in defs.sensors}


def test_what_is_there_is_not_written_over(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    code, text = call("init", str(tmp_path))
    assert (code, "README.md already exists" in text, "remedy: " in text) == (1, True, True)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("name", ["...", "9lives", "ä"])
def test_a_project_needs_a_name(tmp_path, name):
    with pytest.raises(UserError):
        write_project(tmp_path / name)


def test_the_project_s_folder_is_the_one_that_paths_are_meant_from(shop, monkeypatch):
    assert project_folder() == shop
    assert Home.default().root == shop / ".rs"
    assert Home.default().table("shop", "out/table") == str(shop / "out" / "table")
    assert FileSource(name="a", path="data/orders.csv", format="csv").path == str(shop / "data" / "orders.csv")
    monkeypatch.setenv("RS_HOME", "here")
    assert Home.default().root == shop / "data" / "here"
    monkeypatch.setenv("DAGSTER_HOME", "")
    assert ensure_home() == shop / ".dagster"


def test_without_a_project_it_is_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    monkeypatch.chdir(tmp_path)
    assert project_folder() == tmp_path
    assert FileSource(name="a", path="x.json").path == str(tmp_path / "x.json")


def refused(*args, **options):
    raise ConfigurationError("it is not there", remedy="run `rs-assets setup`")


def of_other_versions(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: ["pyspark==1.0", "none-such>=2 ; python_version > '3'"])


def with_a_lost_jar(monkeypatch):
    monkeypatch.setattr(type(SPARK), "complete", True)
    monkeypatch.setenv("RS_S3_JARS", "/none")


LACKS = {
    "Python": (lambda m: m.setattr(sys, "version_info", (3, 10, 1)), "Python 3.11 to 3.13"),
    # Not "rs-assets": who has only its wheel has no index with it.
    "packages": (of_other_versions, "python -m pip install pyspark==1.0 'none-such>=2'"),
    "Java": (lambda m: m.setattr("rs_assets.spark.java.java_home", refused), "rs-assets setup"),
    "jars": (lambda m: m.setenv("RS_JARS", "/none"), "rs-assets setup"),
    "S3": (with_a_lost_jar, "rs-assets setup --s3"),
    "project": (lambda m: m.chdir("/"), "rs-assets init"),
    "pipelines": (lambda m: Path("../pipelines/orders.py").write_text("1 / 0"), "mend it there"),
    "RS_HOME": (lambda m: m.setenv("RS_HOME", "/proc/none"), "export RS_HOME"),
    "DAGSTER_HOME": (lambda m: m.setenv("DAGSTER_HOME", "/proc/none"), "export DAGSTER_HOME"),
    "disk": (lambda m: m.setattr(doctor, "LEAST_FREE_BYTES", 1 << 60), "RS_HOME"),
}


@pytest.mark.parametrize("what", LACKS)
@pytest.mark.usefixtures("shop")
def test_the_doctor_tells_what_is_missing_and_what_mends_it(what, monkeypatch):
    spoil, remedy = LACKS[what]
    monkeypatch.setattr("rs_assets.spark.java.java_home", lambda: Path("/java"))
    monkeypatch.setattr(type(SPARK), "verify", lambda jars: jars.paths())
    assert set(LACKS) == set(doctor.LOOKS)
    assert [each.what for each in doctor.findings() if not each.good] == []
    for name in own_modules():
        del sys.modules[name]
    spoil(monkeypatch)
    code, text = call("doctor", "--json")
    wrong = {each["what"]: each["remedy"] for each in json.loads(text) if not each["good"]}
    assert code == 1
    assert remedy in wrong[what]
    assert set(wrong) <= {what, "pipelines", "disk"}


def test_the_set_up_says_what_it_did(monkeypatch):
    monkeypatch.setattr("rs_assets.spark.java.java_home", lambda: Path("/java"))
    monkeypatch.setattr(type(SPARK), "fetch", lambda jars: jars.jars[:2])
    monkeypatch.setattr("rs_assets.cli.setup.rehearsal.archive_classes", lambda: "archived in /classes")
    code, text = call("setup")
    assert (code, "2 fetched now" in text, "Java: /java" in text, "classes: archived in /classes" in text) == (
        (0, True, True, True)
    )
    monkeypatch.setattr(type(SPARK), "fetch", refused)
    code, text = call("setup")
    assert (code, "it is not there" in text) == (1, True)


def test_rows_of_a_table_are_shown(shop):
    code, text = call("show", "revenue_by_country")
    assert (code, "does not exist yet" in text) == (1, True)
    assert "run its pipeline: rs-assets run NAME" in text
    path = Home.default().table("shop", "revenue_by_country")
    write_deltalake(path, pa.table({"country": ["DE", "FR"], "revenue": [1.5, 2.5]}))
    code, text = call("show", "revenue", "--rows", "1")
    assert (code, "revenue (2 rows)" in text, "DE" in text, "FR" in text, path in text) == (0, True, True, False, True)
    code, text = call("show", "revenue_by_country", "--json")
    assert (code, json.loads(text)["first"][1]["country"]) == (0, "FR")
    code, text = call("show", "revenues")
    assert (code, "use one of: revenue_by_country, revenue" in text) == (1, True)

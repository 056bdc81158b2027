"""How Spark is reached, and what is said of settings that it does not take."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pyspark
import pytest
from pyspark.sql import SparkSession

from rs_assets.common.scratch import own_folder
from rs_assets.dagster.resources.spark import SparkResource
from rs_assets.errors import ConfigurationError
from rs_assets.spark import driver
from rs_assets.spark.driver import OPEN_FILES, SparkDriver, make_session
from rs_assets.spark.java import java_home
from rs_assets.spark.settings import LOG_SETTINGS, MEANING, SparkSettings


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_should_be_reached_from_this_machine_only(master):
    settings = SparkSettings(master=master)
    conf = settings.conf()
    assert {conf["spark.driver.host"], conf["spark.driver.bindAddress"]} == {"127.0.0.1"}
    # Spark's UI would listen everywhere.
    assert settings.environment() == {"SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.parametrize("memory_gb", [8, 256])
def test_a_lean_heap_begins_small_however_large_the_machine_is(memory_gb):
    options = SparkSettings(memory="512m", lean=True).conf()["spark.driver.extraJavaOptions"].split()
    machine = [f"-XX:MaxRAM={memory_gb}g", "-Xmx512m", "-XX:+PrintFlagsFinal", "-version"]
    told = subprocess.check_output([str(java_home() / "bin" / "java"), *options, *machine], text=True)
    first = re.search(r"InitialHeapSize\s*=\s*(\d+)", told)
    assert first is not None
    assert int(first[1]) == 64 << 20


@pytest.mark.parametrize("master", ["spark://10.0.0.5:7077", "yarn"])
def test_should_refuse_a_cluster_whose_workers_cannot_reach_the_driver(master, monkeypatch):
    with pytest.raises(ConfigurationError, match="would look for the driver on their own machines") as refused:
        SparkSettings(master=master).conf()
    assert "RS_DRIVER_HOST" in refused.value.remedy
    monkeypatch.setenv("RS_DRIVER_HOST", "10.0.0.7")
    for settings in (
        SparkSettings(master=master),
        SparkSettings(master=master, extra={"spark.driver.host": "10.0.0.7"}),
    ):
        conf = settings.conf()
        assert {conf["spark.driver.host"], conf["spark.driver.bindAddress"]} == {"10.0.0.7"}


def test_should_say_which_setting_spark_does_not_take(spark, driver, monkeypatch):
    def refused(_builder):
        # What Spark's own code raises for text where it expects a number.
        return driver.call(lambda session: session._jvm.java.lang.Integer.parseInt("many"))

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refused)
    with pytest.raises(ConfigurationError, match='For input string: "many"') as told:
        make_session(SparkSettings(master="local[2]", partitions=2))
    assert "at java" not in str(told.value)


def test_java_has_its_temporary_files_in_the_folder_of_its_process(spark):
    assert spark._jvm.java.lang.System.getProperty("java.io.tmpdir") == str(own_folder("/tmp").folder)


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_java_has_its_temporary_files_where_the_user_says(name):
    assert driver._files_of_java({name: "-Xmx1g -Djava.io.tmpdir=/disk"}) is None


def test_a_java_that_may_open_few_files_says_so():
    code = (
        "from rs_assets.spark.driver import SparkDriver; print(SparkDriver.shared().call(lambda spark: spark.version))"
    )
    limited, allowed = (
        subprocess.run(
            ["bash", "-c", f'ulimit -n {files}; exec "$0" "$@"', sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
        )
        for files in (256, OPEN_FILES)
    )
    assert limited.returncode == 1
    assert "let this process open more files than 256: ulimit -n 1024" in limited.stderr
    assert allowed.stdout.split() == [pyspark.__version__]


def test_the_gateway_has_the_level_of_the_root_else_spark_tells_on_each_start_that_it_sets_it():
    lines = (line.partition("=") for line in LOG_SETTINGS.read_text(encoding="utf-8").splitlines() if "=" in line)
    told = {name.strip(): value.strip() for name, _, value in lines}
    assert told["logger.gateway.name"] == "org.apache.spark.api.python.PythonGatewayServer"
    assert told["logger.gateway.level"] == told["rootLogger.level"]


def test_a_driver_that_could_not_start_spark_does_not_try_again_at_its_end(monkeypatch):
    tries = []

    def refuse(settings):
        tries.append(settings)
        raise ConfigurationError("a jar is missing", remedy="run `rs-assets setup`")

    monkeypatch.setattr(driver, "make_session", refuse)
    mine = SparkDriver()
    with pytest.raises(ConfigurationError, match="a jar is missing"):
        mine.call(lambda session: session)
    mine.stop()
    assert len(tries) == 1


def test_who_does_not_wait_for_the_end_of_a_process_sees_no_trace(monkeypatch):
    stopped = []

    def press_ctrl_c(driver):
        stopped.append(driver)
        raise KeyboardInterrupt

    ends = []
    monkeypatch.setattr(SparkDriver, "_shared", None)
    monkeypatch.setattr(SparkDriver, "stop", press_ctrl_c)
    monkeypatch.setattr(driver.atexit, "register", lambda function, *given: ends.append((function, given)))
    mine = SparkDriver.shared()
    [(function, given)] = ends
    function(*given)
    assert stopped == [mine]


@pytest.mark.parametrize(
    ("profile", "heap", "bounded"), [("", "1g", None), ("normal", "1g", None), ("lean", "512m", "true")]
)
def test_profile_sets_heap_and_state_stores(profile, heap, bounded, monkeypatch):
    monkeypatch.setenv("RS_PROFILE", profile)
    monkeypatch.delenv("RS_DRIVER_MEMORY", raising=False)
    conf = SparkSettings().conf()
    assert conf["spark.driver.memory"] == heap
    assert conf.get("spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage") == bounded
    first_compiler_alone = "-XX:TieredStopAtLevel=1" in conf["spark.driver.extraJavaOptions"].split()
    assert first_compiler_alone == (profile == "lean")


def test_profile_leaves_a_heap_that_is_given(monkeypatch):
    monkeypatch.setenv("RS_PROFILE", "lean")
    monkeypatch.setenv("RS_DRIVER_MEMORY", "300m")
    assert SparkSettings().conf()["spark.driver.memory"] == "300m"
    assert SparkResource().settings().lean
    assert not SparkResource(lean=False).settings().lean


def test_unknown_profile_is_refused(monkeypatch):
    monkeypatch.setenv("RS_PROFILE", "tiny")
    with pytest.raises(ConfigurationError, match="'tiny'") as refused:
        SparkSettings()
    assert refused.value.remedy == "use lean or normal"
    monkeypatch.setenv("RS_PROFILE", "lean")
    assert SparkSettings().lean


def test_without_its_ui_spark_keeps_few_plans_that_are_over():
    kept = "spark.sql.ui.retainedExecutions"
    assert SparkSettings().conf()[kept] == "50"
    assert kept not in SparkSettings(ui=True).conf()
    assert SparkSettings(extra={kept: "7"}).conf()[kept] == "7"


# Other values for some of them, as a machine's spark-defaults.conf may have, and what they would make of a step.
ODD = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}


def test_meanings_are_the_defaults_of_spark_in_sessions_of_users_too(spark):
    mine = driver._own_session(spark)
    for name, value in ODD.items():
        mine.conf.set(name, value)
    assert mine.range(1).selectExpr("try_cast('x' AS int) IS NULL", "int(2147483647) + int(1) < 0").first() == (
        True,
        True,
    )
    SparkDriver._borrow(mine)
    assert {name: mine.conf.get(name) for name in MEANING} == dict(MEANING)
    assert MEANING.items() <= SparkSettings().conf().items()


@pytest.mark.long
def test_meanings_hold_whatever_the_defaults_of_the_machine_are(tmp_path):
    odd = {**ODD, "spark.hadoop.fs.defaultFS": "hdfs://nowhere:8020"}
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in odd.items()))
    (tmp_path / "names.csv").write_text("number,name\n2147483647,greatest\n")
    program = """
from rs_assets import Dimension, MemoryChannel, StreamBuilder
names = Dimension.from_file("names.csv", schema="number int, name string")
rows, schema = [{"Id": 2147483647, "at": "2026-01-05 11:00:00"}], "Id int, at timestamp"
def made(job, text):
    out = MemoryChannel()
    made = StreamBuilder.data_stream("shop", job).from_array(rows, schema=schema)
    made.dim_join(names, on={"Id": "number"}).map(text).to_memory(out).build().run()
    return out.rows()[0]["made"]
if __name__ == "__main__":
    print(made("texts", "concat_ws(' ', id, name, typeof(at), to_json(named_struct('x', null, 'y', 1))) AS made"))
    try:
        print(made("sum", "id + 1 AS made"))
    except Exception as error:
        print(error)
"""
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "RS_HOME": str(tmp_path / "home")}
    told = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment, cwd=tmp_path)
    assert '2147483647 greatest timestamp {"y":1}' in told
    assert "overflow" in told

"""Access to object stores, given once: who gets which options, and that secrets are not shown."""

from __future__ import annotations

import fsspec
import pytest
from dagster import EnvVar

from rs_assets import Home, RunResource, StreamBuilder, use_storage
from rs_assets.cli.setup.doctor import findings
from rs_assets.common.storage import spark_options, storage_options
from rs_assets.compile.sink import by_connector, writer_of
from rs_assets.errors import ConfigurationError, TopologyError
from rs_assets.spark import object_store
from rs_assets.spark.settings import SparkSettings
from tests.project.test_archive import JARS

GIVEN = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "me"}
VARIABLES = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    use_storage({})


def test_each_client_gets_the_options_by_its_own_names(monkeypatch):
    monkeypatch.setenv("LAKE_SECRET", "hidden")
    use_storage({**GIVEN, "AWS_SECRET_ACCESS_KEY": EnvVar("LAKE_SECRET")})
    assert storage_options("s3a://lake/t") == {
        **GIVEN,
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "AWS_ALLOW_HTTP": "true",
    }
    assert storage_options("gs://lake/t") is None
    assert spark_options()["fs.s3a.secret.key"] == "hidden"
    assert spark_options()["fs.s3a.endpoint"] == GIVEN["AWS_ENDPOINT_URL"]
    fs, _ = fsspec.core.url_to_fs("s3://lake/savepoints", skip_instance_cache=True)
    assert (fs.key, fs.secret, fs.endpoint_url) == ("me", "hidden", GIVEN["AWS_ENDPOINT_URL"])
    assert fs.client_kwargs["region_name"] == "eu-central-1"


def test_the_environment_is_enough(monkeypatch):
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    # delta-rs reads the rest by itself.
    assert storage_options("s3://lake/t") == {"AWS_ALLOW_HTTP": "true"}
    assert spark_options()["fs.s3a.endpoint"] == GIVEN["AWS_ENDPOINT_URL"]


def test_a_run_of_the_launchpad_gives_the_options_to_its_process(tmp_path):
    RunResource(home=str(tmp_path), object_stores=GIVEN).place()
    assert storage_options("s3://lake/t") == {**GIVEN, "AWS_ALLOW_HTTP": "true"}
    # A run without any keeps them: they may have been given by the program.
    RunResource(home=str(tmp_path)).place()
    assert storage_options("s3://lake/t") is not None


def test_an_option_of_another_name_and_a_reference_without_a_value_are_refused(monkeypatch):
    with pytest.raises(ConfigurationError, match="'endpoint' is not an option") as refused:
        use_storage({"endpoint": "http://127.0.0.1:9000"})
    assert "AWS_ENDPOINT_URL" in refused.value.remedy
    monkeypatch.delenv("LAKE_SECRET", raising=False)
    with pytest.raises(ConfigurationError, match="AWS_SECRET_ACCESS_KEY of object stores is empty"):
        use_storage({"AWS_SECRET_ACCESS_KEY": EnvVar("LAKE_SECRET")})


def test_the_connector_inside_spark_is_refused_for_a_bucket():
    source = StreamBuilder.data_stream("shop", "copy").from_array([{"n": 1}])
    with pytest.raises(TopologyError, match="does not exclude a second writer") as refused:
        source.to_delta("s3://lake/t", connector="jvm").build()
    assert refused.value.remedy == "leave connector= out"
    assert source.to_delta("s3://lake/t").build()


def test_a_run_cannot_choose_the_connector_inside_spark_for_a_bucket(tmp_path):
    copy = StreamBuilder.data_stream("shop", "copy").from_array([{"n": 1}]).to_delta("s3://lake/t").build()
    sink = by_connector(copy.topology.sinks[0], "jvm")
    with pytest.raises(TopologyError, match="does not exclude a second writer in s3://lake/t"):
        writer_of(sink, Home(tmp_path), "shop")


def test_both_names_of_s3_are_one_place():
    rows = StreamBuilder.data_stream("shop", "loop").from_delta("s3a://lake/t", schema="n bigint")
    assert "s3://lake/t" in rows.to_delta("s3://lake/u").build().describe()
    with pytest.raises(TopologyError):
        rows.to_delta("s3://lake/t").build()


def test_jars_for_s3_leave_the_archive_of_classes_valid(tmp_path):
    more = (tmp_path / "hadoop-aws.jar",)
    with_s3, without = (SparkSettings(master="local[2]").conf(JARS, added) for added in (more, ()))
    assert with_s3.pop("spark.jars") == str(more[0])
    assert with_s3 == without
    sent = SparkSettings(master="spark://127.0.0.1:7077").conf(JARS, more)["spark.jars"]
    assert sent == f"{JARS[0]},{more[0]}"


def test_the_doctor_says_how_to_read_from_s3(monkeypatch, tmp_path):
    monkeypatch.setenv("RS_S3_JARS", str(tmp_path / "none"))
    assert object_store.s3_jars() == ()
    found = next(each for each in findings() if each.what == "S3")
    assert found.good
    assert object_store.FETCH in found.found

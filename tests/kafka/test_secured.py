"""Credentials on a real broker: TLS, logins and rules; what is wrong is said soon, and no password is ever shown."""

from __future__ import annotations

import logging
import traceback
import uuid
import zipfile
from dataclasses import replace

import orjson
import pyarrow.parquet as pq
import pytest
from dagster import DagsterInstance, EnvVar

from rs_assets import MemoryChannel, StreamBuilder, build_definitions, pipeline_from_sql
from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.source.groups import GroupMirror
from rs_assets.errors import ConfigurationError, RsError, SourceReadError
from rs_assets.testing import BrokerSecurity, KafkaBroker
from rs_assets.testing.servers.kafka_security import Certificates

# With everything that has a meaning in one of the places it is written to.
CORE = "hunter2VerySecret"
SECRET = f"{CORE} \"\\;$'"
WRONG = "wrongVerySecret"
DELIVERIES = ["at_least_once", "exactly_once"]


@pytest.fixture(scope="module")
def secured():
    security = BrokerSecurity(users={"shop": SECRET, "clerk": SECRET})
    with KafkaBroker(security=security) as started:
        started.deny("clerk", "ALL", transactional_id="*")
        started.deny("clerk", "READ", group="*")
        yield started


@pytest.fixture
def shop(secured, monkeypatch):
    """How the user `shop` connects."""
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    monkeypatch.setenv("WRONG_PASSWORD", WRONG)
    return replace(secured.cluster, username="shop", password=EnvVar("SHOP_PASSWORD"))


@pytest.fixture
def filled(secured):
    """A topic with two records."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    secured.create_topic(name)
    secured.produce(name, [b'{"id":1}', b'{"id":2}'])
    return name


@pytest.fixture(autouse=True)
def _logs_are_clean(caplog):
    """Whatever is logged, also by those who log what they send."""
    for name in ("kafka", "py4j"):
        caplog.set_level(logging.DEBUG, name)
    yield
    for phase in ("setup", "call"):
        refuse_secrets("\n".join(record.getMessage() for record in caplog.get_records(phase)))


def refuse_secrets(text):
    assert [secret for secret in (CORE, WRONG, "PRIVATE KEY") if secret in text] == []


def written(folder):
    """The text of all files in `folder`, packed or not."""
    for path in (p for p in folder.rglob("*") if p.is_file()):
        if path.suffix == ".parquet":
            yield str(pq.ParquetFile(path).read().to_pylist())
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from (archive.read(name).decode("latin-1") for name in archive.namelist())
        else:
            yield path.read_bytes().decode("latin-1")


def copying(cluster, topic, outs=None):
    """From `topic`, with the schema inferred, into one topic for each delivery."""
    stream = StreamBuilder.data_stream("test", "secured").from_kafka(cluster, topic, group=f"g-{topic}")
    for delivery in DELIVERIES:
        stream = stream.to_kafka(cluster, outs[delivery], delivery=delivery)
    return stream.build()


def as_job(pipeline, folder):
    """Runs the pipeline as Dagster's job; what Dagster keeps of the run, as text."""
    definitions = build_definitions([pipeline])
    config = {
        "resources": {
            "rs_spark": {"config": {"share": True}},
            "rs_run": {"config": {"home": str(folder)}},
        },
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }
    with DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("test_secured_run").execute_in_process(
            run_config=config, instance=instance
        )
        assert result.success
        return f"{list(instance.all_logs(result.run_id))} {list(definitions.resolve_all_asset_specs())}"


def directly(pipeline, options):
    return str(pipeline.run(options))


class SparksEvents:
    """What Spark tells of its work: the events of its log, and the plans that its REST interface answers with."""

    def __init__(self, session, folder):
        folder.mkdir()
        java, context, self.folder = session._jvm, session.sparkContext._jsc.sc(), folder
        scheduler = java.org.apache.spark.scheduler
        settings = context.getConf().set("spark.eventLog.compress", "false")
        self.log = scheduler.EventLoggingListener(
            "secured", java.scala.Option.empty(), java.java.net.URI(folder.as_uri()), settings,
            context.hadoopConfiguration(),
        )  # fmt: skip
        self.log.start()
        self.context, self.plans = context, session._jsparkSession.sharedState().statusStore()
        context.addSparkListener(self.log)

    def told(self):
        self.context.listenerBus().waitUntilEmpty()
        self.context.removeSparkListener(self.log)
        self.log.stop()
        runs = self.plans.executionsList()
        shown = [runs.apply(n).physicalPlanDescription() for n in range(runs.size())]
        return "\n".join([*shown, *(path.read_text() for path in self.folder.rglob("*") if path.is_file())])


def shuffling(cluster, topic):
    stream = StreamBuilder.data_stream("test", "shuffled").from_kafka(cluster, topic, schema="id bigint")
    shuffled = stream.shuffle(1, keys=["id"], strategy="kafka", bootstrap_servers=cluster)
    return shuffled.to_memory(MemoryChannel()).build()


def test_should_show_no_password_in_plans_and_events_of_spark(secured, shop, filled, driver, options, tmp_path):
    outs = {delivery: f"{filled}-{delivery}" for delivery in DELIVERIES}
    for out in outs.values():
        secured.create_topic(out)
    events = driver.call(lambda session: SparksEvents(session, tmp_path / "events"))
    assert copying(shop, filled, outs).run(options).rows_out == 4
    assert shuffling(shop, filled).run(options).rows_out == 2
    told = driver.call(lambda _: events.told())
    assert "SparkListenerSQLExecutionStart" in told
    refuse_secrets(told)


@pytest.mark.parametrize(("mechanism", "in_dagster"), [("PLAIN", False), ("SCRAM-SHA-512", True)])
def test_should_read_infer_and_write_and_show_no_password(
    secured, shop, filled, options, tmp_path, mechanism, in_dagster
):
    outs = {delivery: f"{filled}-{delivery}" for delivery in DELIVERIES}
    for out in outs.values():
        secured.create_topic(out)
    pipeline = copying(replace(shop, mechanism=mechanism), filled, outs)
    told = as_job(pipeline, options.home.root) if in_dagster else directly(pipeline, options)
    for out in outs.values():
        assert sorted(orjson.loads(record.value)["id"] for record in secured.read(out)) == [1, 2]
    with connected(secured.cluster) as admin:
        assert admin.group_offsets(f"g-{filled}") == {(filled, 0): 2}
    refuse_secrets(f"{told} {pipeline!r} {pipeline.describe()} {pipeline.topology!r}")
    files = list(written(tmp_path))
    assert any(filled in text for text in files)
    for text in files:
        refuse_secrets(text)


# What is wrong is said soon.


def reading(cluster, topic, **how):
    stream = StreamBuilder.data_stream("test", "reading").from_kafka(cluster, topic, **how)
    return stream.to_memory(MemoryChannel()).build()


def read(cluster, topic):
    return reading(cluster, topic, schema="id bigint")


def writing(delivery):
    def build(cluster, topic):
        stream = StreamBuilder.data_stream("test", "writing").from_array([{"id": 3}], schema="id bigint")
        return stream.to_kafka(cluster, topic, delivery=delivery).build()

    return build


WAYS = {"read": read, "infer": reading, **{delivery: writing(delivery) for delivery in DELIVERIES}}


def refused(pipeline, options, match):
    """The error that ends a run: soon, of ours, with a remedy, and without secrets in all that it is chained to."""
    with pytest.raises(RsError, match=match) as caught:
        pipeline.run(options)
    assert caught.value.remedy
    assert caught.value.remedy != "the cause is chained to this error"
    refuse_secrets("".join(traceback.format_exception(caught.value)) + repr(caught.value.facts))
    return caught.value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-512", marks=pytest.mark.long)])
def test_should_say_that_a_password_is_wrong(shop, filled, options, way, mechanism):
    wrong = replace(shop, password=EnvVar("WRONG_PASSWORD"), mechanism=mechanism)
    error = refused(WAYS[way](wrong, filled), options, "refuses the login")
    assert "password" in error.remedy


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_should_say_that_the_brokers_are_not_trusted(shop, filled, options, tmp_path_factory, way):
    other = Certificates.make(tmp_path_factory.mktemp("other"))
    error = refused(WAYS[way](replace(shop, ca_file=str(other.authority)), filled), options, "certificate")
    assert "ca_file" in error.remedy


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_should_say_that_a_file_is_not_there(shop, filled, options, way):
    error = refused(WAYS[way](replace(shop, ca_file="/not/there.pem"), filled), options, "/not/there.pem")
    assert isinstance(error, ConfigurationError)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_should_say_that_the_brokers_speak_tls(secured, filled, options, way):
    refused(WAYS[way](KafkaCluster.of(secured.bootstrap_servers), filled), options, "use TLS")


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", ["WRITE", "ALL"])
def test_should_say_that_a_topic_is_not_allowed(secured, shop, filled, options, way, operation):
    denied = "READ" if operation == "WRITE" and way in ("read", "infer") else operation
    secured.deny("shop", denied, topic=filled)
    error = refused(WAYS[way](shop, filled), options, filled)
    assert any(word in error.remedy for word in ("let ", "allow "))
    assert len(secured.read(filled)) == 2


def test_should_say_that_a_transactional_id_is_not_allowed(shop, filled, options):
    clerk = replace(shop, username="clerk")
    assert WAYS["at_least_once"](clerk, filled).run(options).rows_out == 1
    error = refused(WAYS["exactly_once"](clerk, filled), replace(options, new_generation=True), "TransactionalId")
    assert "transactional id" in error.remedy


def test_should_say_that_a_group_is_not_allowed_and_read_without_showing_offsets_in_it(secured, shop, filled, options):
    clerk = replace(shop, username="clerk")
    pipeline = reading(clerk, filled, schema="id bigint", group=filled)
    report = pipeline.run(options)
    assert report.rows_in == 2
    assert any("consumer group" in warning for warning in report.warnings)
    mirror = GroupMirror(pipeline.topology["kafka"].cluster, filled, _owed={(filled, 0): 2})
    mirror.close()
    assert isinstance(mirror.failure, SourceReadError)
    assert "consumer group" in mirror.failure.remedy
    with connected(secured.cluster) as admin:
        assert admin.group_offsets(filled) == {}
    begun = reading(clerk, filled, schema="id bigint", group=filled, starting_offsets="committed")
    secured.deny("clerk", "ALL", group=filled)
    refused(begun, replace(options, new_generation=True), "Group")


# Other ways to secure a broker.


def test_should_show_a_certificate_of_its_own_and_say_that_there_is_none(options):
    with KafkaBroker(security=BrokerSecurity(protocol="SSL", client_certificates=True)) as broker:
        broker.create_topic("in")
        broker.produce("in", [b'{"id":1}'])
        assert read(broker.cluster, "in").run(options).rows_in == 1
        none = replace(broker.cluster, certificate_file=None, key_file=None)
        error = refused(read(none, "in"), replace(options, new_generation=True), "certificate of this client")
        assert "certificate_file" in error.remedy


def test_should_refuse_security_that_is_none():
    with pytest.raises(ConfigurationError, match="PLAINTEXT"):
        BrokerSecurity(protocol="PLAINTEXT")


def test_a_login_in_sql_is_read_from_the_environment(secured, shop, filled, options, tmp_path):
    out = f"{filled}-out"
    secured.create_topic(out)
    where = f"""'connector' = 'kafka', 'properties.bootstrap.servers' = '{secured.bootstrap_servers}',
        'properties.security.protocol' = '{shop.protocol}', 'properties.sasl.mechanism' = '{shop.mechanism}',
        'properties.ssl.truststore.location' = '{shop.ca_file}', 'properties.ssl.truststore.type' = 'PEM',
        'properties.sasl.jaas.config' = 'a.LoginModule required username="shop" password="$SHOP_PASSWORD";'"""
    statements = f"""CREATE TABLE a (id BIGINT) WITH ({where}, 'topic' = '{filled}');
        CREATE TABLE b (id BIGINT) WITH ({where}, 'topic' = '{out}'); INSERT INTO b SELECT id FROM a;"""
    assert pipeline_from_sql(statements, job="secured").run(options).rows_out == 2
    refuse_secrets("".join(written(options.home.root)))

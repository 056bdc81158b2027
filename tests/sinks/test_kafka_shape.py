"""What the Kafka sink refuses before it has seen a broker."""

import pytest

from rs_assets import StreamBuilder
from rs_assets.connectors.commits import Commit
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink.settings import python_settings
from rs_assets.connectors.sink import BatchMark
from rs_assets.errors import ConfigurationError, TopologyError

SERVERS = "localhost:9092"


def stream():
    return StreamBuilder.data_stream("test", "shape").from_array([{"n": 1}])


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({}, "needs either a topic or a topic_field"),
        ({"topic": "a", "topic_field": "n"}, "needs either a topic or a topic_field"),
        ({"topic": "no spaces"}, "cannot be the name of a topic"),
        ({"topic": ".."}, "cannot be the name of a topic"),
        ({"topic": "a" * 250}, "cannot be the name of a topic"),
        ({"topic": "a", "delivery": "at_most_once"}, "delivery of step .* must be one of at_least_once"),
        ({"topic": "a", "options": {"bootstrap.servers": "x:1"}}, "cannot be set here"),
        ({"topic": "a", "options": {"sasl.jaas.config": "secret"}}, "cannot be set here"),
        ({"topic": "a", "options": {"linger.ms": 5}}, "cannot be set here"),
    ],
)
def test_should_refuse_options_that_do_not_go_together(how, what):
    with pytest.raises(TopologyError, match=what) as refused:
        stream().to_kafka(SERVERS, **how)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("servers", ["", "nowhere", "host:0", "host:99999", 17, None])
def test_should_refuse_what_is_no_address(servers):
    with pytest.raises(ConfigurationError):
        stream().to_kafka(servers, "a")


@pytest.mark.parametrize("options", [{"interceptor.classes": "x"}, {"linger.ms": "soon"}])
def test_should_refuse_settings_that_transactions_cannot_have(options):
    with pytest.raises(ConfigurationError, match="step 'totals'"):
        python_settings(options, step="totals")


def test_should_show_no_password():
    cluster = KafkaCluster(bootstrap_servers=SERVERS, protocol="SASL_SSL", username="me", password="hush")
    pipeline = stream().to_kafka(cluster, "a").build()
    assert "hush" not in f"{cluster!r} {pipeline.describe()} {pipeline.topology!r}"
    assert 'password="hush"' in cluster.for_spark()["kafka.sasl.jaas.config"]


def test_should_know_the_last_batch_of_its_own_generation_only():
    commit = Commit(generation=2, batch_id=5, token=3, rows=1)
    assert commit.last_batch(BatchMark("p", 2, "s", 6, 3)) == 5
    assert commit.last_batch(BatchMark("p", 3, "s", 0, 4)) == -1

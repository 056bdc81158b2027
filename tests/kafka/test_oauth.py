"""Logins by tokens of OAuth 2.0 on a real broker, which checks their signature and audience."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from dagster import EnvVar

from rs_assets import KafkaCluster, KafkaOAuth, MemoryChannel, StreamBuilder, pipeline_from_sql
from rs_assets.connectors.http.client import Answer
from rs_assets.errors import ConfigurationError, RsError, SourceReadError
from rs_assets.testing import BrokerSecurity, KafkaBroker
from tests.kafka.tokens import AUDIENCE, TokenService

SECRET = "hunter2VerySecret"
OAUTH = "listener.name.clients.oauthbearer"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with TokenService(tmp_path_factory.mktemp("tokens"), client="shop", secret=SECRET) as started:
        yield started


@pytest.fixture(scope="module")
def broker(service):
    keys = f"file://{service.keys}"
    settings = {
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{OAUTH}.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        f"{OAUTH}.sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        f"{OAUTH}.sasl.oauthbearer.jwks.endpoint.url": keys,
        f"{OAUTH}.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    allowed = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={service.keys}",
    )
    security = BrokerSecurity(protocol="SASL_PLAINTEXT")
    with KafkaBroker(settings=settings, java_options=allowed, security=security) as started:
        yield started


@pytest.fixture
def cluster(broker, service, monkeypatch):
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    return KafkaCluster(
        bootstrap_servers=broker.bootstrap_servers,
        protocol="SASL_PLAINTEXT",
        oauth=KafkaOAuth(token_url=service.url, client_id="shop", client_secret=EnvVar("SHOP_SECRET"), scope="streams"),
    )


@pytest.fixture
def filled(broker):
    name = f"t-{uuid.uuid4().hex[:12]}"
    broker.create_topic(name)
    broker.produce(name, [b'{"id":1}', b'{"id":2}'])
    return name


def copying(cluster, topic, delivery):
    stream = StreamBuilder.data_stream("test", "copied").from_kafka(cluster, topic, group=f"g-{topic}")
    return stream.to_kafka(cluster, f"{topic}-out", delivery=delivery).build()


@pytest.mark.parametrize("delivery", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.canary)])
def test_should_read_and_write_by_tokens_and_show_no_secret(broker, cluster, filled, options, delivery):
    broker.create_topic(f"{filled}-out")
    pipeline = copying(cluster, filled, delivery)
    assert pipeline.run(options).rows_out == 2
    assert sorted(orjson.loads(record.value)["id"] for record in broker.read(f"{filled}-out")) == [1, 2]
    assert SECRET not in f"{pipeline!r} {pipeline.describe()} {pipeline.topology!r}"


def reading(cluster, topic):
    stream = StreamBuilder.data_stream("test", "reading").from_kafka(cluster, topic, schema="id bigint")
    return stream.to_memory(MemoryChannel()).build()


@pytest.mark.parametrize(
    ("change", "match", "remedy"),
    [
        ({"client_secret": "wrong"}, "HTTP 401", "client_secret"),
        ({"scope": "other"}, "HTTP 400", "scope"),
        ({"token_url": "http://127.0.0.1:9/token"}, "accepts no request", "token_url"),
    ],
)
def test_should_say_why_there_is_no_token(cluster, filled, options, monkeypatch, change, match, remedy):
    monkeypatch.setattr("rs_assets.connectors.kafka.client.oauth.PATIENCE", timedelta(seconds=1))
    wrong = replace(cluster, oauth=replace(cluster.oauth, **change))
    with pytest.raises(SourceReadError, match=match) as caught:
        reading(wrong, filled).run(options)
    assert remedy in caught.value.remedy
    assert SECRET not in str(caught.value)


def test_should_say_that_the_brokers_do_not_accept_a_token(broker, filled, options, monkeypatch, tmp_path):
    with TokenService(tmp_path, client="shop", secret=SECRET) as other:
        oauth = KafkaOAuth(token_url=other.url, client_id="shop", client_secret=SECRET, scope="streams")
        stranger = KafkaCluster(bootstrap_servers=broker.bootstrap_servers, protocol="SASL_PLAINTEXT", oauth=oauth)
        with pytest.raises(RsError, match="refuses the token of 'shop'") as caught:
            reading(stranger, filled).run(options)
    assert "audience" in caught.value.remedy


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b"[]",
        b'{"access_token": "secret", "expires_in": "soon"}',
        b'{"access_token": "secret", "expires_in": "NaN"}',
        b'{"access_token": "secret", "expires_in": "Infinity"}',
        b'{"access_token": null, "expires_in": 60}',
        b'{"access_token": "", "expires_in": 60}',
    ],
)
def test_an_answer_of_another_service_is_refused_without_showing_it(monkeypatch, answer):
    oauth = KafkaOAuth(token_url="http://127.0.0.1:9/token", client_id="shop", client_secret=SECRET)
    found = Answer(status=200, headers={}, body=answer)
    monkeypatch.setattr("rs_assets.connectors.http.client.HttpClient.ask", lambda *_, **__: found)
    with pytest.raises(SourceReadError, match="not that of a token service") as caught:
        oauth.token()
    assert "token endpoint" in caught.value.remedy
    assert "secret" not in str(caught.value)


def test_a_service_that_repeats_the_secret_does_not_show_it(monkeypatch):
    oauth = KafkaOAuth(token_url="http://127.0.0.1:9/token", client_id="shop", client_secret=SECRET)
    found = Answer(status=401, headers={}, body=f"shop:{SECRET} is unknown".encode())
    monkeypatch.setattr("rs_assets.connectors.http.client.HttpClient.ask", lambda *_, **__: found)
    with pytest.raises(SourceReadError, match=r"HTTP 401 shop:\*\*\* is unknown"):
        oauth.token()


def test_a_token_is_used_until_it_ends(tmp_path):
    with TokenService(tmp_path, client="shop", secret=SECRET) as service:
        oauth = KafkaOAuth(token_url=service.url, client_id="shop", client_secret=SECRET, scope="streams")
        assert oauth.token() == oauth.token()
        assert service.issued == 1
        soon = replace(oauth, client_secret=EnvVar("NOT_SET"))
        with pytest.raises(ConfigurationError, match="client_secret"):
            soon.token()
    with TokenService(tmp_path, client="shop", secret=SECRET, lifetime=20) as service:
        short = replace(oauth, token_url=service.url)
        short.token()
        short.token()
        assert service.issued == 2


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "PLAINTEXT"},
        {"protocol": "SASL_SSL", "username": "me", "password": SECRET},
    ],
)
def test_tokens_where_they_do_not_belong_are_refused(options):
    oauth = KafkaOAuth(token_url="https://host/token", client_id="shop", client_secret=SECRET)
    with pytest.raises(ConfigurationError, match="oauth") as caught:
        KafkaCluster(bootstrap_servers="a:1", oauth=oauth, **options)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("change", [{"client_id": ""}, {"token_url": "host/token"}, {"token_url": "ftp://host"}])
def test_a_client_that_cannot_be_is_refused(change):
    with pytest.raises(ConfigurationError) as caught:
        KafkaOAuth(**{"token_url": "https://host/token", "client_id": "shop", "client_secret": SECRET, **change})
    assert eval(caught.value.remedy, {"KafkaOAuth": KafkaOAuth, "EnvVar": EnvVar})


def test_a_client_in_sql_is_that_of_flink(broker, cluster, filled, options):
    broker.create_topic(f"{filled}-out")
    where = f"""'connector' = 'kafka', 'properties.bootstrap.servers' = '{broker.bootstrap_servers}',
        'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'OAUTHBEARER',
        'properties.sasl.oauthbearer.token.endpoint.url' = '{cluster.oauth.token_url}',
        'properties.sasl.login.callback.handler.class' = '{PACKAGE}.OAuthBearerLoginCallbackHandler',
        'properties.sasl.jaas.config' = '{PACKAGE}.OAuthBearerLoginModule required clientId="shop"
            clientSecret="$SHOP_SECRET" scope="streams";'"""
    statements = f"""CREATE TABLE a (id BIGINT) WITH ({where}, 'topic' = '{filled}');
        CREATE TABLE b (id BIGINT) WITH ({where}, 'topic' = '{filled}-out'); INSERT INTO b SELECT id FROM a;"""
    assert pipeline_from_sql(statements, job="tokens").run(options).rows_out == 2

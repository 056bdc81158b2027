"""What `from_kafka` refuses before anything runs, and what never shows: no broker is needed."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from dataclasses import asdict, fields
from datetime import UTC, datetime

import pytest
from dagster import EnvVar
from hypothesis import given
from hypothesis import strategies as st

from rs_assets import StreamBuilder
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.client.names import checked_group, checked_topic
from rs_assets.connectors.kafka.nodes import KafkaSource
from rs_assets.connectors.kafka.source.losses import Loss
from rs_assets.connectors.kafka.source.offsets import dump_offsets, initial_offsets, parse_offsets, ranges, split_name
from rs_assets.connectors.kafka.source.reading import starting_options
from rs_assets.connectors.source import listed
from rs_assets.errors import CheckpointError, ConfigurationError, RsError, SchemaError, TopologyError

SECRET = "hunter2-very-secret"
GOOD = {"topic": "orders", "schema": "id bigint"}


def begun(servers="127.0.0.1:9092", **source):
    return StreamBuilder.data_stream("tests", "options").from_kafka(servers, **{**GOOD, **source})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topic": None}, "topics or a pattern"),
        ({"pattern": "a.*"}, "topics or a pattern"),
        ({"topic": ""}, "cannot be the name of a topic"),
        ({"topic": ".."}, "cannot be the name of a topic"),
        ({"topic": "a b"}, "cannot be the name of a topic"),
        ({"topic": "a" * 250}, "cannot be the name of a topic"),
        ({"topic": 7}, "cannot be the name of a topic"),
        ({"topics": ["good", "a,b"]}, "cannot be the name of a topic"),
        ({"topics": ["orders"]}, "twice"),
        ({"topic": None, "pattern": "("}, "not a regular expression"),
        ({"topic": None, "pattern": 7}, "not a regular expression"),
        ({"topic": None, "pattern": "(?P<shop>a).*"}, "Java"),
        ({"topic": None, "pattern": "a(?#all).*"}, "Java"),
        ({"bad_records": "dead_letter", "dead_letter_topic": "rs-assets-commits"}, "belongs to"),
        ({"group": ""}, "consumer group"),
        ({"group": "a\nb"}, "consumer group"),
        ({"group": "g" * 256}, "consumer group"),
        ({"format": "xml"}, "not a format"),
        ({"format": "text"}, "has fixed fields"),
        ({"format": "raw"}, "has fixed fields"),
        ({"format": "raw", "schema": None, "metadata": ["key"]}, "all metadata"),
        ({"format": "avro", "schema": None}, "needs the fields of its Avro"),
        ({"metadata": ["colour"]}, "no such metadata"),
        ({"metadata": ["key", "key"]}, "twice"),
        ({"metadata": [["key"]]}, "no such metadata"),
        ({"on_data_loss": "ignore"}, "not a policy for lost records"),
        ({"tombstones": "delete"}, "not a policy for empty values"),
        ({"isolation": "serializable"}, "isolation= must be"),
        ({"max_rows_per_batch": 0}, "positive"),
        ({"max_rows_per_batch": True}, "positive"),
        ({"min_partitions": -1}, "positive"),
        ({"min_partitions": 1.5}, "positive"),
        ({"starting_offsets": "committed"}, "needs a group"),
        ({"starting_offsets": "first"}, "not a starting position"),
        ({"starting_offsets": 17}, "not a starting position"),
        ({"starting_offsets": {}}, "not a starting position"),
        ({"starting_offsets": {"orders": 17}}, "not a starting position"),
        ({"starting_offsets": {"orders": {0: -1}}}, "not a starting position"),
        ({"starting_offsets": {"orders": {0: "17"}}}, "not a starting position"),
        ({"starting_offsets": {"orders": {True: 1}}}, "not a starting position"),
        ({"starting_offsets": [1]}, "not a starting position"),
        ({"starting_offsets": datetime(2024, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"bad_records": "ignore"}, "not a policy"),
        ({"dead_letter_topic": "dead"}, "would get nothing"),
        ({"dead_letter_topic": "d d", "bad_records": "dead_letter"}, "cannot be the name of a topic"),
        ({"dead_letter_topic": "orders", "bad_records": "dead_letter"}, "its own dead letters"),
        ({"dead_letter_topic": "o1", "bad_records": "dead_letter", "topic": None, "pattern": "o."}, "its own dead"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, told):
    with pytest.raises(TopologyError, match=told):
        begun(**options)


def test_a_schema_that_is_no_text_is_refused():
    with pytest.raises(SchemaError):
        begun(schema={"id": "bigint"})


@pytest.mark.parametrize(
    "servers",
    ["", "broker", "broker:", "broker:0", "broker:65536", "broker:x", "a:1,", "a:1,b", "http://a:1", "a b:1", 17, None],
)
def test_addresses_that_are_none_are_refused(servers):
    with pytest.raises(ConfigurationError):
        begun(servers)


@pytest.mark.parametrize("servers", ["a:1", "a:1,b:2", " a:1 , b:2 ", "127.0.0.1:9092", "[::1]:9092", "a-b.c_d:65535"])
def test_addresses_are_taken(servers):
    assert begun(servers).build


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "TLS"},
        {"mechanism": "GSSAPI"},
        {"username": "me"},
        {"password": SECRET},
        {"username": "me", "password": SECRET},
        {"protocol": "SASL_SSL"},
        {"protocol": "SASL_SSL", "username": "me"},
        {"protocol": "SASL_SSL", "password": SECRET},
    ],
)
def test_credentials_that_do_not_go_together_are_refused_without_showing_them(options):
    with pytest.raises(ConfigurationError) as caught:
        KafkaCluster(bootstrap_servers="a:1", **options)
    assert SECRET not in shown(caught.value)


# Secrets.


def shown(*things):
    return " ".join(f"{thing!s} {thing!r} {getattr(thing, 'facts', '')}" for thing in things)


def secured(**more):
    return KafkaCluster(
        bootstrap_servers="a:1", username="me", password=SECRET, protocol="SASL_SSL", key_password=SECRET, **more
    )


def test_passwords_are_never_shown():
    cluster = secured()
    pipeline = begun(cluster).to_print().build()
    node = next(iter(pipeline.topology.sources))
    assert isinstance(node, KafkaSource)
    everything = shown(
        cluster, pipeline, node, pipeline.describe(), pipeline.describe(mermaid=True), node.identity(), node.detail()
    )
    assert SECRET not in everything
    # Nor by those who take everything apart.
    assert SECRET not in shown(asdict(cluster), deepcopy(cluster), [getattr(cluster, f.name) for f in fields(cluster)])
    assert SECRET not in pipeline.topology.fingerprint
    # But they are handed to those who need them.
    assert SECRET in cluster.for_spark()["kafka.sasl.jaas.config"]
    assert cluster.for_python()["sasl_plain_password"] == SECRET


def test_a_password_in_an_address_is_not_repeated():
    with pytest.raises(ConfigurationError) as caught:
        begun(f"me:{SECRET}@broker:9092")
    assert SECRET not in shown(caught.value)


@pytest.mark.parametrize("wrong", [{"topic": "a b"}, {"format": "xml"}, {"starting_offsets": 1}])
def test_errors_of_other_options_do_not_show_passwords(wrong):
    with pytest.raises(RsError) as caught:
        begun(secured(), **wrong)
    assert SECRET not in shown(caught.value)


def test_servers_and_passwords_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("RS_TEST_SERVERS", "a:1,b:2")
    cluster = KafkaCluster.of(EnvVar("RS_TEST_SERVERS"))
    assert cluster.servers == ("a:1", "b:2")
    cluster = KafkaCluster(
        bootstrap_servers="a:1", username="me", password=EnvVar("RS_TEST_PASSWORD"), protocol="SASL_PLAINTEXT"
    )
    begun(cluster).to_print().build()
    monkeypatch.delenv("RS_TEST_PASSWORD", raising=False)
    with pytest.raises(Exception, match="RS_TEST_PASSWORD") as caught:
        cluster.for_spark()
    assert isinstance(caught.value, ConfigurationError)
    # Renewed credentials are read when the next connection is made.
    for password in (SECRET, SECRET + "2"):
        monkeypatch.setenv("RS_TEST_PASSWORD", password)
        assert f'password="{password}"' in cluster.for_spark()["kafka.sasl.jaas.config"]
        assert cluster.for_python()["sasl_plain_password"] == password


def test_servers_of_a_variable_that_is_not_set_name_the_variable(monkeypatch):
    monkeypatch.delenv("RS_TEST_SERVERS", raising=False)
    with pytest.raises(ConfigurationError, match="RS_TEST_SERVERS"):
        begun(EnvVar("RS_TEST_SERVERS"))


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_password_cannot_break_out_of_its_quotes(password):
    jaas = KafkaCluster(bootstrap_servers="a:1", username="me", password=password, protocol="SASL_SSL").for_spark()[
        "kafka.sasl.jaas.config"
    ]
    inside = jaas.partition('password="')[2].removesuffix('";')
    assert inside.replace("\\\\", "\0").replace('\\"', "\1").count('"') == 0
    assert inside.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\") == password


# Names and offsets.

TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in (".", ".."))
OFFSETS = st.dictionaries(
    st.tuples(TOPICS, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), min_size=0, max_size=8
)


@given(TOPICS)
def test_names_that_kafka_allows_are_taken(name):
    assert checked_topic(name, step="s") == name


@given(st.text())
def test_other_names_are_refused_with_the_name(name):
    allowed = 0 < len(name) < 250 and name not in (".", "..") and name.isascii() and not set(name) - ALLOWED
    if allowed:
        assert checked_topic(name, step="s") == name
    else:
        with pytest.raises(TopologyError):
            checked_topic(name, step="s")


ALLOWED = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@given(st.one_of(st.none(), st.integers(), st.text(max_size=300)))
def test_group_ids_are_taken_or_refused_but_never_changed(value):
    with contextlib.suppress(TopologyError):
        assert checked_group(value, step="s") == value


@given(OFFSETS)
def test_offsets_survive_being_written(offsets):
    assert parse_offsets(dump_offsets(offsets)) == offsets
    assert list(parse_offsets(dump_offsets(offsets))) == sorted(offsets)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "17", "null", '"a"', '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": null}}', '{"a": {"0": []}}'],
)
def test_text_that_holds_no_offsets_is_an_error(text):
    with pytest.raises(CheckpointError):
        parse_offsets(text)


@given(OFFSETS, OFFSETS)
def test_a_batch_reads_every_partition_of_its_end_once(start, end):
    made = list(ranges(start, end))
    assert [partition for partition, _, _ in made] == sorted(end)
    assert all(first == start.get(partition, -2) and until == end[partition] for partition, first, until in made)


@given(TOPICS, st.integers(0, 2**31 - 1))
def test_a_split_name_gives_the_partition_back(topic, number):
    name, _, found = split_name((topic, number)).rpartition("-")
    assert (name, int(found)) == (topic, number)


def test_initial_offsets_are_read_as_spark_writes_them(tmp_path):
    assert initial_offsets(tmp_path, "kafka") == {}
    file = tmp_path / "sources" / "kafka" / "0"
    file.parent.mkdir(parents=True)
    for text in (b'v1\n{"t":{"0":7}}', b'\0v1\n{"t":{"0":7}}'):
        file.write_bytes(text)
        assert initial_offsets(tmp_path, "kafka") == {("t", 0): 7}
    for text in (b"", b"v1\n", b"v1\n{junk", b"\xff\xfe"):
        file.write_bytes(text)
        with pytest.raises(CheckpointError):
            initial_offsets(tmp_path, "kafka")


@pytest.mark.parametrize(
    ("starting", "options"),
    [
        ("earliest", {"startingOffsets": "earliest"}),
        ({"a": {1: 5}}, {"startingOffsets": '{"a":{"1":5}}'}),
        (
            datetime(2024, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
            {"startingTimestamp": "1704067200001", "startingOffsetsByTimestampStrategy": "latest"},
        ),
    ],
)
def test_where_to_start_becomes_an_option_of_spark(starting, options):
    assert starting_options(starting) == options


def test_losses_are_told_in_few_words():
    lost = [Loss(topic="t", partition=n, start=1, end=5, why="deleted") for n in range(7)]
    assert str(lost[0]) == "t-0: offsets 1 to 4 (deleted)"
    assert listed(lost).endswith("and 2 partitions more")
    assert "unknown end" in str(Loss(topic="t", partition=0, start=1, end=None, why="gone"))


def test_a_topic_that_the_pipeline_reads_or_that_is_internal_cannot_be_written():
    letters = {"bad_records": "dead_letter", "dead_letter_topic": "letters"}
    for source, sink, told in (
        ({}, "orders", "reads"),
        ({"topic": None, "pattern": "ord.*"}, "orders", "narrow the pattern"),
        ({"topic": None, "topics": ["other", "orders"]}, "orders", "reads"),
        (letters, "letters", "dead letters"),
        ({}, "rs-assets-commits", "belongs to exactly-once sinks"),
        ({}, "rs-assets-shuffle.x", "belongs to exactly-once sinks"),
        ({}, "__consumer_offsets", "belongs to Kafka"),
    ):
        with pytest.raises(TopologyError, match=told):
            begun(**source).to_kafka("127.0.0.1:9092", sink).build()
    # The same name at other brokers, and names that are only alike.
    assert begun().to_kafka("elsewhere:9092", "orders").build()
    assert begun().to_kafka("127.0.0.1:9092", "rs-assets-commits-of-mine").build()
    job = StreamBuilder.data_stream("tests", "options")
    both = [
        job.from_kafka("127.0.0.1:9092", topic, schema="id bigint", name=f"of_{topic}", **more)
        for topic, more in (("letters", {}), ("orders", letters))
    ]
    with pytest.raises(TopologyError, match="reads"):
        both[0].union(both[1]).to_print().build()


def test_settings_of_producers_that_are_misspelt_are_refused_with_what_was_meant():
    for delivery in ("at_least_once", "exactly_once"):
        for options, told in (
            ({"linger": "5"}, "linger.ms"),
            ({"compresion.type": "gzip"}, "compression.type"),
            ({"compression.type": "brotli"}, "gzip"),
            ({"batch.size": "many"}, "batch.size"),
        ):
            with pytest.raises(ConfigurationError, match=told):
                begun().to_kafka("127.0.0.1:9092", "out", delivery=delivery, options=options)
    assert begun().to_kafka("127.0.0.1:9092", "out", options={"retries": "3"}).build()

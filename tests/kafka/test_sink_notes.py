"""The exactly-once sink against brokers that give up what is slow or silent, and against a topic of notes that is gone.

The broker of this file forgets in seconds what others forget in minutes and days.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from rs_assets.connectors.kafka.client.admin import connected
from rs_assets.connectors.kafka.client.cluster import KafkaCluster
from rs_assets.connectors.kafka.sink import commits, exactly_once
from rs_assets.connectors.kafka.sink.exactly_once import TransactionalWriter
from rs_assets.connectors.kafka.sink.shape import RecordShape
from rs_assets.errors import LeaseLostError, SinkError
from rs_assets.testing import KafkaBroker
from tests.kafka.reader import until
from tests.kafka.test_sink import mark

HASTY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
FORGETFUL = {
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "transactional.id.expiration.ms": "6000",
}


@pytest.fixture(autouse=True, params=[True, False], ids=["by tasks", "by the driver"])
def by_tasks(request, monkeypatch):
    """Whether Spark's tasks send, as on one machine, or the driver does, as on a cluster."""
    monkeypatch.setattr(exactly_once, "tasks_share_producers", lambda _: request.param)


@pytest.fixture(scope="module")
def hasty():
    with KafkaBroker(settings=HASTY) as started:
        yield started


@pytest.fixture
def out(hasty):
    name = f"t-{uuid.uuid4().hex[:12]}"
    hasty.create_topic(name, 2)
    return name


@pytest.fixture
def rows(spark, driver):
    return driver.call(lambda session: session.createDataFrame([(1,), (2,)], "n int"))


def writer(broker, out, **settings):
    options = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = KafkaCluster.of(broker.bootstrap_servers)
    return TransactionalWriter(name="sink", cluster=cluster, shape=RecordShape(topic=out), options=options)


def send(driver, sink, rows, batch):
    return driver.call(lambda _: sink.stage(rows, batch))


def state_of(broker, out):
    """What the broker knows of the producer: "Ongoing" and the like, None when it has forgotten it."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        with suppress(KafkaError):
            return admin.describe_transactions([f"{out}/sink"])[f"{out}/sink"].state.name
        return None
    finally:
        admin.close()


def test_should_name_the_time_limit_that_a_batch_has_passed(hasty, out, driver, rows):
    sink, first = writer(hasty, out, transaction_timeout_ms="3000"), mark(0, token=1, pipeline=out)
    staged = send(driver, sink, rows, first)
    until(lambda: state_of(hasty, out) == "COMPLETE_ABORT")
    with pytest.raises(SinkError, match=r"took \d+ s, and its transaction may take 3 s") as refused:
        staged.commit()
    assert "transaction.timeout.ms" in refused.value.remedy
    assert hasty.read(out) == []
    again = writer(hasty, out, transaction_timeout_ms="30000")
    assert not again.committed(first)
    assert send(driver, again, rows, first).commit() == 2
    again.close()
    sink.close()
    assert len(hasty.read(out)) == 2


def test_should_still_tell_of_a_newer_driver_behind_a_slow_batch(hasty, out, driver, rows):
    old, new = writer(hasty, out, transaction_timeout_ms="3000"), writer(hasty, out)
    staged = send(driver, old, rows, mark(0, token=1, pipeline=out))
    until(lambda: state_of(hasty, out) == "COMPLETE_ABORT")
    send(driver, new, rows, mark(0, token=2, pipeline=out)).commit()
    with pytest.raises(LeaseLostError, match="taken over"):
        staged.commit()
    old.close()
    new.close()
    assert len(hasty.read(out)) == 2


@pytest.fixture(scope="module")
def forgetful():
    with KafkaBroker(settings=FORGETFUL) as started:
        yield started


def test_should_go_on_behind_a_silence_in_which_the_brokers_forgot_it(hasty, forgetful, out, driver, rows, monkeypatch):
    monkeypatch.setattr(exactly_once, "IDLE_S", 0.5)
    forgetful.create_topic(out, 2)
    # The first batch of a session takes longer than that broker remembers.
    warm = writer(hasty, out)
    send(driver, warm, rows, mark(0, token=1, pipeline=out)).commit()
    warm.close()
    sink = writer(forgetful, out)
    for number in range(2):
        batch = mark(number, token=1, pipeline=out)
        assert not sink.committed(batch)
        assert send(driver, sink, rows, batch).commit() == 2
        if number == 0:
            until(lambda: state_of(forgetful, out) is None)
    sink.close()
    assert len(forgetful.read(out)) == 4


def test_should_name_the_topic_of_notes_when_it_was_deleted(hasty, out, driver, rows):
    sink, second = writer(hasty, out, max_block_ms="3000"), mark(1, token=1, pipeline=out)
    assert send(driver, sink, rows, mark(0, token=1, pipeline=out)).commit() == 2
    staged = send(driver, sink, rows, second)
    hasty.delete_topic(commits.TOPIC)
    with pytest.raises(SinkError, match=commits.TOPIC) as refused:
        staged.commit()
    assert refused.value.facts["topic"] == commits.TOPIC
    # It does not forget what it has noted itself: an empty topic is not taken for a beginning. A client that sends on
    # while it is closed may find the new topic: then the batch is there, with its note.
    there = None
    with suppress(SinkError):
        there = sink.committed(second)
    assert there is not False
    sink.close()
    assert len(hasty.read(out)) == (4 if there else 2)


def test_should_keep_notes_in_a_topic_that_was_made_to_delete_them(hasty, out, driver, rows):
    with connected(KafkaCluster.of(hasty.bootstrap_servers)) as admin:
        if commits.TOPIC in admin.topics([commits.TOPIC]):
            hasty.delete_topic(commits.TOPIC)
        hasty.create_topic(commits.TOPIC, 1, settings={"cleanup.policy": "delete", "retention.ms": "1000"})
        sink = writer(hasty, out)
        assert not sink.committed(mark(0, token=1, pipeline=out))
        sink.close()
        assert admin.setting(commits.TOPIC, "cleanup.policy") == "compact"


class Notes:
    """A topic of notes whose settings nobody may change, or even see."""

    def __init__(self, policy):
        self.policy = policy

    def topics(self, names):
        return dict.fromkeys(names)

    def setting(self, topic, name):
        return self.policy

    def change_setting(self, topic, name, value):
        return "Topic authorization failed."


def test_should_refuse_a_topic_that_deletes_notes_and_may_not_be_changed():
    with pytest.raises(SinkError, match="deletes commit records") as refused:
        commits.ensure_topic(Notes("delete"))
    assert "--add-config cleanup.policy=compact" in refused.value.remedy
    commits.ensure_topic(Notes("compact"))
    # Who may not look is not kept from writing.
    commits.ensure_topic(Notes(None))


def test_should_wait_for_an_answer_to_a_commit_for_so_long_only(hasty, out, driver, rows):
    sink, first = writer(hasty, out, max_block_ms="2000"), mark(0, token=1, pipeline=out)
    staged = send(driver, sink, rows, first)
    hasty.pause()
    try:
        with pytest.raises(SinkError, match="did not take the batch"):
            staged.commit()
    finally:
        hasty.resume()
    # Whether it got through is found in the notes, and the rows come once.
    again = writer(hasty, out)
    if not again.committed(first):
        send(driver, again, rows, first).commit()
    again.close()
    assert len(hasty.read(out)) == 2


class Stubborn:
    """A producer that cannot abort any more, as behind a commit that timed out."""

    closed = False

    def abort(self):
        raise RuntimeError("Cannot attempt operation abortTransaction")

    def close(self, seconds):
        self.closed = True


def test_should_close_a_producer_that_refuses_to_abort(hasty, out):
    sink = writer(hasty, out)
    sink._producer = producer = Stubborn()
    sink.close()
    assert producer.closed

"""How errors of kafka-python are named; what it does with brokers is in tests/kafka."""

import pytest
from kafka.errors import KafkaError, ProducerFencedError, TopicAuthorizationFailedError

from rs_assets.connectors.kafka.sink.producer import ProducerFailed
from rs_assets.connectors.kafka.sink.python_producer import _kafka_errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProducerFencedError(), "ProducerFenced"),
        (KafkaError(f"Cannot execute transactional method because we are in an error state: {ProducerFencedError()}"),
         "ProducerFenced"),
        (KafkaError((TopicAuthorizationFailedError("orders"),)), "TopicAuthorizationFailed"),
        (KafkaError("something else"), "Kafka"),
        (OSError("away"), "OS"),
    ],
)  # fmt: skip
def test_an_error_is_named_as_the_broker_named_it(error, kind):
    with pytest.raises(ProducerFailed) as failed, _kafka_errors():
        raise error
    assert failed.value.kind == kind

"""Logs of others that hold secrets at their most talkative: what kafka-python and py4j tell of their messages."""

from __future__ import annotations

import logging
import re

# The loggers that write down what is sent: a level of DEBUG for everything must not put passwords into a file.
TALKATIVE = (
    "kafka.admin.client",
    "kafka.consumer.group",
    "kafka.net.connection",
    "kafka.producer.kafka",
    "kafka.protocol.parser",
    "py4j.clientserver",
    "py4j.java_gateway",
)
# Also the bytes of messages, among which are those of a login.
SECRET = re.compile(r"password|SaslAuthenticate|SaslBytes|PRIVATE KEY|Send: bytearray", re.IGNORECASE)


def keep_quiet() -> None:
    """Drop records that hold secrets from these loggers; may be called again."""
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(_harmless)


def _harmless(record: logging.LogRecord) -> bool:
    return SECRET.search(record.getMessage()) is None

"""Keeps secrets out of the debug logs of kafka-python and py4j."""

from __future__ import annotations

import logging
import re

# Loggers that log messages as sent: a DEBUG level for everything must not write passwords to a file.
TALKATIVE = (
    "kafka.admin.client",
    "kafka.consumer.group",
    "kafka.net.connection",
    "kafka.producer.kafka",
    "kafka.protocol.parser",
    "py4j.clientserver",
    "py4j.java_gateway",
)
# Includes the raw bytes of messages, since some of them are logins.
SECRET = re.compile(r"password|SaslAuthenticate|SaslBytes|PRIVATE KEY|Send: bytearray", re.IGNORECASE)


def keep_quiet() -> None:
    """Drop log records with secrets from these loggers; may be called again."""
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(_harmless)


def _harmless(record: logging.LogRecord) -> bool:
    return SECRET.search(record.getMessage()) is None

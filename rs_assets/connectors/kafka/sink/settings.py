"""Producer settings as given (Java names, texts) and for kafka-python; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from rs_assets.errors import ConfigurationError


def _codec(name: str) -> str | None:
    if name == "none":
        return None
    from kafka import codec

    known = {"gzip": codec.has_gzip, "lz4": codec.has_lz4, "snappy": codec.has_snappy, "zstd": codec.has_zstd}
    if name not in known:
        raise ValueError(f"use one of none, {', '.join(known)}")
    if not known[name]():
        raise ValueError(f"the Python package for {name} is not installed; gzip needs none")
    return name


# The accepted settings of Kafka's producer, with their names in kafka-python and their kinds.
SETTINGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "batch.size": ("batch_size", int),
    "compression.type": ("compression_type", _codec),
    "delivery.timeout.ms": ("delivery_timeout_ms", int),
    "linger.ms": ("linger_ms", int),
    "max.block.ms": ("max_block_ms", int),
    "max.request.size": ("max_request_size", int),
    "request.timeout.ms": ("request_timeout_ms", int),
    "transaction.timeout.ms": ("transaction_timeout_ms", int),
}
# Further settings of Kafka's own client, which sends with at_least_once.
OF_JAVA = (
    *("buffer.memory", "client.dns.lookup", "client.id", "compression.gzip.level", "compression.lz4.level"),
    *("compression.zstd.level", "connections.max.idle.ms", "enable.metrics.push", "interceptor.classes"),
    *("max.in.flight.requests.per.connection", "metadata.max.age.ms", "metadata.max.idle.ms"),
    *("metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters"),
    *("metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms"),
    *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "partitioner.class"),
    *("partitioner.ignore.keys", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries"),
    *("retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms"),
    "socket.connection.setup.timeout.ms",
)
CODECS = ("none", "gzip", "lz4", "snappy", "zstd")
# Few large requests take two thirds of the time of Kafka's defaults; they add no delay, since a batch is flushed.
BATCHING: Mapping[str, str] = {"batch.size": str(1 << 16), "linger.ms": "20"}
# The longest time that brokers allow: a transaction waits for the other sinks of its batch.
TRANSACTIONAL: Mapping[str, str] = {**BATCHING, "transaction.timeout.ms": "900000"}


def check_java_settings(options: Mapping[str, str], *, step: str) -> None:
    """ConfigurationError for settings that Kafka's own client does not know, or that have an invalid value.

    >>> check_java_settings({"retries": "3", "compression.type": "zstd"}, step="totals")
    """
    known = (*SETTINGS, *OF_JAVA)
    for name, value in options.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use one of: {', '.join(sorted(known))}"
            raise ConfigurationError(f"step {step!r}: Kafka's producer has no {name!r}", remedy=remedy, step=step)
        if name == "compression.type" and value not in CODECS:
            raise ConfigurationError(
                f"step {step!r}: {name} cannot be {value!r}", remedy=f"use one of {', '.join(CODECS)}", step=step
            )
        if SETTINGS.get(name, ("", str))[1] is int and not value.isdecimal():
            raise ConfigurationError(
                f"step {step!r}: {name} cannot be {value!r}", remedy="give it a whole number, as text", step=step
            )


def python_settings(options: Mapping[str, str], *, step: str) -> dict[str, object]:
    """The producer settings for kafka-python; ConfigurationError for names that are not in SETTINGS.

    >>> python_settings({"linger.ms": "20"}, step="totals")
    {'linger_ms': 20}
    """
    made: dict[str, object] = {}
    for name, value in options.items():
        known = SETTINGS.get(name)
        if known is None:
            near = get_close_matches(name, SETTINGS, n=1)
            raise ConfigurationError(
                f"step {step!r}: {name!r} cannot be set with delivery='exactly_once'",
                remedy=f"did you mean {near[0]!r}?" if near else f"use one of: {', '.join(SETTINGS)}",
                step=step,
            )
        try:
            made[known[0]] = known[1](value)
        except ValueError as error:
            raise ConfigurationError(f"step {step!r}: {name} cannot be {value!r}: {error}", step=step) from error
    return made

"""Settings of Kafka's producer as they are given (Java names, texts) and as kafka-python takes them; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


# Settings of Kafka's producer that may be given, with their names in kafka-python and their kinds.
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
# Few large requests take two thirds of the time of Kafka's defaults; nothing waits for more, for a batch is flushed.
BATCHING: Mapping[str, str] = {"batch.size": str(1 << 16), "linger.ms": "20"}
# As long as brokers allow: a transaction waits for the other sinks of its batch.
TRANSACTIONAL: Mapping[str, str] = {**BATCHING, "transaction.timeout.ms": "900000"}


def python_settings(options: Mapping[str, str], *, step: str) -> dict[str, object]:
    """Settings of Kafka's producer as kafka-python takes them; ConfigurationError for others than SETTINGS.

    >>> python_settings({"linger.ms": "20"}, step="totals")
    {'linger_ms': 20}
    """
    made: dict[str, object] = {}
    for name, value in options.items():
        known = SETTINGS.get(name)
        if known is None:
            raise ConfigurationError(
                f"step {step!r}: {name!r} cannot be set with delivery='exactly_once'",
                remedy=f"these can: {', '.join(SETTINGS)}",
                step=step,
            )
        try:
            made[known[0]] = known[1](value)
        except ValueError as error:
            raise ConfigurationError(f"step {step!r}: {name} cannot be {value!r}: {error}", step=step) from error
    return made

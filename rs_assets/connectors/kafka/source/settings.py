"""Settings of Kafka's consumer by their Java names, as texts; needs no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from rs_assets.errors import ConfigurationError

NUMBER, TEXT, TRUTH = r"\d+", r"\S.*", r"true|false"
# All others decide what is read, or how it is read again, or belong to KafkaCluster.
SETTINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"), NUMBER),
    **dict.fromkeys(("max.poll.records", "request.timeout.ms", "default.api.timeout.ms"), NUMBER),
    **dict.fromkeys(("receive.buffer.bytes", "send.buffer.bytes"), r"-1|\d+"),
    **dict.fromkeys(("reconnect.backoff.ms", "reconnect.backoff.max.ms"), NUMBER),
    **dict.fromkeys(("retry.backoff.ms", "retry.backoff.max.ms"), NUMBER),
    **dict.fromkeys(("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"), NUMBER),
    **dict.fromkeys(("connections.max.idle.ms", "metadata.max.age.ms"), NUMBER),
    **dict.fromkeys(("client.id", "client.rack"), TEXT),
    "client.dns.lookup": "use_all_dns_ips|resolve_canonical_bootstrap_servers_only",
    "check.crcs": TRUTH,
}


def check_consumer_settings(options: Mapping[str, str], *, step: str) -> None:
    """ConfigurationError for a setting that is not in SETTINGS, or has an impossible value.

    >>> check_consumer_settings({"fetch.max.bytes": "1000000"}, step="orders")
    """
    for name, value in options.items():
        if name not in SETTINGS:
            near = get_close_matches(name.removeprefix("kafka."), SETTINGS, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use one of: {', '.join(sorted(SETTINGS))}"
            raise ConfigurationError(
                f"step {step!r}: {name!r} of Kafka's consumer cannot be set here", remedy=remedy, step=step
            )
        if not isinstance(value, str) or not re.fullmatch(SETTINGS[name], value):
            raise ConfigurationError(
                f"step {step!r}: {name} cannot be {value!r}", remedy=f"give it a text like {EXAMPLES[SETTINGS[name]]}",
                step=step,
            )  # fmt: skip


EXAMPLES: Final[Mapping[str, str]] = {
    NUMBER: "'1000'",
    r"-1|\d+": "'65536'",
    TEXT: "'shop'",
    TRUTH: "'true' or 'false'",
    SETTINGS["client.dns.lookup"]: "'use_all_dns_ips'",
}

"""Errors for event times and numbers of wrong types: the same when a pipeline is built and when Spark analyses it."""

from __future__ import annotations

from rs_assets.errors import TopologyError

# The one text form of an event time besides ISO timestamps that Spark casts itself.
TEXT_FORMAT = "yyyy-MM-dd HH:mm:ss"


def no_event_time(field: str, kind: str, *, step: str) -> TopologyError:
    """The error for an event time of the type `kind`."""
    return TopologyError(
        f"the event time {field!r} of step {step!r} is a {kind}",
        remedy=f"use a timestamp, epoch milliseconds as bigint (seconds: timestamp_seconds()) or text as {TEXT_FORMAT}",
        step=step,
    )


def no_number(function: str, field: str, kind: str, *, step: str) -> TopologyError:
    """The error for the sum or the mean of a field of the type `kind`: Spark would cast it silently."""
    return TopologyError(
        f"step {step!r} cannot take the {function} of {field!r}, which is a {kind}",
        remedy=f"convert it to a number first (text: .with_fields({field}='cast({field} as double)'));"
        " min, max, distinct and collect take other types too",
        step=step,
    )

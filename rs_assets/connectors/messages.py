"""Why a field cannot serve a sink: said alike where a pipeline is built and where Spark knows."""

from __future__ import annotations

from rs_assets.errors import TopologyError


def no_condition(field: str, kind: str, *, step: str) -> TopologyError:
    """The error for a field that is to tell which rows go, and is of the type `kind`."""
    return TopologyError(
        f"step {step!r}: {field!r} of deletes is {kind}, not a boolean",
        remedy=f"make it one before: .with_fields({field}='{field} = 1')",
        step=step,
    )


def no_record_time(field: str, kind: str, *, step: str) -> TopologyError:
    """The error for a field that is to be the time of a record, and is of the type `kind`."""
    made = f"timestamp_millis({field})" if kind in ("bigint", "int") else f"cast({field} AS timestamp)"
    return TopologyError(
        f"step {step!r}: the field {field!r} is {kind}, which cannot be the time of a record",
        remedy=f"make one of it before: .with_fields({field}='{made}')",
        step=step,
    )

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

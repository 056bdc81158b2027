"""The join family as a Dagster resource."""

from __future__ import annotations

from dagster import ConfigurableResource
from pydantic import Field


class JoinResource(ConfigurableResource[None]):
    """How long a join waits for a silent side."""

    idle_timeout_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Seconds after which a silent side of a started pipeline does not hold the other back; 0: never",
    )

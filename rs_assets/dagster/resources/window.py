"""The window family as a Dagster resource."""

from __future__ import annotations

from dagster import ConfigurableResource
from pydantic import Field


class WindowResource(ConfigurableResource[None]):
    """How windows end."""

    close_on_idle_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Seconds without rows after which event time of a started pipeline follows the clock; 0: it waits",
    )
    finish: bool = Field(
        default=False, description="Fire every open window at the end of a run; later rows of these windows are late"
    )

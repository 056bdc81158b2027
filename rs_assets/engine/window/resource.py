"""The window family as a Dagster resource."""

from __future__ import annotations

from dagster import ConfigurableResource
from pydantic import Field


class WindowResource(ConfigurableResource[None]):
    """How windows end."""

    finish: bool = Field(
        default=False, description="Fire every open window at the end of a run; later rows of them are late"
    )

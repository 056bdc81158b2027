"""The sink family as a Dagster resource."""

from __future__ import annotations

from typing import Literal

from dagster import ConfigurableResource
from pydantic import Field


class SinkResource(ConfigurableResource[None]):
    """How sinks write."""

    delta_connector: Literal["as_written", "native", "jvm"] = Field(
        default="as_written", description="The writer of all Delta sinks; as_written: as each step says"
    )

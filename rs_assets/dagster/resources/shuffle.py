"""The shuffle family as a Dagster resource."""

from __future__ import annotations

from dagster import ConfigurableResource
from pydantic import Field


class ShuffleResource(ConfigurableResource[None]):
    """How rows are distributed."""

    partitions: int = Field(
        default=0, ge=0, description="State and shuffle partitions of a new checkpoint, kept for its life; 0: the cores"
    )

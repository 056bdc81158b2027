"""The source family as a Dagster resource."""

from __future__ import annotations

from dagster import ConfigurableResource
from pydantic import Field

from rs_assets.connectors.files.lines.reading import MAX_LINE_BYTES


class SourceResource(ConfigurableResource[None]):
    """How sources read."""

    max_line_bytes: int = Field(
        default=MAX_LINE_BYTES, gt=0, description="A longer line of a followed file is a bad record"
    )

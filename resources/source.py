"""Sources: a line of a followed file that is longer than `RS_MAX_LINE_BYTES` is a bad record."""

from __future__ import annotations

import os

from rs_assets import SourceResource

source = SourceResource.configure_at_launch(
    max_line_bytes=int(os.environ.get("RS_MAX_LINE_BYTES") or SourceResource().max_line_bytes)
)

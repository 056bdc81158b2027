"""Sinks: `RS_DELTA_CONNECTOR` (native or jvm) sets the writer of all Delta sinks; by default each step sets its own.

`RS_TARGET_FILE_MB` is the size of the files that compaction makes; by default each table's own.
"""

from __future__ import annotations

import os

from rs_assets import SinkResource

sink = SinkResource.configure_at_launch(
    delta_connector=os.environ.get("RS_DELTA_CONNECTOR", "as_written"),
    target_file_mb=int(os.environ.get("RS_TARGET_FILE_MB") or 0),
)

"""Sources: limits of batches (`RS_MAX_ROWS_PER_BATCH`, `RS_MAX_FILES_PER_BATCH`) and lines (`RS_MAX_LINE_BYTES`).

`RS_BAD_RECORDS` is the policy for bad records. By default each step sets its own limits and policy.
"""

from __future__ import annotations

import os

from rs_assets import SourceResource

source = SourceResource.configure_at_launch(
    max_rows_per_batch=int(os.environ.get("RS_MAX_ROWS_PER_BATCH") or 0),
    max_files_per_batch=int(os.environ.get("RS_MAX_FILES_PER_BATCH") or 0),
    bad_records=os.environ.get("RS_BAD_RECORDS") or "as_written",
    max_line_bytes=int(os.environ.get("RS_MAX_LINE_BYTES") or SourceResource().max_line_bytes),
)

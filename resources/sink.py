"""Sinks: `RS_DELTA_CONNECTOR` (native or jvm) chooses the writer of all Delta sinks; else each step says."""

from __future__ import annotations

import os

from rs_assets import SinkResource

sink = SinkResource.configure_at_launch(delta_connector=os.environ.get("RS_DELTA_CONNECTOR", "as_written"))

"""Windows: they wait for event time to pass their end; `RS_FINISH=1` fires open windows at the end of a run."""

from __future__ import annotations

import os

from rs_assets import WindowResource

window = WindowResource.configure_at_launch(finish=os.environ.get("RS_FINISH") == "1")

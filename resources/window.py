"""Windows: they wait for event time to pass their end; `RS_FINISH=1` fires open windows at the end of a run.

With `RS_CLOSE_ON_IDLE=60` event time of a started pipeline follows the clock after 60 s without rows; unset: it waits.
"""

from __future__ import annotations

import os

from rs_assets import WindowResource

window = WindowResource.configure_at_launch(
    finish=os.environ.get("RS_FINISH") == "1",
    close_on_idle_seconds=float(os.environ.get("RS_CLOSE_ON_IDLE") or 0),
)

"""Joins: with `RS_IDLE_TIMEOUT=60` a side that is idle for 60 s no longer holds the other back; unset: it does."""

from __future__ import annotations

import os

from rs_assets import JoinResource

join = JoinResource.configure_at_launch(idle_timeout_seconds=float(os.environ.get("RS_IDLE_TIMEOUT") or 0))

"""Stateless steps: with `RS_TRACE=0` Python functions run in Python; by default Spark computes those that it can."""

from __future__ import annotations

import os

from rs_assets import StepResource

step = StepResource.configure_at_launch(trace=os.environ.get("RS_TRACE") != "0")

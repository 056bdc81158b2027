"""Stateless steps: with `RS_TRACE=0` Python functions run in Python; by default Spark computes those that it can.

`RS_MAX_POISONS` is how many records of a batch may be quarantined because a step fails on them.
"""

from __future__ import annotations

import os

from rs_assets import StepResource

step = StepResource.configure_at_launch(
    trace=os.environ.get("RS_TRACE") != "0",
    max_poisons=int(os.environ.get("RS_MAX_POISONS") or StepResource().max_poisons),
)

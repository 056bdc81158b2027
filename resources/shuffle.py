"""Shuffles: `RS_PARTITIONS` is the number of state and shuffle partitions of a new checkpoint; 0: one per core."""

from __future__ import annotations

import os

from rs_assets import ShuffleResource

shuffle = ShuffleResource.configure_at_launch(partitions=int(os.environ.get("RS_PARTITIONS", "0")))

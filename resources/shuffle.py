"""Shuffles: `RS_PARTITIONS` is how many state and shuffle partitions a new checkpoint gets; 0: one a core."""

from __future__ import annotations

import os

from rs_assets import ShuffleResource

shuffle = ShuffleResource.configure_at_launch(partitions=int(os.environ.get("RS_PARTITIONS", "0")))

"""Spark: `RS_SPARK_UI=1` opens its own UI, on loopback. Master and heap: RS_SPARK_MASTER, RS_DRIVER_MEMORY."""

from __future__ import annotations

import os

from rs_assets import SparkResource

spark = SparkResource.configure_at_launch(ui=os.environ.get("RS_SPARK_UI") == "1")

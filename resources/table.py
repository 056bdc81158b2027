"""Tables that change: the resource has no settings."""

from __future__ import annotations

from rs_assets import TableResource

table = TableResource.configure_at_launch()

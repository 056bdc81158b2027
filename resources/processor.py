"""Processors: the resource has no settings."""

from __future__ import annotations

from rs_assets import ProcessorResource

processor = ProcessorResource.configure_at_launch()

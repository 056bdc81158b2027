"""Preflight: damaged or foreign checkpoints are found before a batch runs, and named with their remedy."""

from rs_assets.engine.checkpoint.preflight.finding import Expected, Finding
from rs_assets.engine.checkpoint.preflight.sinks import ACCEPT, CHANGED
from rs_assets.engine.checkpoint.preflight.verify import CHECKS, refuse, verify_query

__all__ = ["ACCEPT", "CHANGED", "CHECKS", "Expected", "Finding", "refuse", "verify_query"]

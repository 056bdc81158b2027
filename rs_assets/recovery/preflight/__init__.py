"""Preflight: damaged or foreign checkpoints are found before a batch runs, and named with their remedy."""

from rs_assets.recovery.preflight.finding import Expected, Finding
from rs_assets.recovery.preflight.sinks import ACCEPT, CHANGED
from rs_assets.recovery.preflight.verify import CHECKS, refuse, verify_query

__all__ = ["ACCEPT", "CHANGED", "CHECKS", "Expected", "Finding", "refuse", "verify_query"]

"""Preflight: finds damaged or foreign checkpoints before a batch runs, each with its remedy."""

from rs_assets.recovery.preflight.finding import Expected, Finding
from rs_assets.recovery.preflight.sinks import ACCEPT, CHANGED
from rs_assets.recovery.preflight.verify import CHECKS, refuse, verify_query

__all__ = ["ACCEPT", "CHANGED", "CHECKS", "Expected", "Finding", "refuse", "verify_query"]

"""Preflight: damaged or foreign checkpoints are found before a batch runs, and named with their remedy."""

from resources.checkpoint.preflight.finding import Expected, Finding
from resources.checkpoint.preflight.sinks import ACCEPT, CHANGED
from resources.checkpoint.preflight.verify import CHECKS, refuse, verify_query

__all__ = ["ACCEPT", "CHANGED", "CHECKS", "Expected", "Finding", "refuse", "verify_query"]

"""Batches as tables on standard output."""

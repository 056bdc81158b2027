"""Whole files, read by Spark's own file source, and the guard that they stay as they were planned."""

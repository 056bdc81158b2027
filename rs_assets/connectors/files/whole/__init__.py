"""Whole files, read by Spark's own file source, and the guard that they do not change after planning."""

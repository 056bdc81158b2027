"""Pipelines to learn from; each runs as it is."""

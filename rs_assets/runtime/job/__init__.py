"""Preparation of a run: lease, manifest, checks, queries."""

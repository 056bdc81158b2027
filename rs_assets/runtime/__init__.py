"""Runs a compiled pipeline: starts its queries, guards each batch, recovers, reports."""

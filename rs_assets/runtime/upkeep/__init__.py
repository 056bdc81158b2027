"""Savepoints and the ways back, state as rows, and whose the sinks are."""

"""Forgets keys: their rows leave outputs, state, savepoints, stores and dead letters, and a scan proves it."""

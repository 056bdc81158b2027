"""Savepoints and rollbacks, state as rows, and the ownership of sinks."""

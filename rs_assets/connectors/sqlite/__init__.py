"""SQLite as a source and a sink."""

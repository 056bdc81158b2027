"""A table of SQLite as a sink: rows and marker in one transaction."""

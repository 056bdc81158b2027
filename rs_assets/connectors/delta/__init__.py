"""Delta tables: a source of the added rows or the change feed, and a sink."""

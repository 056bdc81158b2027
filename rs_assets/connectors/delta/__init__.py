"""Delta tables as a source: the rows that are added to one, or its change feed."""

"""User code in a topology: expressions, deferred Columns, and digests of functions."""

"""Code of users inside a topology: expressions, deferred Columns, and digests of functions."""

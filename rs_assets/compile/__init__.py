"""From topology to Spark: a table from node type to a small function, one module a family."""

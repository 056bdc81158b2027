"""From topology to Spark: a table from node type to a compile function, one module a family."""

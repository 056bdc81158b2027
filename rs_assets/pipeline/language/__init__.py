"""Languages: conditions, scripts and SQL as front ends beside the fluent API."""

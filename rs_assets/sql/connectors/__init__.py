"""SQL tables: CREATE TABLE, its options, and the sources and sinks that it names."""

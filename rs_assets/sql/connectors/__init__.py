"""SQL tables: CREATE TABLE, its options, and its sources and sinks."""

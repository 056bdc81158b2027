"""SQLite for both ends: connections and what a table is."""

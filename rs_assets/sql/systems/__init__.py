"""How SQL reads and writes tables: a module for each system, with its SOURCE and its SINK."""

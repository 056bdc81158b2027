"""The state family: what stateful steps remember, as rows of a Delta table and as a copy for quick lookups."""

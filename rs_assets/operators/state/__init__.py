"""The state family: the state of stateful steps as rows of a Delta table and as a copy for quick lookups."""

"""The log of a Delta table: who wrote what, and commits of our own."""

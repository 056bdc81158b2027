"""Recorded batches as tests of a project: their records, the rows that they gave, and a test that replays them."""

"""Commands for the upkeep of a pipeline: checkpoints, savepoints, compaction."""

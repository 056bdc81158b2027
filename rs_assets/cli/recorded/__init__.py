"""Commands that read what the catalog recorded: records, batches as tests, dead letters, partitions, lineage."""

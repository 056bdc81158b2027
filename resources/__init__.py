"""What touches the world: Spark, files, tables, checkpoints."""

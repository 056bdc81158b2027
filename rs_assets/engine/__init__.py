"""What touches the world: Spark, sources, shuffles, windows, sinks, checkpoints and state."""

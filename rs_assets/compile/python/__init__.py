"""Python functions in a pipeline: traced into Spark expressions, or run over Arrow batches."""

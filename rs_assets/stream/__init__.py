"""The fluent API, in which pipelines are written. It only collects nodes and never calls Spark."""

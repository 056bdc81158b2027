"""Python functions with state: what they get and return, the worker that runs them, and their step in Spark."""

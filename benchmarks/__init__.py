"""The project's pipelines against the same queries written by hand: `python -m benchmarks`."""

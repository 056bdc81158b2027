"""Commands about running pipelines: the output of a run, status, lag, and collecting for them."""

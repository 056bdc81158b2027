"""Hot deployment: pipelines that are made, changed, stopped and started by rows of a table."""

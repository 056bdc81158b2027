"""Files: lines that grow, files that no longer change, Parquet, and folders of JSON lines as a sink."""

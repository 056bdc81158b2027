"""The state of a job on disk: its manifest, and Spark's log of its batches."""

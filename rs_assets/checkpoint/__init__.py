"""The checkpoint family: what is known about a job on disk, who may run it, and what its batches read."""

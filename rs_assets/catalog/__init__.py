"""The catalog: Delta tables and small files that record every pipeline: leases, batches, offsets, deployments."""

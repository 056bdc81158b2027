"""What a run holds before the first row: lease, manifest, checks, queries."""

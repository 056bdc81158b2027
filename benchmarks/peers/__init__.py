"""Other stream processors, run on the same records as ours."""

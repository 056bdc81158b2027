"""One batch: stage, check, commit."""

"""Batches that were recorded, read again: backfill, proof, try, redrive, why."""

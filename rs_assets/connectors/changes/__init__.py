"""What sources of a database's changes have in common: rows that land on disk, and batches of them."""

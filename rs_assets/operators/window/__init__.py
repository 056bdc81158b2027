"""The window family: which window a row belongs to, what is aggregated in it, and when it fires."""

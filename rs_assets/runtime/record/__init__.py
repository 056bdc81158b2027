"""Records events in the catalog, and informs the followers of sources."""

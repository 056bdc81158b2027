"""The nodes of a topology, one module a family: frozen data that checks itself."""

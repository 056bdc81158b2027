"""The nodes of a topology, one module a family: frozen dataclasses that validate themselves."""

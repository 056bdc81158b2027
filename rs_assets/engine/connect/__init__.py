"""Foreign systems whose ends share a client: one package a system."""

"""Nexmark: an auction house's persons, auctions and bids, and the benchmark's queries q0 to q22 over them."""

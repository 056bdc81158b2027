"""Redis as a sink: staged rows, and a ledger that one script writes together with them."""

"""Python functions that become plans: symbolic execution with proxies for the values."""

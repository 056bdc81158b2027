"""Python functions that become plans: what a function computes, found out by calling it with stand-ins."""

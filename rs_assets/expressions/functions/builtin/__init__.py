"""The tables of the built-in functions, one module a family."""

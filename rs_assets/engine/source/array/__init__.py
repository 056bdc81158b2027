"""Rows given in the program: a source that ends."""

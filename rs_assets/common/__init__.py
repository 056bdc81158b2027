"""Shared helpers without dependencies on other packages: files, names, the home folder, background threads."""

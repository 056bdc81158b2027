"""The command line `rs-assets`."""

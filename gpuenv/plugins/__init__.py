"""Checks of other packages: found by an entry point, each run in a child with a deadline."""

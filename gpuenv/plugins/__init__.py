"""Checks of other packages, found by entry points and run in children with a deadline."""

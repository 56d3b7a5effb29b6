"""Asks the machine and the target; every touch of the driver or the target is in a child with a deadline."""

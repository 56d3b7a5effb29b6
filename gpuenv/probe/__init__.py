"""Probes the machine and the target; only child processes with a deadline touch the driver or the target."""

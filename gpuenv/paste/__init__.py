"""Reads outputs pasted into a bug report into a partial Snapshot, and lists the missing facts."""

"""What people paste into a bug report, to a partial Snapshot: only what it says, and what it leaves open."""

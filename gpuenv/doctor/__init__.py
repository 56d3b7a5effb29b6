"""The checks: small pure functions over a Snapshot, the matrix and the resolution, run in dependency order."""

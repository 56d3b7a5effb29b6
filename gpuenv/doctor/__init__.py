"""The checks: functions of a snapshot, the matrix and the resolution, run in order of their dependencies."""

"""Runs ``gpuenv fleet node`` on every node, through the client of an existing engine."""

"""Simulated machines: profiles, the stub driver in C that acts on them, and commands that run on them."""

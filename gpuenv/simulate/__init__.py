"""Pretend machines: a profile, the stub driver in C that answers for it, and a command that runs on it."""

"""How long the machine may take to answer, in seconds."""

from __future__ import annotations

# The first initialisation on an eight-GPU host without persistence mode takes long.
SHORTEST_TIMEOUT, DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 0.1, 30.0, 3600

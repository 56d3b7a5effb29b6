"""How long the machine may take to answer, in seconds."""

from __future__ import annotations

# The first initialisation on an eight-GPU host without persistence mode takes long.
DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 30.0, 3600

"""When the program began; imported before anything that costs time."""

from __future__ import annotations

import time

BEGAN = time.monotonic()  # seconds; a reading without a beginning of its own

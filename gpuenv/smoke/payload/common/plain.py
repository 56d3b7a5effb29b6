"""Reductions that compile quickly, for tests in which CuPy makes some that nobody asked for.

CuPy makes a reduction from CUB's headers where it can (_cub_reduction.pyx of CuPy 12 to 14), a whole one in two
kernels. NVRTC 13.5 took 1.5 to 4 s of a server's processor for each, and 0.1 s for one of CuPy's own: with an empty
kernel cache the four that a sparse matrix takes to become dense used up the quick level's seconds, and on a slow host
came near its deadline. What a test asks for is reduced with CUB: kernels.reduction, random.reproducible.
"""

from __future__ import annotations

ENVIRONMENT = {"CUPY_ACCELERATORS": ""}

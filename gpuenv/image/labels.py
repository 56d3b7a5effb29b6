"""The labels of gpuenv's own images, which a build writes and a check reads.

Each value is a text: lists have a comma between their entries (``8.0,9.0``), a digest is written ``sha256:...``.
"""

from __future__ import annotations

PREFIX = "io.gpuenv."
MATRIX = PREFIX + "matrix"  # the revision of the matrix that the image was resolved from: 2026-11-21
LINE = PREFIX + "line"  # the wheel line: cupy-cuda12x
CUPY = PREFIX + "cupy"  # the release of CuPy: 14.2.0
CUDA = PREFIX + "cuda"  # the CUDA of its NVRTC, libraries and headers, as major and minor: 12.9
COMPUTE_CAPABILITIES = PREFIX + "compute-capabilities"  # the GPUs that it serves: 7.0,8.0,9.0
MINIMUM_DRIVER = PREFIX + "minimum-driver"  # the oldest driver of Linux that starts it: 525.60.13
LOCK = PREFIX + "lock"  # the digest of the lock file that it was installed from
LEFT_OUT = PREFIX + "left-out"  # the kinds of files of the wheels that it lacks; /opt/cupy/left-out.txt lists each file
PROOF = PREFIX + "proof"  # the result of the smoke tests in the built image

# The value of LEFT_OUT: what images/tidy.py removes from the wheels and their RECORDs.
LEFT_OUT_FILES = ("libnvrtc.alt", "libcusolverMg", "libnvblas", "libcufftw", "static libraries", "tests of NumPy")

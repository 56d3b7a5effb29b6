"""cuFFT cannot make a plan for a transform.

cuFFT plans a transform before it runs one. A length that it does not support, or a workspace that does not fit into
the GPU's memory, fails there. Check the lengths first; split large batches.

    python examples/cufft_plan_failure.py
"""

import require_gpu

import cupy as cp
from cupy.cuda import cufft

pieces = [cp.ones(8, "F"), cp.ones(0, "F")]  # the last piece of a signal may be empty

try:
    plans = [cufft.Plan1d(piece.size, cufft.CUFFT_C2C, 1) for piece in pieces]
    print(f"every piece: {len(plans)} plans were made")
except cufft.CuFFTError as error:
    print(f"every piece: CuFFTError: {error}")

for piece in pieces:
    if piece.size:
        answer = cp.empty_like(piece)
        cufft.Plan1d(piece.size, cufft.CUFFT_C2C, 1).fft(piece, answer, cufft.CUFFT_FORWARD)
        print(f"pieces that are not empty: the spectrum starts with {float(answer[0].real):g}")

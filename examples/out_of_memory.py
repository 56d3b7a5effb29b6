"""A computation needs more memory than there is, at once or in pieces.

An expression makes an array for each of its steps. In pieces, with only the result of each kept, any size fits.

    python examples/out_of_memory.py
"""

import require_gpu

import cupy as cp

N, PIECE = 20_000_000, 1_000_000

cp.get_default_memory_pool().set_limit(size=64 << 20)  # so that little memory is needed to show it

try:
    print(f"at once: the sum is {float((cp.arange(N, dtype=cp.float64) % 7).sum()):.0f}")
except cp.cuda.memory.OutOfMemoryError as error:
    print(f"at once: OutOfMemoryError: {error}")

total = 0.0
for start in range(0, N, PIECE):
    total += float((cp.arange(start, start + PIECE, dtype=cp.float64) % 7).sum())
print(f"in pieces: the sum is {total:.0f}")

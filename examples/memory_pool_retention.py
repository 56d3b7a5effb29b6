"""Memory that the pool keeps looks like a leak.

CuPy keeps freed memory in a pool to use it again. nvidia-smi and other programs see it as taken.

    python examples/memory_pool_retention.py
"""

import require_gpu

import cupy as cp

pool = cp.get_default_memory_pool()

x = cp.zeros(1 << 26, dtype=cp.float32)
del x
print(f"array deleted: arrays hold {pool.used_bytes() >> 20} MiB, the pool {pool.total_bytes() >> 20} MiB")

pool.free_all_blocks()
print(f"pool emptied: arrays hold {pool.used_bytes() >> 20} MiB, the pool {pool.total_bytes() >> 20} MiB")

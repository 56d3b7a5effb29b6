"""Programs of others, as far as the tests are concerned: one that holds memory, and one that takes its own rates."""

from __future__ import annotations

# Takes memory but for as many bytes as each line says.
HOG = """
import sys, cupy as cp
kept, runtime = [], cp.cuda.runtime
for line in sys.stdin:
    left, piece = int(line), 1 << 30
    while piece >= 32 << 20:
        try:
            if runtime.memGetInfo()[0] < piece + left:
                piece //= 2
                continue
            kept.append(runtime.malloc(piece))
        except runtime.CUDARuntimeError:
            piece //= 2
    print("full", flush=True)
"""

# Takes rates with torch where it is there, else with plain copies and cuBLAS.
PLAIN = """
import json, sys, time
try:
    import torch
except ImportError:
    torch = None
rates, size, n = {}, 256 << 20, 4096

def best(work, wait, rounds=7):
    times = []
    for _ in range(rounds):
        wait(); started = time.perf_counter(); work(); wait()
        times.append(time.perf_counter() - started)
    return min(times)

def product(work, wait):
    work()
    # As long as gpuenv's own, and after as many: the clock of an idle GPU has to rise, and a short time is over before
    # its power limit takes it down.
    rounds = max(2, min(200, int(0.4 / best(work, wait, 3))))
    first, second = (best(lambda: [work() for _ in range(rounds)], wait, 1) for _ in range(2))
    return second / rounds

if torch is not None and torch.cuda.is_available():
    wait = torch.cuda.synchronize
    torch.backends.cuda.matmul.allow_tf32 = False
    pinned = torch.empty(size, dtype=torch.uint8).pin_memory()
    there = torch.empty(size, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(there)
    rates["transfer.h2d_pinned"] = size / best(lambda: there.copy_(pinned, non_blocking=True), wait)
    rates["transfer.d2h_pinned"] = size / best(lambda: pinned.copy_(there, non_blocking=True), wait)
    rates["transfer.device_copy"] = 2 * size * 20 / best(lambda: [other.copy_(there) for _ in range(20)], wait)
    for name, kind in (("f16", torch.float16), ("f32", torch.float32), ("f64", torch.float64)):
        # Numbers of half precision, as gpuenv's own: fewer bits that change take less power.
        a, b = (torch.randn(n, n, device="cuda").half().to(kind) for _ in range(2))
        c = torch.empty(n, n, device="cuda", dtype=kind)
        rates["blas.matmul_" + name] = 2.0 * n**3 / product(lambda: torch.matmul(a, b, out=c), wait)
    program = "torch " + torch.__version__
else:
    import cupy as cp
    from cupy.cuda import cublas, device
    wait, runtime = cp.cuda.runtime.deviceSynchronize, cp.cuda.runtime
    host = runtime.hostAlloc(size, 0)
    there, other = runtime.malloc(size), runtime.malloc(size)
    rates["transfer.h2d_pinned"] = size / best(lambda: runtime.memcpyAsync(there, host, size, 1, 0), wait)
    rates["transfer.d2h_pinned"] = size / best(lambda: runtime.memcpyAsync(host, there, size, 2, 0), wait)
    rates["transfer.device_copy"] = 2 * size * 20 / best(
        lambda: [runtime.memcpyAsync(other, there, size, 3, 0) for _ in range(20)], wait)
    import numpy as np
    handle = device.get_cublas_handle()
    for name, kind, gemm in (("f32", np.float32, cublas.sgemm), ("f64", np.float64, cublas.dgemm)):
        a, b, c = (cp.random.standard_normal((n, n)).astype("e").astype(kind) for _ in range(3))
        one, zero = np.array(1, kind), np.array(0, kind)
        x, y, z = a.data.ptr, b.data.ptr, c.data.ptr
        call = lambda: gemm(handle, 0, 0, n, n, n, one.ctypes.data, x, n, y, n, zero.ctypes.data, z, n)
        rates["blas.matmul_" + name] = 2.0 * n**3 / product(call, wait)
    program = "plain cuBLAS and copies"
print(json.dumps({"program": program, "rates": rates}))
"""
# Runs it on the processors beside the GPU, as gpuenv's own copies are.
BESIDE = """
import importlib.util, os, sys
import cupy
spec = importlib.util.spec_from_file_location("payload_main", os.path.join(sys.argv[1], "main.py"))
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)
main.make_importable(sys.argv[1])
from gpuenv.smoke.payload.cupy_device import CupyDevice
CupyDevice(cupy, "normal", None, 0, 0).use_local_cpus()
os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
"""

"""Other programs on the GPU: one that holds its memory, and one that measures rates independently."""

from __future__ import annotations

# Allocates all memory except for the bytes named by each line of input.
HOLD_MEMORY = """
import sys, cupy as cp
blocks, runtime = [], cp.cuda.runtime
for line in sys.stdin:
    free, piece = int(line), 1 << 30
    while piece >= 32 << 20:
        try:
            if runtime.memGetInfo()[0] < piece + free:
                piece //= 2
                continue
            blocks.append(runtime.malloc(piece))
        except runtime.CUDARuntimeError:
            piece //= 2
    print("full", flush=True)
"""

# Measures rates with torch if it is installed, else with plain copies and cuBLAS.
MEASURE_RATES = """
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
    # As long as gpuenv's measurement, with the same warm-up: the clock of an idle GPU has to rise, and a short
    # measurement ends before the power limit lowers it.
    rounds = max(2, min(200, int(0.4 / best(work, wait, 3))))
    first, second = (best(lambda: [work() for _ in range(rounds)], wait, 1) for _ in range(2))
    return second / rounds

if torch is not None and torch.cuda.is_available():
    wait = torch.cuda.synchronize
    torch.backends.cuda.matmul.allow_tf32 = False
    pinned = torch.empty(size, dtype=torch.uint8).pin_memory()
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(source)
    rates["transfer.h2d_pinned"] = size / best(lambda: source.copy_(pinned, non_blocking=True), wait)
    rates["transfer.d2h_pinned"] = size / best(lambda: pinned.copy_(source, non_blocking=True), wait)
    rates["transfer.device_copy"] = 2 * size * 20 / best(lambda: [other.copy_(source) for _ in range(20)], wait)
    for name, kind in (("f16", torch.float16), ("f32", torch.float32), ("f64", torch.float64)):
        # Values of half precision, as in gpuenv: fewer changing bits take less power.
        a, b = (torch.randn(n, n, device="cuda").half().to(kind) for _ in range(2))
        c = torch.empty(n, n, device="cuda", dtype=kind)
        rates["blas.matmul_" + name] = 2.0 * n**3 / product(lambda: torch.matmul(a, b, out=c), wait)
    program = "torch " + torch.__version__
else:
    import cupy as cp
    from cupy.cuda import cublas, device
    wait, runtime = cp.cuda.runtime.deviceSynchronize, cp.cuda.runtime
    host = runtime.hostAlloc(size, 0)
    source, other = runtime.malloc(size), runtime.malloc(size)
    rates["transfer.h2d_pinned"] = size / best(lambda: runtime.memcpyAsync(source, host, size, 1, 0), wait)
    rates["transfer.d2h_pinned"] = size / best(lambda: runtime.memcpyAsync(host, source, size, 2, 0), wait)
    rates["transfer.device_copy"] = 2 * size * 20 / best(
        lambda: [runtime.memcpyAsync(other, source, size, 3, 0) for _ in range(20)], wait)
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
# Runs a program on the processors local to the GPU, as gpuenv does.
RUN_ON_LOCAL_CPUS = """
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

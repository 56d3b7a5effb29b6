"""The rate of the matrix product by type, beside NumPy on this host; a corner of each product is checked."""

import time

from gpuenv.smoke.payload.answers import UNIT
from gpuenv.smoke.payload.common.matrix import NO_TF32, TENSOR_UNIT, product, product_memory

TITLE = "rates of the matrix product"
LEVELS = {"normal": {"n": 4096, "host": 1024}, "deep": {"n": 8192, "host": 2048}}
HOST = 0.3  # two matrices in half precision
TOLERANCE = "gamma(2 k) |A| |B| with the unit of each type; only a corner is checked, which costs the host little"
ALONE = ["normal", "deep"]
ENVIRONMENT = NO_TF32
SHRINKS = "n"
CORNER = 24
LEAST = 2048  # rows and columns: the time of a smaller product is that of its launch, and says nothing of the GPU
LONGEST = 0.5  # seconds of one product: where a GPU shows a picture too, its driver ends a kernel that takes seconds
FEW = 256  # rows that tell how long all of them would take


def inputs(random, size):
    n = size["n"]
    a, b = random.standard_normal((n, n), dtype="f"), random.standard_normal((n, n), dtype="f")
    return {"a": a.astype("e"), "b": b.astype("e"), "host": size["host"]}


def expect(given):
    a, b = given["a"][-CORNER:], given["b"][:, : CORNER + 2]
    double = product(a, b, UNIT["d"], "d")
    return {
        "f16": product(a, b, TENSOR_UNIT, "e", UNIT["e"], 2.0**-25),
        "f32": product(a, b, UNIT["f"], "f"),
        "f64": double._replace(bound=2 * double.bound),
    }


def run(gpu, given):
    n, got = given["a"].shape[0], {}
    for name, kind in (("f16", "e"), ("f32", "f"), ("f64", "d")):
        a, b = gpu.up(given["a"]).astype(kind), gpu.up(given["b"]).astype(kind)
        a = a[-rows_of(n, gpu.seconds(lambda a=a, b=b: a[-FEW:] @ b, rounds=1, warm=1)) :]
        # Not into an array that is there already: CuPy would copy the product once more.
        took = gpu.steady(lambda a=a, b=b: a @ b)
        c = a @ b
        if n >= LEAST:
            gpu.measure("matmul_" + name, 2.0 * a.shape[0] * n * n / took, "FLOP/s")
        got[name] = gpu.down(c[-CORNER:, : CORNER + 2])
        del a, b, c
    _measure_host(gpu, given)
    return got


def rows_of(n, seconds):
    """How many rows of A to multiply, where ``FEW`` of them took that long: all, unless that takes too long."""
    return n if seconds * n <= LONGEST * FEW else FEW


def _measure_host(gpu, given):
    n = given["host"]
    a, b = given["a"][:n, :n].astype("f"), given["b"][:n, :n].astype("f")
    a @ b  # the library starts its threads
    started = time.perf_counter()
    a @ b
    gpu.measure("numpy_matmul_f32", 2.0 * a.shape[0] ** 3 / (time.perf_counter() - started), "FLOP/s")


def memory(size):
    return product_memory(size, 12)

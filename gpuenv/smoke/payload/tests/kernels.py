"""Kernels: CUDA C++ kernels, kernels that CuPy generates, and the kernel cache."""

import os
import time

import numpy as np

from gpuenv.smoke.payload.expected import UNIT, approx, exact, gamma
from gpuenv.smoke.payload.tests import GpuTest, SameAsNumpy


class RawKernel(GpuTest):
    """A CUDA C++ kernel that adds and shifts integers, so that every bit is known."""

    TITLE = "a raw kernel"
    LEVELS = {"quick": {"n": 100003}, "normal": {"n": 1000003}}
    TOLERANCE = "exact: integers"
    EXACT_REPEAT = True
    KERNELS = {
        "gpuenv_mix": r"""
extern "C" __global__ void gpuenv_mix(const long long *x, const long long *y, long long *z, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        z[i] = (x[i] << 1) - y[i] + i;
    }
}
"""
    }

    def inputs(self, random, size):
        integers = random.integers(-(2**40), 2**40, size=(2, size["n"]), dtype=np.int64)
        return {"x": integers[0], "y": integers[1]}

    def expect(self, data):
        x, y = data["x"], data["y"]
        return {"z": exact((x << 1) - y + np.arange(x.size, dtype=np.int64))}

    def run(self, gpu, data):
        x, y = gpu.to_device(data["x"]), gpu.to_device(data["y"])
        z = gpu.cp.full(x.size, -1, dtype=np.int64)
        self.kernel(gpu, "gpuenv_mix")(((x.size + 255) // 256,), (256,), (x, y, z, np.int64(x.size)))
        return {"z": gpu.to_host(z)}


class RawModule(GpuTest):
    """A module with a template and constant memory: instantiated by name, filled from the host."""

    TITLE = "a raw module: templates and constant memory"
    LEVELS = {"normal": {"n": 100003}}
    TOLERANCE = "exact: integers, and products of small ones in single precision"
    EXPRESSIONS = ("gpuenv_scaled<int>", "gpuenv_scaled<float>")
    KERNELS = {
        "gpuenv_scaled": r"""
__constant__ int factors[4];

template <typename T>
__global__ void gpuenv_scaled(const T *x, T *y, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * (T)factors[i % 4] + (T)(i % 3);
    }
}
"""
    }

    def inputs(self, random, size):
        return {
            "x": random.integers(-5000, 5000, size=size["n"], dtype=np.int32),
            "factors": random.integers(2, 100, size=4, dtype=np.int32),
        }

    def expect(self, data):
        x, factors = data["x"], data["factors"]
        index = np.arange(x.size)
        value = x.astype(np.int64) * factors[index % 4] + index % 3
        return {"integers": exact(value.astype(np.int32)), "single": exact(value.astype(np.float32))}

    def run(self, gpu, data):
        cp, code = gpu.cp, gpu.source(self.KERNELS["gpuenv_scaled"])
        module = cp.RawModule(code=code, options=("-std=c++11",), name_expressions=list(self.EXPRESSIONS))
        # The functions first: requesting one compiles the module.
        kernels = [module.get_function(name) for name in self.EXPRESSIONS]
        constant = cp.ndarray((4,), dtype=np.int32, memptr=module.get_global("factors"))
        constant[...] = gpu.to_device(data["factors"])
        n, got = data["x"].size, {}
        for name, dtype, kernel in zip(("integers", "single"), (np.int32, np.float32), kernels):
            x, y = gpu.to_device(data["x"].astype(dtype)), cp.full(n, -1, dtype=dtype)
            kernel(((n + 127) // 128,), (128,), (x, y, np.int32(n)))
            got[name] = gpu.to_host(y)
        return got


class GridStride(GpuTest):
    """A grid smaller than the array: each thread processes several elements."""

    TITLE = "a grid-stride loop over more than one launch covers"
    LEVELS = {"normal": {"n": 3000017}, "deep": {"n": 200000033}}
    TOLERANCE = "exact: integers"
    SHRINKS = "n"
    BYTES = 12
    EXACT_REPEAT = True
    KERNELS = {
        "gpuenv_stride": r"""
extern "C" __global__ void gpuenv_stride(const int *x, int *y, long long n) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        y[i] = x[i] * 5 - (int)(i % 1000);
    }
}
"""
    }

    def inputs(self, random, size):
        return {"x": random.integers(-(2**20), 2**20, size=size["n"], dtype=np.int32)}

    def expect(self, data):
        x = data["x"]
        return {"y": exact(x * 5 - (np.arange(x.size) % 1000).astype(np.int32))}

    def run(self, gpu, data):
        x = gpu.to_device(data["x"])
        y = gpu.cp.full(x.size, -1, dtype=np.int32)
        self.kernel(gpu, "gpuenv_stride")((64,), (256,), (x, y, np.int64(x.size)))
        return {"y": gpu.to_host(y)}


class SharedMemory(GpuTest):
    """The maximum dynamic shared memory of a block, filled by all threads and read in reverse."""

    TITLE = "shared memory at its maximum"
    LEVELS = {"normal": {"words": 4096}}
    TOLERANCE = "exact: integers"
    OPT_IN = 97  # cudaDevAttrMaxSharedMemoryPerBlockOptin (driver_types.h)
    KERNELS = {
        "gpuenv_reverse": r"""
extern "C" __global__ void gpuenv_reverse(const int *x, int *y, int words, int n) {
    extern __shared__ int block[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        block[i] = x[i % n] + i;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int first = n - 1 - i, value = block[first] - first;
        for (int k = first + n; k < words; k += n) {
            if (block[k] - k != value) {
                value = 2147483647;  // no element of x
            }
        }
        y[i] = value;
    }
}
"""
    }

    def inputs(self, random, size):
        return {"x": random.integers(-(2**30), 2**30, size=size["words"], dtype=np.int32)}

    def expect(self, data):
        # The block repeats x; element i of the answer is read from every copy of element n - 1 - i.
        return {"y": exact(data["x"][::-1].copy())}

    def run(self, gpu, data):
        cp, n = gpu.cp, data["x"].size
        words = gpu.attribute(self.OPT_IN) // 4
        x, y = gpu.to_device(data["x"]), cp.full(n, -1, dtype=np.int32)
        kernel = self.kernel(gpu, "gpuenv_reverse")
        kernel.max_dynamic_shared_size_bytes = words * 4
        kernel((1,), (256,), (x, y, np.int32(words), np.int32(n)), shared_mem=words * 4)
        gpu.measure("shared_memory", words * 4, "B")
        return {"y": gpu.to_host(y)}


class Atomics(GpuTest):
    """Atomic operations: a histogram in shared and in global memory, a maximum, and an exchange loop."""

    TITLE = "atomic operations"
    LEVELS = {"normal": {"n": 1000003}, "deep": {"n": 50000017}}
    HOST = 6  # counting uses wide integers
    TOLERANCE = "exact: integers, whose sum does not depend on the order"
    SHRINKS = "n"
    BYTES = 4
    EXACT_REPEAT = True
    KERNELS = {
        "gpuenv_histogram": r"""
extern "C" __global__ void gpuenv_histogram(const int *x, unsigned long long *bins, int *largest,
                                            unsigned int *mixed, long long n) {
    __shared__ unsigned int local[64];
    __shared__ unsigned int local_mixed;
    __shared__ int local_largest;
    if (threadIdx.x < 64) {
        local[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        local_mixed = 0;
        local_largest = -1;
    }
    __syncthreads();
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        atomicAdd(&local[x[i] & 63], 1u);
        atomicMax(&local_largest, x[i]);
        atomicXor(&local_mixed, (unsigned int)x[i]);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        atomicAdd(&bins[threadIdx.x], (unsigned long long)local[threadIdx.x]);
    }
    if (threadIdx.x == 0) {
        atomicMax(largest, local_largest);
        unsigned int seen = *(volatile unsigned int *)mixed, wanted;
        do {
            wanted = seen;
            seen = atomicCAS(mixed, wanted, wanted ^ local_mixed);
        } while (seen != wanted);
    }
}
"""
    }

    def inputs(self, random, size):
        return {"x": random.integers(0, 2**30, size=size["n"], dtype=np.int32)}

    def expect(self, data):
        x = data["x"]
        return {
            "bins": exact(np.bincount(x & 63, minlength=64).astype(np.uint64)),
            "largest": exact(np.array([x.max()], dtype=np.int32)),
            "mixed": exact(np.array([np.bitwise_xor.reduce(x)], dtype=np.uint32)),
        }

    def run(self, gpu, data):
        cp = gpu.cp
        x, bins = gpu.to_device(data["x"]), cp.zeros(64, dtype=np.uint64)
        largest, mixed = cp.full(1, -1, dtype=np.int32), cp.zeros(1, dtype=np.uint32)
        self.kernel(gpu, "gpuenv_histogram")((96,), (256,), (x, bins, largest, mixed, np.int64(x.size)))
        return {"bins": gpu.to_host(bins), "largest": gpu.to_host(largest), "mixed": gpu.to_host(mixed)}


class LaunchLimits(GpuTest):
    """A launch beyond the device's limits fails, and the next launch works."""

    TITLE = "launches beyond the limits are refused"
    LEVELS = {"normal": {"n": 4096}}
    TOLERANCE = "exact: integers; 1 for each launch that was refused"
    KERNELS = {
        "gpuenv_count": r"""
extern "C" __global__ void gpuenv_count(int *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] += i;
    }
}
"""
    }
    # No device supports more than 1024 threads per block, or 65535 blocks in the second dimension (CUDA C++ Programming
    # Guide, Compute Capabilities, Technical Specifications).
    BEYOND = (((1,), (2048,), 0), ((1, 70000), (1,), 0), ((1,), (1,), 1 << 30))

    def inputs(self, random, size):
        return {"n": size["n"], "start": int(random.integers(1, 2**20))}

    def expect(self, data):
        after = np.arange(data["n"], dtype=np.int32) + np.int32(data["start"])
        return {"refused": exact(np.array([1] * len(self.BEYOND))), "after": exact(after)}

    def run(self, gpu, data):
        cp, n = gpu.cp, data["n"]
        x = cp.full(n, data["start"], dtype=np.int32)
        kernel, refused = self.kernel(gpu, "gpuenv_count"), []
        for grid, block, shared in self.BEYOND:
            try:
                kernel(grid, block, (x, np.int32(n)), shared_mem=shared)
                refused.append(0)
            except (cp.cuda.driver.CUDADriverError, cp.cuda.runtime.CUDARuntimeError):
                refused.append(1)
        kernel(((n + 255) // 256,), (256,), (x, np.int32(n)))
        return {"refused": np.array(refused), "after": gpu.to_host(x)}


class CompileError(GpuTest):
    """An invalid source fails with the compiler's message, and the next kernel works."""

    TITLE = "a compile error is reported as such"
    LEVELS = {"normal": {"n": 1031}}
    TOLERANCE = "exact: integers; 1 where the error named the unknown word"
    FAULTY = 'extern "C" __global__ void gpuenv_faulty(int *x) { x[0] = no_such_word; }'
    KERNELS = {
        "gpuenv_right": r"""
extern "C" __global__ void gpuenv_right(int *x, int n, int start) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] = i * 3 + start;
    }
}
"""
    }

    def inputs(self, random, size):
        return {"n": size["n"], "start": int(random.integers(1, 2**20))}

    def expect(self, data):
        after = np.arange(data["n"], dtype=np.int32) * 3 + np.int32(data["start"])
        return {"refused": exact(np.array([1, 1])), "after": exact(after)}

    def run(self, gpu, data):
        cp, n = gpu.cp, data["n"]
        refused = [0, 0]
        try:
            cp.RawKernel(self.FAULTY, "gpuenv_faulty").compile()
        except cp.cuda.compiler.CompileException as error:
            refused = [1, int("no_such_word" in str(error))]
        x = cp.full(n, -1, dtype=np.int32)
        right = self.kernel(gpu, "gpuenv_right")
        right(((n + 127) // 128,), (128,), (x, np.int32(n), np.int32(data["start"])))
        return {"refused": np.array(refused), "after": gpu.to_host(x)}


class Cache(GpuTest):
    """The kernel cache: compiles a kernel with an empty cache and loads it again from the cached file."""

    TITLE = "compiling with a cold cache, loading from a warm one"
    LEVELS = {"normal": {"n": 4099}}
    TOLERANCE = "exact: integers"
    ALONE = ["normal", "deep"]
    ENVIRONMENT = {"CUPY_CACHE_DIR": "(temporary folder)", "CUPY_CACHE_IN_MEMORY": "0"}
    KERNELS = {
        "gpuenv_cached": r"""
extern "C" __global__ void gpuenv_cached(const int *x, int *y, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * 7 + i;
    }
}
"""
    }

    def inputs(self, random, size):
        return {"x": random.integers(-1000, 1000, size=size["n"], dtype=np.int32)}

    def expect(self, data):
        x = data["x"]
        value = x * 7 + np.arange(x.size, dtype=np.int32)
        return {"cold": exact(value), "warm": exact(value), "kept": exact(np.array([0, 1, 1]))}

    def run(self, gpu, data):
        cp, n, folder = gpu.cp, data["x"].size, os.environ["CUPY_CACHE_DIR"]

        def files():
            return {name for name in os.listdir(folder) if name.endswith(".cubin")} if os.path.isdir(folder) else set()

        x = gpu.to_device(data["x"])
        gpu.compile('extern "C" __global__ void gpuenv_first() { }', "gpuenv_first").compile()  # loads NVRTC
        y = cp.empty(n, dtype=np.int32)
        y.fill(-1)  # CuPy's own kernel for this has its file too, and it is another than that of cupy.full
        got, kept = {}, [0]
        before = files()
        for name in ("cold", "warm"):
            cp.clear_memo()
            started = time.perf_counter()
            kernel = self.kernel(gpu, "gpuenv_cached")
            kernel.compile()
            gpu.measure("compile_" + name, time.perf_counter() - started, "s")
            y.fill(-1)
            kernel(((n + 127) // 128,), (128,), (x, y, np.int32(n)))
            got[name] = gpu.to_host(y)
            kept.append(len(files() - before))
        got["kept"] = np.array(kept)
        return got


class Elementwise(GpuTest):
    """An element-wise kernel that CuPy generates, in integers and in double precision."""

    TITLE = "element-wise kernels"
    LEVELS = {"normal": {"n": 1000003}, "deep": {"n": 20000003}}
    SHRINKS = "n"
    BYTES = 10 * 8
    TOLERANCE = "integers exactly; one product and one sum round twice, or once where they are fused: 2 u (|ax| + |y|)"
    EXACT_REPEAT = True

    def inputs(self, random, size):
        n = size["n"]
        integers = random.integers(-(2**31), 2**31, size=(2, n), dtype=np.int64)
        return {
            "i": integers[0],
            "j": integers[1],
            "x": random.standard_normal(n),
            "y": random.standard_normal(n),
            "a": 1.75,
        }

    def expect(self, data):
        i, j, x, y, a = (data[name] for name in "ijxya")
        bound = 2 * UNIT["d"] * (np.abs(a * x) + np.abs(y)) * 1.01
        return {"integers": exact((i * 3 + j) ^ (i >> 5)), "axpy": approx(a * x + y, bound, "d")}

    def run(self, gpu, data):
        # Not i, which CuPy reserves for the element index.
        mix = gpu.cp.ElementwiseKernel("int64 p, int64 q", "int64 z", "z = (p * 3 + q) ^ (p >> 5)", "gpuenv_whole")
        x, y = gpu.to_device(data["x"]), gpu.to_device(data["y"])
        return {
            "integers": gpu.to_host(mix(gpu.to_device(data["i"]), gpu.to_device(data["j"]))),
            "axpy": gpu.to_host(data["a"] * x + y),
        }


class Fusion(GpuTest):
    """A fused function: several operations and a reduction in one kernel."""

    TITLE = "fused kernels"
    LEVELS = {"normal": {"n": 500009}, "deep": {"n": 10000019}}
    SHRINKS = "n"
    BYTES = 10 * 8
    TOLERANCE = (
        "integers exactly; three operations round three times: gamma(3) (|xy| + |x| + |y|); a sum of k: gamma(k + 3)"
    )

    def inputs(self, random, size):
        n = size["n"]
        integers = random.integers(-1000, 1000, size=(2, n), dtype=np.int64)
        return {"i": integers[0], "j": integers[1], "x": random.uniform(1, 2, n), "y": random.uniform(0.1, 0.9, n)}

    def expect(self, data):
        i, j, x, y = (data[name] for name in "ijxy")
        spread = np.abs(x * y) + np.abs(x) + np.abs(y)
        return {
            "integers": exact(i * j + i - j),
            "real": approx(x * y + x - y, gamma(3, UNIT["d"]) * spread, "d"),
            "sum": approx((x * y + x - y).sum(), gamma(x.size + 3, UNIT["d"]) * float(spread.sum()), "d"),
        }

    def run(self, gpu, data):
        cp = gpu.cp

        def formula(x, y):
            return x * y + x - y

        def total(x, y):
            return cp.sum(x * y + x - y)

        fused, summed = cp.fuse(formula), cp.fuse(total)
        x, y = gpu.to_device(data["x"]), gpu.to_device(data["y"])
        return {
            "integers": gpu.to_host(fused(gpu.to_device(data["i"]), gpu.to_device(data["j"]))),
            "real": gpu.to_host(fused(x, y)),
            "sum": gpu.to_host(summed(x, y)),
        }


class Reduction(GpuTest):
    """Reductions: integers exactly, floating point within the bound of the longest sum."""

    TITLE = "reductions over all and over one axis, and a reduction kernel"
    LEVELS = {"normal": {"n": 1003}, "deep": {"n": 6007}}
    HOST = 1.5  # small answers
    TOLERANCE = "integers exactly; a sum of k terms in any order: gamma(k) times the sum of the absolute values"
    SHRINKS = "n"

    def inputs(self, random, size):
        n = size["n"]
        return {
            "integers": random.integers(-1000, 1000, size=(n, n + 3), dtype=np.int64),
            "x": random.uniform(0.5, 1.5, size=(n, n + 3)),
        }

    def expect(self, data):
        integers, x = data["integers"], data["x"]
        bound = gamma(x.size, UNIT["d"]) * np.abs(x).sum()
        rows = gamma(x.shape[1], UNIT["d"]) * np.abs(x).sum(axis=1)
        squares = gamma(x.size + 2, UNIT["d"]) * float((x * x).sum())
        return {
            "sum": exact(integers.sum()),
            "by_column": exact(integers.sum(axis=0)),
            "largest": exact(integers.max(axis=1)),
            "where": exact(np.array(int(x.argmax()))),
            "real": approx(x.sum(dtype=np.longdouble).astype("d"), bound, "d"),
            "real_by_row": approx(x.sum(axis=1), rows, "d"),
            "squares": approx((x * x).sum(), squares, "d"),
        }

    def run(self, gpu, data):
        integers, x = gpu.to_device(data["integers"]), gpu.to_device(data["x"])
        squares = gpu.cp.ReductionKernel("float64 x", "float64 y", "x * x", "a + b", "y = a", "0", "gpuenv_squares")
        return {
            "sum": gpu.to_host(integers.sum()),
            "by_column": gpu.to_host(integers.sum(axis=0)),
            "largest": gpu.to_host(integers.max(axis=1)),
            "where": gpu.to_host(x.argmax()),
            "real": gpu.to_host(x.sum()),
            "real_by_row": gpu.to_host(x.sum(axis=1)),
            "squares": gpu.to_host(squares(x)),
        }

    def memory(self, size):
        return size["n"] ** 2 * 8 * 6


class Transcendental(GpuTest):
    """The element-wise functions that programs use most, in single and double precision."""

    TITLE = "sin, exp, log, tanh and pow"
    LEVELS = {"normal": {"n": 100003}, "deep": {"n": 5000011}}
    TOLERANCE = (
        "8 units in the last place in single and 16 in double precision: CUDA documents at most 4 (CUDA C++ Programming"
        " Guide, Mathematical Functions), and the double ones of NumPy may err by 4, too"
    )
    SHRINKS = "n"
    BYTES = 10 * 8
    ULPS = {"f": 8, "d": 16}
    NAMES = ("sin", "exp", "log", "tanh", "power")

    def inputs(self, random, size):
        n = size["n"]
        any_sign, positive = random.uniform(-20.0, 20.0, size=n), np.exp(random.uniform(-7.0, 7.0, size=n))
        exponent = random.uniform(-3.0, 3.0, size=n)
        arrays = {"x": any_sign, "p": positive, "e": exponent}
        return {kind + name: x.astype(kind) for kind in self.ULPS for name, x in arrays.items()}

    def results(self, package, data, kind):
        x, p, e = (data[kind + name] for name in "xpe")
        for name in self.NAMES:
            function = getattr(package, name)
            yield name + "_" + kind, function(p, e) if name == "power" else function(p if name == "log" else x)

    def expect(self, data):
        wide = {name: x.astype("d") for name, x in data.items()}
        return {
            name: approx(value, 2 * ulps * UNIT[kind] * np.abs(value), kind)
            for kind, ulps in self.ULPS.items()
            for name, value in self.results(np, wide, kind)
        }

    def run(self, gpu, data):
        arrays = {name: gpu.to_device(x) for name, x in data.items()}
        found = (pair for kind in self.ULPS for pair in self.results(gpu.cp, arrays, kind))
        return {name: gpu.to_host(value) for name, value in found}


class Indexing(SameAsNumpy):
    """Gather, scatter, compaction, scans, sums over indices, and arrays that are reused for results."""

    TITLE = "gather, scatter, scan, einsum and output arrays"
    LEVELS = {"normal": {"n": 100003}, "deep": {"n": 5000011}}
    HOST = 1.5  # narrow integers
    TOLERANCE = "exact: integers"
    SHRINKS = "n"
    BYTES = 10 * 8
    BINS = 257

    def inputs(self, random, size):
        n = size["n"]
        return {
            "x": random.integers(-1000, 1000, size=n, dtype=np.int32),
            "index": random.integers(0, n, size=n),
            "order": random.permutation(n),
            "cube": random.integers(-1000, 1000, size=(31, 17, 23)),
            "sheet": random.integers(-1000, 1000, size=(23, 17)),
        }

    def results(self, package, data):
        if hasattr(package.add, "at"):
            add_at = package.add.at
        else:  # before CuPy 12
            from cupyx import scatter_add as add_at
        x, index, order, cube, sheet = data.values()
        scattered, added = package.zeros_like(x), package.zeros(self.BINS, dtype=x.dtype)
        scattered[order] = x
        add_at(added, index % self.BINS, x)
        out = package.empty_like(x)
        package.multiply(x, 3, out=out)
        package.add(out, x, out=out)  # one of the inputs is the output
        out[::2] -= x[::2]
        return {
            "gathered": x[index],
            "scattered": scattered,
            "added": added,
            "positive": x[x > 0],
            "scan": package.cumsum(x.astype("q")),
            "scan_of_rows": package.cumsum(cube, axis=1),
            "sums": package.einsum("ijk,kj->i", cube, sheet),
            "product": package.einsum("ijk,kl->ijl", cube, sheet),
            "reused": out,
        }

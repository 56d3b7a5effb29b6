"""The GPU's health: memory patterns, and reproducible results under load."""

import time

import numpy as np

from gpuenv.smoke.payload.expected import UNIT, exact
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.payload.tests.blas import NO_TF32, product, product_memory

SOURCE = r"""
__device__ unsigned long long gpuenv_word(unsigned long long i, unsigned long long seed, int flip) {
    unsigned long long word = i * 0x9E3779B97F4A7C15ull + seed;
    return flip ? ~word : word;
}

extern "C" __global__ void gpuenv_write(unsigned long long *x, unsigned long long n, unsigned long long seed,
                                        int flip) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        x[i] = gpuenv_word(i, seed, flip);
    }
}

extern "C" __global__ void gpuenv_read(const unsigned long long *x, unsigned long long n, unsigned long long seed,
                                       int flip, unsigned long long *found) {
    unsigned long long sum = 0, wrong = 0;
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        sum += x[i];
        wrong += x[i] != gpuenv_word(i, seed, flip);
    }
    atomicAdd(&found[0], sum);
    atomicAdd(&found[1], wrong);
}
"""


class Pattern(GpuTest):
    """Patterns written to memory and read back; in the deep level to nearly all free memory."""

    TITLE = "memory patterns"
    LEVELS = {
        "quick": {"mib": 256, "share": 0.0},
        "normal": {"mib": 2048, "share": 0.0},
        "deep": {"mib": 2048, "share": 0.85},
    }
    HOST = 0.1  # only sums
    TOLERANCE = "exact: the sum modulo 2**64 of all words read, and the number of wrong words"
    SHRINKS = "mib"
    ALONE = ["deep"]
    SECONDS = {"deep": 600}
    KERNELS = {"gpuenv_write": SOURCE}
    WORD = 8
    PIECE = 1 << 30  # bytes of one allocation
    MASK = (1 << 64) - 1
    FACTOR = 0x9E3779B97F4A7C15

    def inputs(self, random, size):
        return {"bytes": size["mib"] << 20, "share": size["share"], "seed": int(random.integers(1, 2**62))}

    def checksum(self, words, seed, flip):
        """Returns the sum modulo 2**64 of the words 0 to n - 1, by the formula for 0 + 1 + ... + (n - 1)."""
        total = (words * (words - 1) // 2 * self.FACTOR + words * seed) & self.MASK
        return (words * self.MASK - total) & self.MASK if flip else total

    def expect(self, data):
        """Returns the sums of the first piece; all pieces hold the same words."""
        words = min(data["bytes"], self.PIECE) // self.WORD
        return {
            "sums": exact(np.array([self.checksum(words, data["seed"], flip) for flip in (0, 1)], dtype=np.uint64)),
            "wrong": exact(np.array([0, 0], dtype=np.uint64)),
        }

    def run(self, gpu, data):
        cp = gpu.cp
        words = min(data["bytes"], self.PIECE) // self.WORD
        # An integrated GPU takes its memory from the host.
        share = data["share"] / 2 if gpu.is_integrated() else data["share"]
        wanted = max(data["bytes"], int(gpu.free * share))
        pieces = [cp.empty(words, dtype=np.uint64) for _ in range(max(wanted // (words * self.WORD), 1))]
        write, read = gpu.compile(SOURCE, "gpuenv_write"), gpu.compile(SOURCE, "gpuenv_read")
        n, seed = np.uint64(words), np.uint64(data["seed"])
        sums, wrong = [], np.zeros(2, dtype=np.uint64)
        for flip in (0, 1):
            found = cp.zeros((len(pieces), 2), dtype=np.uint64)
            for piece in pieces:
                write((1024,), (256,), (piece, n, seed, np.int32(flip)))
            for number, piece in enumerate(pieces):
                read((1024,), (256,), (piece, n, seed, np.int32(flip), found[number]))
            host = gpu.to_host(found)
            # All pieces hold the same words: report the first with another sum, else the first piece.
            odd = np.nonzero(host[:, 0] != host[0, 0])[0]
            sums.append(host[odd[0] if odd.size else 0, 0])
            wrong[flip] = host[:, 1].sum()
        gpu.measure("memory_tested", float(len(pieces)) * words * self.WORD, "B")
        return {"sums": np.array(sums, dtype=np.uint64), "wrong": wrong}

    def memory(self, size):
        return size["mib"] << 20


class Sustained(GpuTest):
    """Sustained load: repeats one product, compares each result bitwise, and measures the rate."""

    TITLE = "reproducible results under sustained load"
    LEVELS = {"deep": {"n": 4096, "seconds": 30}}
    HOST = 1.5  # two matrices
    TOLERANCE = "exact: every product is bitwise equal to the first; a corner of that within gamma(2 k) |A| |B|"
    ALONE = ["normal", "deep"]
    ENVIRONMENT = NO_TF32
    SHRINKS = "n"
    SECONDS = {"deep": 300}
    CORNER = 16

    def inputs(self, random, size):
        n = size["n"]
        return {
            "a": random.standard_normal((n, n), dtype="f"),
            "b": random.standard_normal((n, n), dtype="f"),
            "seconds": size["seconds"],
        }

    def expect(self, data):
        a, b = data["a"][: self.CORNER], data["b"][:, : self.CORNER + 1]
        return {"corner": product(a, b, UNIT["f"], "f"), "differing": exact(np.array(0)), "ran": exact(np.array(1))}

    def run(self, gpu, data):
        cp, n = gpu.cp, data["a"].shape[0]
        a, b = gpu.to_device(data["a"]), gpu.to_device(data["b"])
        first = cp.matmul(a, b)
        differing, rates = cp.zeros((), dtype=np.int64), []
        until = time.perf_counter() + data["seconds"]
        while time.perf_counter() < until:
            took = gpu.round_time(lambda: cp.matmul(a, b), rounds=20, warm=0)
            again = cp.matmul(a, b)
            rates.append(2.0 * n**3 / took)
            differing += cp.count_nonzero(first.view(np.int32) != again.view(np.int32))
        tenth = max(len(rates) // 10, 1)
        gpu.measure("sustained_first", float(np.median(rates[:tenth])), "FLOP/s")
        gpu.measure("sustained_last", float(np.median(rates[-tenth:])), "FLOP/s")
        return {
            "corner": gpu.to_host(first[: self.CORNER, : self.CORNER + 1]),
            "differing": gpu.to_host(differing),
            "ran": np.array(int(len(rates) > 0)),
        }

    def memory(self, size):
        return product_memory(size, 4)

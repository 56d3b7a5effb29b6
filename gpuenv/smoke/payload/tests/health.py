"""The GPU's health: memory patterns, and right and equal results under load."""

import time

import numpy as np

from gpuenv.smoke.payload.cupy_device import round_count
from gpuenv.smoke.payload.expected import UNIT, exact
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.payload.tests.blas import NO_TF32, TENSOR_UNIT, product, product_memory

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


WORD = 8  # bytes
PIECE = 1 << 30  # bytes of one allocation


class PatternMemory:
    """Pieces of the GPU's memory that hold a pattern or its complement."""

    def __init__(self, gpu, words, count, seed):
        self.pieces = [gpu.cp.empty(words, dtype=np.uint64) for _ in range(count)]
        self._zeros, self._arguments = gpu.cp.zeros, (np.uint64(words), np.uint64(seed))
        self._write, self._read = gpu.compile(SOURCE, "gpuenv_write"), gpu.compile(SOURCE, "gpuenv_read")

    def write(self, flip):
        """Writes the pattern, or its complement if ``flip`` is 1."""
        for piece in self.pieces:
            self._write((1024,), (256,), (piece, *self._arguments, np.int32(flip)))

    def read(self, flip):
        """Returns, for each piece, the sum of its words modulo 2**64 and the number of wrong ones."""
        found = self._zeros((len(self.pieces), 2), dtype=np.uint64)
        for number, piece in enumerate(self.pieces):
            self._read((1024,), (256,), (piece, *self._arguments, np.int32(flip), found[number]))
        return found


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
    BYTES = 1 << 20
    ALONE = ["deep"]
    SECONDS = {"deep": 600}
    KERNELS = {"gpuenv_write": SOURCE}
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
        words = min(data["bytes"], PIECE) // WORD
        return {
            "sums": exact(np.array([self.checksum(words, data["seed"], flip) for flip in (0, 1)], dtype=np.uint64)),
            "wrong": exact(np.array([0, 0], dtype=np.uint64)),
        }

    def run(self, gpu, data):
        words = min(data["bytes"], PIECE) // WORD
        # An integrated GPU takes its memory from the host.
        share = data["share"] / 2 if gpu.is_integrated() else data["share"]
        wanted = max(data["bytes"], int(gpu.free * share))
        memory = PatternMemory(gpu, words, max(wanted // (words * WORD), 1), data["seed"])
        sums, wrong = [], np.zeros(2, dtype=np.uint64)
        for flip in (0, 1):
            memory.write(flip)
            host = gpu.to_host(memory.read(flip))
            # All pieces hold the same words: report the first with another sum, else the first piece.
            odd = np.nonzero(host[:, 0] != host[0, 0])[0]
            sums.append(host[odd[0] if odd.size else 0, 0])
            wrong[flip] = host[:, 1].sum()
        gpu.measure("memory_tested", float(len(memory.pieces)) * words * WORD, "B")
        return {"sums": np.array(sums, dtype=np.uint64), "wrong": wrong}


class Sustained(GpuTest):
    """A burn-in: products in single and half precision, and memory patterns, for a given time."""

    # Every product is compared bitwise with the first on the GPU, and every element of the first with the host's. The
    # columns of B repeat, so that the host computes few of them.
    TITLE = "burn-in: right and equal results under sustained load"
    LEVELS = {"deep": {"n": 4096, "seconds": 30, "mib": 4096}}
    HOST = 2  # answers in double precision
    TOLERANCE = (
        "exact: every product is bitwise equal to the first, and every word of the pattern is right; the first within"
        " gamma(2 k) |A| |B|, as blas.matmul_f32 and blas.matmul_f16"
    )
    ALONE = ["normal", "deep"]
    ENVIRONMENT = NO_TF32
    SHRINKS = "n"
    SECONDS = {"deep": 300}
    KERNELS = {"gpuenv_write": SOURCE}
    COLUMNS = 64
    TYPES = {"f32": ("f", np.int32), "f16": ("e", np.int16)}  # tensor cores multiply the second
    MAX_ROUNDS = 2000  # products in a row
    SHARE = 0.4  # of the free memory that patterns may take

    def inputs(self, random, size):
        n = size["n"]
        return {
            "a": random.standard_normal((n, n), dtype="f"),
            "b": random.standard_normal((n, min(self.COLUMNS, n)), dtype="f"),
            "seconds": size["seconds"],
            "bytes": size["mib"] << 20,
            "seed": int(random.integers(1, 2**62)),
        }

    def expect(self, data):
        a, b = data["a"], data["b"]
        copies = a.shape[0] // b.shape[1]
        answers = {
            "f32": product(a, b, UNIT["f"], "f"),
            "f16": product(a.astype("e"), b.astype("e"), TENSOR_UNIT, "e", UNIT["e"], 2.0**-25),
        }
        for name, one in answers.items():
            value, bound = (
                np.broadcast_to(part[:, None], (a.shape[0], copies, b.shape[1])) for part in (one.value, one.bound)
            )
            answers[name] = one._replace(value=value, bound=bound)
        clean = {"differing_" + name: exact(np.array(0)) for name in answers}
        return dict(answers, wrong_words=exact(np.array(0, dtype=np.uint64)), ran=exact(np.array(1)), **clean)

    def run(self, gpu, data):
        cp, n, columns = gpu.cp, data["a"].shape[0], data["b"].shape[1]
        copies = n // columns
        a, b = gpu.to_device(data["a"]), cp.tile(gpu.to_device(data["b"]), (1, copies))
        factors = {name: (a.astype(kind), b.astype(kind)) for name, (kind, _) in self.TYPES.items()}
        first = {name: cp.matmul(*pair) for name, pair in factors.items()}
        unequal = cp.ReductionKernel("T x, T y", "int64 z", "x != y", "a + b", "z = a", "0", "gpuenv_unequal")
        differing = {name: cp.zeros((), dtype=np.int64) for name in factors}
        rates, rounds = {name: [] for name in factors}, {}
        for name, pair in factors.items():
            took = gpu.round_time(lambda pair=pair: cp.matmul(*pair))
            rounds[name] = round_count(took, self.MAX_ROUNDS)
        words = min(data["bytes"], PIECE // 16) // WORD
        room = min(data["bytes"], int(gpu.free * self.SHARE / (2 if gpu.is_integrated() else 1)))
        memory = PatternMemory(gpu, words, room // (words * WORD), data["seed"])
        wrong_words, flip, count = cp.zeros((), dtype=np.uint64), 0, 0
        memory.write(flip)
        until = time.perf_counter() + data["seconds"]
        while time.perf_counter() < until:
            for name, (_, bits) in self.TYPES.items():
                reference, marks = first[name].view(bits), []
                for _ in range(rounds[name]):
                    start, end = cp.cuda.Event(), cp.cuda.Event()
                    start.record()
                    c = cp.matmul(*factors[name])
                    end.record()
                    differing[name] += unequal(c.view(bits), reference)
                    marks.append((start, end))
                end.synchronize()
                took = sum(cp.cuda.get_elapsed_time(*pair) for pair in marks) / 1000.0
                rates[name].append(2.0 * n * n * columns * copies * len(marks) / took)
                count += len(marks)
            wrong_words += memory.read(flip)[:, 1].sum()
            flip = 1 - flip
            memory.write(flip)
        for name, found in rates.items():
            tenth = max(len(found) // 10, 1)
            gpu.measure("sustained_%s_first" % name, float(np.median(found[:tenth])), "FLOP/s")
            gpu.measure("sustained_%s_last" % name, float(np.median(found[-tenth:])), "FLOP/s")
        gpu.measure("products_compared", count, "1")
        gpu.measure("memory_tested", float(len(memory.pieces)) * words * WORD, "B")
        got = {name: gpu.to_host(c).reshape(n, copies, columns) for name, c in first.items()}
        clean = {"differing_" + name: gpu.to_host(number) for name, number in differing.items()}
        return dict(got, wrong_words=gpu.to_host(wrong_words), ran=np.array(int(count > 0)), **clean)

    def memory(self, size):
        return product_memory(size, 6)

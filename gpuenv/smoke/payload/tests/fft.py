"""Fourier transforms; the host computes the expected ones in double precision."""

import math
import time

import numpy as np

from gpuenv.smoke.payload.expected import UNIT, ExpectedArray, approx, exact, repeated
from gpuenv.smoke.payload.tests import PLAIN_REDUCTIONS, GpuTest

# An element may err by this many times its part of the bound of the norm: rounding errors spread over all elements.
ELEMENT = 4.0


def transform_error(x, axes, unit):
    """Returns the error bound of the 2-norm of each unnormalized transform.

    A transform of n points errs, in the 2-norm, by at most log2(n) eta relative to its result, with eta a small
    multiple of the unit roundoff (Higham, Accuracy and Stability, section 24.1); 16 log2(n) u leaves room for lengths
    with large primes, which take three transforms of at least twice the length. The 2-norm of the result is sqrt(n)
    that of x.
    """
    points = float(np.prod([x.shape[axis] for axis in axes]))
    norm = np.sqrt((np.abs(x.astype(np.complex128)) ** 2).sum(axis=tuple(axes), keepdims=True))
    return 16.0 * max(math.log2(points), 1.0) * unit * math.sqrt(points) * norm


def normed(value, error, points, dtype) -> ExpectedArray:
    """Returns an expected array from the error of the 2-norm of each transform of ``points`` elements."""
    bound = np.broadcast_to(ELEMENT * error / math.sqrt(points), value.shape)
    return approx(value, bound, dtype)._replace(norm=float(np.linalg.norm(error)))


def transform(x, axes, dtype) -> ExpectedArray:
    """Returns the expected forward transform along axes; the bound includes NumPy's errors."""
    value = np.fft.fftn(x.astype(np.complex128), axes=axes)
    points = np.prod([x.shape[axis] for axis in axes])
    return normed(value, 1.1 * transform_error(x, axes, UNIT[dtype]), points, dtype)


def back(x, axes, dtype) -> ExpectedArray:
    """Returns the input as expected after a round trip: two errors, the second of a normalized transform."""
    points = np.prod([x.shape[axis] for axis in axes])
    return normed(x, 2.2 * transform_error(x, axes, UNIT[dtype]) / math.sqrt(points), points, dtype)


def random_signal(random, shape, dtype=np.complex128):
    """Returns complex noise."""
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


class Complex(GpuTest):
    """One-dimensional complex transforms of powers of two, primes and products of both."""

    TITLE = "one-dimensional complex transforms"
    LEVELS = {
        "quick": {"lengths": [4096]},
        "normal": {"lengths": [2, 4096, 65536, 4099, 6000, 100003]},
        "deep": {"lengths": [2, 4096, 1048576, 4099, 6000, 1000003, 16777216]},
    }
    HOST = 1.5  # plans take most of the GPU memory
    TOLERANCE = "16 log2(n) u relative to the 2-norm of a transform, and 64 log2(n) u |x|_2 for each element"
    EXACT_REPEAT = True

    def inputs(self, random, size):
        return {str(n): random_signal(random, (n,)) for n in size["lengths"]}

    def expect(self, data):
        double = {"double_" + n: transform(x, (0,), "D") for n, x in data.items()}
        single = {"single_" + n: transform(x.astype(np.complex64), (0,), "F") for n, x in data.items()}
        return dict(double, **single)

    def run(self, gpu, data):
        got = {}
        for n, x in data.items():
            got["double_" + n] = gpu.to_host(gpu.cp.fft.fft(gpu.to_device(x)))
            got["single_" + n] = gpu.to_host(gpu.cp.fft.fft(gpu.to_device(x.astype(np.complex64))))
        return got

    def memory(self, size):
        return max(size["lengths"]) * 16 * 12


class Real(GpuTest):
    """Transforms of real signals and their inverses."""

    TITLE = "real transforms and their inverses"
    LEVELS = {"normal": {"lengths": [1024, 1009, 30000]}, "deep": {"lengths": [1024, 1009, 30000, 4194304]}}
    HOST = 1.5  # as fft.complex
    TOLERANCE = "as fft.complex; for the round trip twice that over sqrt(n)"

    def inputs(self, random, size):
        return {str(n): random.standard_normal((3, n)) for n in size["lengths"]}

    def expect(self, data):
        answers = {}
        for n, x in data.items():
            error = 1.1 * transform_error(x, (1,), UNIT["d"])
            answers["spectrum_" + n] = normed(np.fft.rfft(x, axis=1), error, x.shape[1], "D")
            answers["back_" + n] = back(x, (1,), "d")
            answers["plane_" + n] = back(x, (0, 1), "d")
        return answers

    def run(self, gpu, data):
        fft, got = gpu.cp.fft, {}
        for n, x in data.items():
            on_gpu = gpu.to_device(x)
            spectrum = fft.rfft(on_gpu, axis=1)
            got["spectrum_" + n] = gpu.to_host(spectrum)
            got["back_" + n] = gpu.to_host(fft.irfft(spectrum, n=x.shape[1], axis=1))
            got["plane_" + n] = gpu.to_host(fft.irfft2(fft.rfft2(on_gpu), s=x.shape))
        return got

    def memory(self, size):
        return max(size["lengths"]) * 8 * 3 * 12


class Dimensions(GpuTest):
    """Two- and three-dimensional complex transforms and batches of them."""

    TITLE = "two- and three-dimensional and batched transforms"
    LEVELS = {"normal": {"scale": 1}, "deep": {"scale": 4}}
    TOLERANCE = "as fft.complex; n is the number of points of one transform"
    EXACT_REPEAT = True
    CASES = {
        "plane": ((96, 130), (0, 1)),
        "space": ((24, 30, 28), (0, 1, 2)),
        "rows": ((37, 256), (1,)),
        "columns": ((256, 37), (0,)),
        "planes": ((5, 48, 36), (1, 2)),
    }

    def inputs(self, random, size):
        shapes = {name: (shape[0] * size["scale"],) + shape[1:] for name, (shape, _) in self.CASES.items()}
        return {name: random_signal(random, shape) for name, shape in shapes.items()}

    def expect(self, data):
        return {name: transform(x, self.CASES[name][1], "D") for name, x in data.items()}

    def run(self, gpu, data):
        return {
            name: gpu.to_host(gpu.cp.fft.fftn(gpu.to_device(x), axes=self.CASES[name][1])) for name, x in data.items()
        }


class Inverse(GpuTest):
    """The inverse transform restores the input, and the plan cache reuses a plan."""

    TITLE = "inverse transforms and the plan cache"
    LEVELS = {"normal": {"n": 12000}, "deep": {"n": 2000000}}
    TOLERANCE = "as fft.complex, twice over sqrt(n) for the inverse; the number of plans exactly"
    SHRINKS = "n"
    BYTES = 10 * 16

    def inputs(self, random, size):
        return {"x": random_signal(random, (size["n"],))}

    def expect(self, data):
        x = data["x"]
        return {
            "spectrum": transform(x, (0,), "D"),
            "again": transform(x, (0,), "D"),
            "back": back(x, (0,), "D"),
            # None, then one that the second transform and the inverse reuse; none after clearing.
            "plans": exact(np.array([0, 1, 1, 1, 0])),
        }

    def run(self, gpu, data):
        fft = gpu.cp.fft
        cache = fft.config.get_plan_cache()
        cache.clear()
        cache.set_size(8)
        x, plans = gpu.to_device(data["x"]), [cache.get_curr_size()]
        spectrum = fft.fft(x)
        plans.append(cache.get_curr_size())
        again = fft.fft(x)
        plans.append(cache.get_curr_size())
        got = {"spectrum": gpu.to_host(spectrum), "again": gpu.to_host(again), "back": gpu.to_host(fft.ifft(spectrum))}
        plans.append(cache.get_curr_size())
        cache.clear()
        plans.append(cache.get_curr_size())
        got["plans"] = np.array(plans)
        return got


class Rates(GpuTest):
    """The rate of a large batch of transforms, and NumPy's on this host."""

    TITLE = "rate of transforms"
    # Large enough that a transform takes longer than the tens of microseconds that the host needs to launch the next:
    # 512 MiB, read and written, take 0.13 ms at 8 TB/s.
    LEVELS = {"normal": {"batch": 4096, "n": 16384}, "deep": {"batch": 2048, "n": 65536}}
    HOST = 0.1  # eight rows
    TOLERANCE = "as fft.complex, in single precision: each element on the GPU, and the last transform on the host"
    ENVIRONMENT = PLAIN_REDUCTIONS
    ALONE = ["normal", "deep"]
    SHRINKS = "batch"

    def inputs(self, random, size):
        return {"few": random_signal(random, (8, size["n"]), np.complex64), "batch": size["batch"]}

    def rows(self, data):
        """Returns the row of ``few`` that each transform has."""
        few = data["few"].shape[0]
        return repeated(max(data["batch"] // few, 1) * few, few)

    def expect(self, data):
        last = data["few"][self.rows(data)[-1:]]
        return {"last": transform(last, (1,), "F"), "wrong": exact(np.array(0, dtype=np.int64))}

    def run(self, gpu, data):
        few, rows = data["few"], self.rows(data)
        n = few.shape[1]
        x = gpu.to_device(few)[gpu.to_device(rows)]
        took = gpu.steady_time(lambda: gpu.cp.fft.fft(x, axis=1))
        gpu.measure_rate("fft_c64", 5.0 * n * np.log2(n) * x.shape[0], x.nbytes, took, "FLOP/s")
        started = time.perf_counter()
        np.fft.fft(few, axis=1)
        gpu.measure("numpy_fft", 5.0 * n * np.log2(n) * few.shape[0] / (time.perf_counter() - started), "FLOP/s")
        spectra = gpu.cp.fft.fft(x, axis=1)
        wrong = gpu.count_wrong(spectra, transform(few, (1,), "F"), rows)
        return {"last": gpu.to_host(spectra[-1:]), "wrong": wrong}

    def memory(self, size):
        return size["batch"] * size["n"] * 8 * 5

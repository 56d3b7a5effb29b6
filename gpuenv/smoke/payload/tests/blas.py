"""Products of matrices and vectors, triangular systems, and the rate of matrix products by dtype."""

import time

import numpy as np

from gpuenv.smoke.payload.expected import UNIT, ExpectedArray, approx, exact, gamma, repeated
from gpuenv.smoke.payload.tests import PLAIN_REDUCTIONS, GpuTest, SameAsNumpy

# Tensor cores round partial sums towards zero rather than to nearest: twice the unit of single precision.
TENSOR_UNIT = 2.0**-23
BFLOAT16_UNIT = 2.0**-8
TF32_UNIT = 2.0**-11
# Overrides the caller's setting: many enable TF32 for other libraries.
NO_TF32 = {"CUPY_TF32": "0", "NVIDIA_TF32_OVERRIDE": "0"}


def product(a, b, unit, dtype, out_unit=0.0, smallest=0.0) -> ExpectedArray:
    """Returns A @ B with the bound gamma(2 k) |A| |B| for the sums, plus rounding to a coarser dtype.

    A library that splits a sum over several blocks may keep their parts in the type of the result (cuBLAS, section
    cublasMath_t: CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION is off by default): it rounds each part and their
    total. If the parts cancel, this is more than the rounding of the result.

    Args:
        a: of the type that the GPU multiplies.
        b: of the same.
        unit: the unit roundoff of the sums.
        dtype: of the answer.
        out_unit: the unit roundoff of the result's type, if it is coarser than that of the sums.
        smallest: half the smallest number of the result's type.
    """
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
    value, spread = a @ b, np.abs(a) @ np.abs(b)
    # Each part of a complex product takes two products and a sum.
    terms = 2 * a.shape[-1] * (2 if wide is np.complex128 else 1)
    bound = gamma(terms, unit) * spread
    return approx(value, bound + 2 * out_unit * (spread + bound) + smallest, dtype)


def whole_numbers(random, shape, least, most, kept=1.0, dtype="d"):
    """Returns odd whole numbers from ``least`` to ``most``, even bounds, with random signs; a share of the rest is 0.

    An odd number has as many significant bits as it can, so that a type with fewer changes it.
    """
    numbers = random.integers(least // 2, most // 2, size=shape) * 2 + 1
    signs = random.integers(0, 2, size=shape) * 2 - 1
    return (numbers * signs * (random.random(shape) < kept)).astype(dtype)


def exact_product(a, b, dtype) -> ExpectedArray:
    """Returns A @ B of whole numbers, whose sums are exact in double precision."""
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    return exact((np.asarray(a).astype(wide) @ np.asarray(b).astype(wide)).astype(dtype))


def loosened(answer, factor):
    """Returns the same expected array with a larger bound."""
    return answer._replace(bound=factor * answer.bound)


def product_memory(size, item):
    """Returns the bytes of A, B, their product and a workspace."""
    return 5 * (size["n"] + 16) ** 2 * item


class _Product(GpuTest):
    """A @ B of two matrices of one dtype: of random numbers, within a bound, and of whole numbers, exactly.

    The whole numbers have so few bits that no order of the sums rounds: about ``TERMS`` terms of a sum are not zero.
    """

    SHRINKS = "n"
    TYPE = "f"
    ITEM = 4  # bytes
    WHOLE_A, WHOLE_B = (
        (4096, 8192),
        (0, 4),
    )  # more than the 11 bits of TF32; 700 * 8191 * 3 < 2**24 with room for chance
    TERMS = 500

    def inputs(self, random, size):
        # Different shapes, so that a swapped axis fails; entries are exact in the dtype.
        n = size["n"]
        k = n + 8
        a, b = random.standard_normal((n, k)), random.standard_normal((k, n + 16))
        whole = self.whole_operands(random, a.shape, b.shape)
        return dict(whole, a=a.astype(self.TYPE), b=b.astype(self.TYPE))

    def whole_operands(self, random, shape_a, shape_b):
        """Returns two matrices of whole numbers."""
        kept = min(1.0, self.TERMS / float(shape_b[0])) ** 0.5
        return {
            "whole_a": whole_numbers(random, shape_a, *self.WHOLE_A, kept, self.TYPE),
            "whole_b": whole_numbers(random, shape_b, *self.WHOLE_B, kept, self.TYPE),
        }

    def expect(self, data):
        return {
            "c": self.bounded(data["a"], data["b"]),
            "whole": exact_product(data["whole_a"], data["whole_b"], self.TYPE),
        }

    def bounded(self, a, b) -> ExpectedArray:
        """Returns the expected product of random numbers."""
        return product(a, b, UNIT[self.TYPE], self.TYPE)

    def run(self, gpu, data):
        return {
            name: gpu.to_host(gpu.to_device(data[a]) @ gpu.to_device(data[b]))
            for name, a, b in (("c", "a", "b"), ("whole", "whole_a", "whole_b"))
        }

    def memory(self, size):
        return product_memory(size, self.ITEM)


class MatmulF16(_Product):
    """The matrix product in half precision, summed in single precision."""

    TITLE = "matrix product in half precision"
    LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
    TOLERANCE = (
        "whole numbers whose sums half precision holds: exact; others: sums in single precision, cut off by tensor"
        " cores: gamma(2 k) |A| |B|; and two roundings to half precision of what they are summed from"
    )
    TYPE = "e"
    WHOLE_A, WHOLE_B, TERMS = (0, 8), (0, 2), 100  # sums below 2048, up to which half precision is exact

    def bounded(self, a, b):
        return product(a, b, TENSOR_UNIT, "e", UNIT["e"], 2.0**-25)


class MatmulF32(_Product):
    """The matrix product in single precision, with TF32 disabled."""

    TITLE = "matrix product in single precision"
    LEVELS = {"quick": {"n": 256}, "normal": {"n": 512}, "deep": {"n": 2048}}
    TOLERANCE = (
        "whole numbers of 13 bits with sums below 2**24: exact, as TF32 is not; others: gamma(2 k) |A| |B| with the"
        " unit of single precision: any order of the sum, with or without fused operations"
    )
    ENVIRONMENT = NO_TF32
    EXACT_REPEAT = True


class MatmulF64(_Product):
    """The matrix product in double precision."""

    TITLE = "matrix product in double precision"
    LEVELS = {"normal": {"n": 512}, "deep": {"n": 1536}}
    TOLERANCE = (
        "whole numbers of 36 bits with sums below 2**53: exact; others: gamma(2 k) |A| |B| on both sides, as NumPy's"
        " product rounds too"
    )
    EXACT_REPEAT = True
    TYPE, ITEM = "d", 8
    WHOLE_A, WHOLE_B = (1 << 35, 1 << 36), (0, 16)

    def bounded(self, a, b):
        return loosened(super().bounded(a, b), 2)


class MatmulC64(_Product):
    """The matrix product of complex numbers in single precision."""

    TITLE = "matrix product of complex numbers"
    LEVELS = {"normal": {"n": 384}, "deep": {"n": 1024}}
    TOLERANCE = (
        "whole numbers as blas.matmul_f32: exact; others: a complex product is four real ones: gamma(4 k) |A| |B|,"
        " with a factor of sqrt(2) for the two parts"
    )
    ENVIRONMENT = NO_TF32
    ITEM = 8
    TERMS = 100  # also where three products of sums take the place of four

    def inputs(self, random, size):
        real, imaginary = super().inputs(random, size), super().inputs(random, size)
        return {name: (real[name] + 1j * imaginary[name]).astype(np.complex64) for name in real}

    def expect(self, data):
        return {
            "c": loosened(product(data["a"], data["b"], UNIT["f"], "F"), 1.5),
            "whole": exact_product(data["whole_a"], data["whole_b"], "F"),
        }


class MatmulTf32(_Product):
    """The matrix product in single precision where TF32, which drops 13 bits of the operands, is allowed."""

    TITLE = "matrix product with TF32 allowed"
    LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
    NEEDS = ["capability:8.0"]
    TOLERANCE = (
        "whole numbers of 11 bits: exact, with TF32 or not; others: operands keep 11 bits, possibly truncated:"
        " 2 * 2**-10 |A| |B|, plus the sums in single precision; whether TF32 was chosen is measured"
    )
    ENVIRONMENT = {"CUPY_TF32": "1"}
    WHOLE_A = (1024, 2048)
    WIDE = 4097.0  # a whole number that TF32 does not hold

    def bounded(self, a, b):
        sums = product(a, b, TENSOR_UNIT, "f")
        spread = np.abs(a).astype("d") @ np.abs(b).astype("d")
        return approx(sums.value, sums.bound + 2.02 * (2 * TF32_UNIT) * spread, "f")

    def run(self, gpu, data):
        a = np.full(data["a"].shape, self.WIDE, dtype="f")
        b = np.eye(*data["b"].shape, dtype="f")
        chosen = gpu.to_device(a) @ gpu.to_device(b)
        gpu.measure("tf32_chosen", float((chosen[:, : a.shape[1]] != self.WIDE).any()), "1")
        return super().run(gpu, data)


class MatmulInt8(_Product):
    """The matrix product of integers: int8, which wraps around, and int32."""

    TITLE = "matrix product of integers"
    LEVELS = {"normal": {"n": 256}, "deep": {"n": 768}}
    TOLERANCE = "exact: sums of int8 wrap around as NumPy's do"
    EXACT_REPEAT = True

    def inputs(self, random, size):
        n = size["n"]
        return {
            "a": random.integers(-128, 128, size=(n, n + 8), dtype=np.int8),
            "b": random.integers(-128, 128, size=(n + 8, n + 16), dtype=np.int8),
        }

    def expect(self, data):
        # |sum| < 2**53: the product in double precision is exact.
        value = np.rint(data["a"].astype("d") @ data["b"].astype("d")).astype(np.int64)
        return {"int8": exact(value.astype(np.int8)), "int32": exact(value.astype(np.int32))}

    def run(self, gpu, data):
        a, b = gpu.to_device(data["a"]), gpu.to_device(data["b"])
        return {"int8": gpu.to_host(a @ b), "int32": gpu.to_host(a.astype(np.int32) @ b.astype(np.int32))}


class MatmulBf16(_Product):
    """The matrix product in bfloat16, supported from CuPy 14 on with ml_dtypes."""

    TITLE = "matrix product in bfloat16"
    LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
    # CuPy disables bfloat16 with older NumPy versions, which crash on loops over custom dtypes.
    NEEDS = ["module:ml_dtypes", "cupy:14", "numpy:2.1.2", "capability:8.0"]
    TOLERANCE = (
        "integers that bfloat16 holds in every order of the sum: exact; others: gamma(2 k) |A| |B| for sums in"
        " single precision, cut off by tensor cores, and two roundings of their summands to bfloat16"
    )
    ITEM = 8
    WHOLE_A, WHOLE_B, TERMS = (0, 2), (0, 2), 100  # bfloat16 represents every integer up to 256

    def inputs(self, random, size):
        data = super().inputs(random, size)
        # Multiples of 1/8 up to 8 have seven significant bits and are exact in bfloat16.
        for name in ("a", "b"):
            data[name] = (random.integers(-63, 64, size=data[name].shape) / 8.0).astype("f")
        return data

    def bounded(self, a, b):
        return product(a, b, TENSOR_UNIT, "f", BFLOAT16_UNIT)

    def run(self, gpu, data):
        import ml_dtypes

        kind = np.dtype(ml_dtypes.bfloat16)

        def multiplied(a, b):
            c = gpu.to_device(a.astype(kind)) @ gpu.to_device(b.astype(kind))
            if c.dtype != kind:
                raise TypeError("the product of two bfloat16 arrays has type %s" % c.dtype)
            return gpu.to_host(c.astype("f"))

        return {
            "c": multiplied(data["a"], data["b"]),
            "whole": multiplied(data["whole_a"], data["whole_b"]),
        }


class Batched(SameAsNumpy):
    """Batched products, and products of transposed and strided views."""

    TITLE = "batched, strided and transposed products"
    LEVELS = {"normal": {"n": 96, "batch": 12}, "deep": {"n": 256, "batch": 64}}
    TOLERANCE = "exact: whole numbers of 32 bits, whose sums are below 2**53"
    SHRINKS = "batch"

    def inputs(self, random, size):
        n, batch = size["n"], size["batch"]
        return {
            "a": whole_numbers(random, (batch, n, n + 4), 1 << 31, 1 << 32),
            "b": whole_numbers(random, (batch, n + 4, n + 8), 0, 64),
            "one": whole_numbers(random, (n + 4, n + 8), 0, 64),
        }

    def results(self, package, data):
        a, b, one = data["a"], data["b"], data["one"]
        return {
            "batched": a @ b,
            "broadcast": a @ one,
            "transposed": b.transpose(0, 2, 1) @ a.transpose(0, 2, 1),
            "strided": a[0, ::2, ::-1] @ one[::-1, 1::3],
            "fortran": package.asfortranarray(one.T) @ package.asfortranarray(b[-1]),
        }

    def memory(self, size):
        return size["batch"] * (size["n"] + 8) ** 2 * 8 * 8


class Vectors(SameAsNumpy):
    """Products with vectors: matrix times vector, dot, vdot, outer."""

    TITLE = "products with vectors"
    LEVELS = {"normal": {"n": 1500}, "deep": {"n": 6000}}
    TOLERANCE = "exact: whole numbers of 20 bits, whose sums are below 2**53"
    SHRINKS = "n"

    def inputs(self, random, size):
        n, bits = size["n"], (1 << 19, 1 << 20)
        return {
            "a": whole_numbers(random, (n, n + 5), *bits),
            "x": whole_numbers(random, n + 5, *bits),
            "y": whole_numbers(random, n, *bits),
            "z": whole_numbers(random, n, *bits) + 1j * whole_numbers(random, n, *bits),
        }

    def results(self, package, data):
        a, x, y, z = data["a"], data["x"], data["y"], data["z"]
        return {
            "column": a @ x,
            "row": y @ a,
            "dot": package.dot(x, x),
            "vdot": package.vdot(z, y.astype(complex)),
            "outer": package.outer(y, x[:7]),
        }

    def memory(self, size):
        return size["n"] ** 2 * 8 * 3


class Triangular(GpuTest):
    """Triangular systems, lower and upper, for several right-hand sides."""

    TITLE = "triangular systems"
    LEVELS = {"normal": {"n": 256}, "deep": {"n": 1024}}
    NEEDS = ["module:scipy"]  # cupyx.scipy.linalg uses parts of it
    TOLERANCE = (
        "the right-hand side is made from a known solution; substitution errs by cond(T) gamma(n), and T, with rows"
        " that sum to less than half its diagonal, has a condition number below 4: 16 gamma(n) max|x|"
    )
    SHRINKS = "n"

    def inputs(self, random, size):
        n = size["n"]
        full = random.uniform(-0.5 / n, 0.5 / n, size=(n, n)) + np.eye(n)
        return {"lower": np.tril(full), "upper": np.triu(full), "x": random.standard_normal((n, 9))}

    def expect(self, data):
        x = data["x"]
        answer = approx(x, 16 * gamma(x.shape[0], UNIT["d"]) * float(np.abs(x).max()), "d")
        return {"lower": answer, "upper": answer, "transposed": answer}

    def run(self, gpu, data):
        from cupyx.scipy.linalg import solve_triangular

        lower, upper = gpu.to_device(data["lower"]), gpu.to_device(data["upper"])
        x = data["x"]
        sides = {
            "lower": gpu.to_device(data["lower"] @ x),
            "upper": gpu.to_device(data["upper"] @ x),
            "transposed": gpu.to_device(data["lower"].T @ x),
        }
        return {
            "lower": gpu.to_host(solve_triangular(lower, sides["lower"], lower=True)),
            "upper": gpu.to_host(solve_triangular(upper, sides["upper"])),
            "transposed": gpu.to_host(solve_triangular(lower, sides["transposed"], trans=1, lower=True)),
        }

    def memory(self, size):
        return size["n"] ** 2 * 8 * 8


class Rates(GpuTest):
    """The rate of the matrix product by dtype, and NumPy's on this host; each product is checked."""

    # Few rows of A and columns of B differ, so that the host computes few of them; the GPU compares all elements, and
    # the host a corner, in case the comparison is what fails.
    TITLE = "rates of the matrix product"
    LEVELS = {"normal": {"n": 4096, "host": 1024}, "deep": {"n": 8192, "host": 2048}}
    HOST = 0.1  # the host's own product
    TOLERANCE = (
        "every element, on the GPU: whole numbers as blas.matmul_f16, f32 and f64: exact; the measured product:"
        " gamma(2 k) |A| |B| with the unit of each dtype; a corner on the host, too"
    )
    ALONE = ["normal", "deep"]
    ENVIRONMENT = dict(NO_TF32, **PLAIN_REDUCTIONS)
    SHRINKS = "n"
    TYPES = {"f16": MatmulF16(), "f32": MatmulF32(), "f64": MatmulF64()}
    DISTINCT = 64  # rows and columns
    CORNER = 24
    MIN_ROWS = 2048  # rows and columns: smaller products measure the launch instead of the GPU
    MAX_SECONDS = 0.5  # of a product: on a GPU with a display, the driver kills kernels that take seconds
    SAMPLE_ROWS = 256  # for an estimate of the total time

    def inputs(self, random, size):
        n, few = size["n"], min(self.DISTINCT, size["n"])
        # The same numbers for each dtype: their bits change the power that a GPU takes, and so its rate.
        a, b = (random.standard_normal(shape, dtype="f").astype("e") for shape in ((few, n), (n, few)))
        data = {"n": n, "host": size["host"]}
        for name, test in self.TYPES.items():
            whole = test.whole_operands(random, a.shape, b.shape)
            data[name] = dict(whole, a=a.astype(test.TYPE), b=b.astype(test.TYPE))
        return data

    def expect(self, data):
        numbers, answers = repeated(data["n"], min(self.DISTINCT, data["n"])), {}
        corner = np.ix_(numbers[-self.CORNER :], numbers[: self.CORNER + 2])
        none = exact(np.array(0, dtype=np.int64))
        for name, test in self.TYPES.items():
            answer = test.bounded(data[name]["a"], data[name]["b"])
            answers[name] = answer._replace(value=answer.value[corner], bound=answer.bound[corner])
            answers.update({name + "_wrong": none, name + "_whole_wrong": none})
        return answers

    def run(self, gpu, data):
        n, few, got = data["n"], self.SAMPLE_ROWS, {}
        numbers = repeated(n, min(self.DISTINCT, n))
        on_gpu = gpu.to_device(numbers)
        for name, test in self.TYPES.items():
            operands, expected = data[name], test.expect(data[name])
            a, b = gpu.to_device(operands["a"])[on_gpu], gpu.to_device(operands["b"])[:, on_gpu]
            rows = self.rows_of(n, gpu.round_time(lambda a=a, b=b: a[-few:] @ b, rounds=1, warm=1))
            a = a[-rows:]
            # Without an output array: CuPy would copy the product into it.
            took = gpu.steady_time(lambda a=a, b=b: a @ b)
            c = a @ b
            if n >= self.MIN_ROWS:
                gpu.measure("matmul_" + name, 2.0 * rows * n * n / took, "FLOP/s")
            got[name] = gpu.to_host(c[-self.CORNER :, : self.CORNER + 2])
            got[name + "_wrong"] = gpu.count_wrong(c, expected["c"], numbers[-rows:], numbers)
            del a, b, c
            a, b = gpu.to_device(operands["whole_a"])[on_gpu[-rows:]], gpu.to_device(operands["whole_b"])[:, on_gpu]
            got[name + "_whole_wrong"] = gpu.count_wrong(a @ b, expected["whole"], numbers[-rows:], numbers)
            del a, b
        self.measure_host(gpu, data["f32"], numbers[: data["host"]])
        return got

    def measure_host(self, gpu, operands, numbers):
        """Measures NumPy's product."""
        n = len(numbers)
        a, b = operands["a"][numbers, :n], operands["b"][:n, numbers]
        a @ b  # warm-up: the library starts its threads
        started = time.perf_counter()
        a @ b
        gpu.measure("numpy_matmul_f32", 2.0 * n**3 / (time.perf_counter() - started), "FLOP/s")

    def rows_of(self, n, seconds):
        """Returns how many rows of A to multiply if ``SAMPLE_ROWS`` take ``seconds``: all, unless that is too long."""
        return n if seconds * n <= self.MAX_SECONDS * self.SAMPLE_ROWS else min(self.SAMPLE_ROWS, n)

    def memory(self, size):
        return product_memory(size, 12)

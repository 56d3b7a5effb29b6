"""Dtypes: casts, promotion, overflow and special values."""

import numpy as np

from gpuenv.smoke.payload.expected import UNIT, approx, exact
from gpuenv.smoke.payload.tests import GpuTest, SameAsNumpy

WHOLE = "bBhHiIqQ"


def small_numbers(random, code, n):
    """Returns numbers from 1 to 9, exact in every dtype; for bool, alternating values."""
    numbers = random.integers(1, 10, size=n)
    if code == "?":
        return numbers % 2 == 1
    return numbers.astype(np.dtype(code))


def name(code):
    """Returns ``int32`` for ``i``."""
    return np.dtype(code).name


class Casting(SameAsNumpy):
    """Casts between every pair of dtypes, with numbers that both represent."""

    TITLE = "casts between every pair of dtypes"
    # With a cold cache CuPy compiles a kernel for each pair.
    LEVELS = {"normal": {"n": 9, "codes": "?biqQefdD"}, "deep": {"n": 9, "codes": "?bBhHiIqQefdFD"}}
    SECONDS = {"normal": 120, "deep": 600}
    TOLERANCE = "exact: numbers that both dtypes represent; narrowed integers wrap around as in NumPy"

    def inputs(self, random, size):
        data = {code: small_numbers(random, code, size["n"]) for code in size["codes"]}
        data["wide"] = random.integers(-(2**62), 2**62, size=size["n"] * 20, dtype=np.int64)
        return data

    def results(self, package, data):
        codes = [code for code in data if code != "wide"]
        # Both warn when a cast from complex to real drops the imaginary part.
        pairs = [(a, b) for a in codes for b in codes if a != b and (a not in "FD" or b in "FD")]
        casts = {"%s_to_%s" % (name(a), name(b)): data[a].astype(b) for a, b in pairs}
        casts.update({"cut_to_" + name(code): data["wide"].astype(code) for code in WHOLE})
        return casts


class Overflow(SameAsNumpy):
    """Integer arithmetic wraps around: sums, products, shifts, division and remainder as in NumPy."""

    TITLE = "integer overflow, division and remainder"
    LEVELS = {"normal": {"n": 5003}}
    TOLERANCE = "exact: integers"

    def inputs(self, random, size):
        data = {}
        for code in WHOLE:
            info = np.iinfo(code)
            data[code] = random.integers(info.min, info.max, size=(2, size["n"]), dtype=np.dtype(code), endpoint=True)
            # No division by zero, nor of the minimum by -1, whose quotient the dtype cannot represent.
            data[code][1][(data[code][1] == 0) | (data[code][1] == np.array(-1).astype(code))] = 3
        return data

    def results(self, package, data):
        answers = {}
        for code, (x, y) in data.items():
            found = {"sum": x + y, "product": x * y, "quotient": x // y, "remainder": x % y, "bits": (x & y) ^ (x | y)}
            answers.update({"%s_%s" % (name(code), key): value for key, value in found.items()})
        return answers


class Promotion(GpuTest):
    """The dtype and the value of each operation between two dtypes, as in NumPy."""

    TITLE = "type promotion per operation"
    # With a cold cache CuPy compiles a kernel for each pair, in a quarter of a second.
    LEVELS = {
        "quick": {"codes": "iqfd", "operations": ["add"]},
        "normal": {"codes": "?bBiqQefdD", "operations": ["add", "multiply"]},
        "deep": {"codes": "?bBhHiIqQefdFD", "operations": ["add", "multiply", "maximum"]},
    }
    SECONDS = {"normal": 120, "deep": 900}
    TOLERANCE = "exact: small integers, whose sums and products every dtype represents"
    N = 11

    def inputs(self, random, size):
        codes = size["codes"]
        return {
            "left": {code: small_numbers(random, code, self.N) for code in codes},
            "right": {code: small_numbers(random, code, self.N) for code in codes},
            "operations": size["operations"],
        }

    def results(self, package, left, right, operations):
        for operation in operations:
            codes = list(left)
            for number, first in enumerate(codes):
                for second in codes[number:]:
                    key = "%s_%s_%s" % (operation, name(first), name(second))
                    yield key, getattr(package, operation)(left[first], right[second])

    def expect(self, data):
        return {key: exact(value) for key, value in self.results(np, **data)}

    def run(self, gpu, data):
        left = {code: gpu.to_device(x) for code, x in data["left"].items()}
        right = {code: gpu.to_device(x) for code, x in data["right"].items()}
        return {key: gpu.to_host(value) for key, value in self.results(gpu.cp, left, right, data["operations"])}


class Special(GpuTest):
    """NaN, infinities, half precision and complex numbers behave as in NumPy."""

    TITLE = "NaN, infinities, half precision, complex numbers"
    LEVELS = {"normal": {"n": 3001}}
    TOLERANCE = (
        "exact for comparisons, extrema and sorting; half precision to 2 units of it; complex products to 4 units"
    )

    def inputs(self, random, size):
        n = size["n"]
        x, y = random.standard_normal(n), random.standard_normal(n)
        x[::7], x[3::11], y[5::13] = np.nan, np.inf, -np.inf
        half = random.uniform(0.1, 4.0, size=(2, n)).astype("e")
        z = random.standard_normal((2, n)) + 1j * random.standard_normal((2, n))
        return {"x": x, "y": y, "half": half, "z": z}

    def results(self, package, x, y):
        """Returns the answers that NumPy and CuPy compute exactly."""
        return {
            "isnan": package.isnan(x + y),
            "maximum": package.maximum(x, y),
            "fmax": package.fmax(x, y),
            "sorted": package.sort(x),
            "largest": package.nanmax(package.where(package.isinf(x), package.nan, x)),
            "less": x < y,
        }

    def expect(self, data):
        half, z = data["half"], data["z"]
        with np.errstate(all="ignore"):
            wide = half[0].astype("d") * half[1] + half[0]
            answers = {name: exact(value) for name, value in self.results(np, data["x"], data["y"]).items()}
        answers["half"] = approx(wide, 2 * UNIT["e"] * (np.abs(wide) + half[0].astype("d") * half[1]), "e")
        spread = np.abs(z[0]) * np.abs(z[1])
        answers["product"] = approx(z[0] * z[1], 4 * UNIT["d"] * spread, "D")
        answers["conjugate"] = exact(z[0].conj())
        answers["absolute"] = approx(np.abs(z[0]), 8 * UNIT["d"] * np.abs(z[0]), "d")
        return answers

    def run(self, gpu, data):
        x, y, half, z = (gpu.to_device(data[name]) for name in ("x", "y", "half", "z"))
        answers = {
            **self.results(gpu.cp, x, y),
            "half": half[0] * half[1] + half[0],
            "product": z[0] * z[1],
            "conjugate": z[0].conj(),
            "absolute": gpu.cp.abs(z[0]),
        }
        return {name: gpu.to_host(value) for name, value in answers.items()}

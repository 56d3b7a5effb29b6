"""NaN, infinities, half precision and complex numbers behave as NumPy's do."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, exact, near

TITLE = "NaN, infinities, half precision, complex numbers"
LEVELS = {"normal": {"n": 3001}}
TOLERANCE = "exact for comparisons, extrema and sorting; half precision to 2 units of it; complex products to 4 units"


def inputs(random, size):
    n = size["n"]
    x, y = random.standard_normal(n), random.standard_normal(n)
    x[::7], x[3::11], y[5::13] = np.nan, np.inf, -np.inf
    half = random.uniform(0.1, 4.0, size=(2, n)).astype("e")
    z = random.standard_normal((2, n)) + 1j * random.standard_normal((2, n))
    return {"x": x, "y": y, "half": half, "z": z}


def expect(given):
    x, y, half, z = (given[name] for name in ("x", "y", "half", "z"))
    with np.errstate(all="ignore"):
        wide = half[0].astype("d") * half[1] + half[0]
        answers = {
            "isnan": exact(np.isnan(x + y)),
            "maximum": exact(np.maximum(x, y)),
            "fmax": exact(np.fmax(x, y)),
            "sorted": exact(np.sort(x)),
            "largest": exact(np.array(np.nanmax(np.where(np.isinf(x), np.nan, x)))),
            "less": exact(x < y),
        }
    answers["half"] = near(wide, 2 * UNIT["e"] * (np.abs(wide) + half[0].astype("d") * half[1]), "e")
    spread = np.abs(z[0]) * np.abs(z[1])
    answers["product"] = near(z[0] * z[1], 4 * UNIT["d"] * spread, "D")
    answers["conjugate"] = exact(z[0].conj())
    answers["absolute"] = near(np.abs(z[0]), 8 * UNIT["d"] * np.abs(z[0]), "d")
    return answers


def run(gpu, given):
    cp = gpu.cp
    x, y, half, z = (gpu.up(given[name]) for name in ("x", "y", "half", "z"))
    return {
        "isnan": gpu.down(cp.isnan(x + y)),
        "maximum": gpu.down(cp.maximum(x, y)),
        "fmax": gpu.down(cp.fmax(x, y)),
        "sorted": gpu.down(cp.sort(x)),
        "largest": gpu.down(cp.nanmax(cp.where(cp.isinf(x), cp.nan, x))),
        "less": gpu.down(x < y),
        "half": gpu.down(half[0] * half[1] + half[0]),
        "product": gpu.down(z[0] * z[1]),
        "conjugate": gpu.down(z[0].conj()),
        "absolute": gpu.down(cp.abs(z[0])),
    }

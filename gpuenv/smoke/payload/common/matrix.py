"""Matrix products: the expected answer in double precision, and how far a product in another type may be off."""

from __future__ import annotations

import numpy as np

from gpuenv.smoke.payload.answers import Answer, gamma, near

# Tensor cores round partial sums towards zero rather than to nearest: twice the unit of single precision.
TENSOR_UNIT = 2.0**-23
BFLOAT16_UNIT = 2.0**-8
TF32_UNIT = 2.0**-11
# Whatever the caller has set: many turn TF32 on for other libraries.
NO_TF32 = {"CUPY_TF32": "0", "NVIDIA_TF32_OVERRIDE": "0"}


def random_matrices(random, size, dtype):
    """A and B, of different shapes, so that a swapped axis cannot pass, with entries that the type holds exactly."""
    n = size["n"]
    a, b = random.standard_normal((n, n + 8)), random.standard_normal((n + 8, n + 16))
    return {"a": a.astype(dtype), "b": b.astype(dtype)}


def product(a, b, unit, dtype, out_unit=0.0, smallest=0.0) -> Answer:
    """A @ B within gamma(2 k) |A| |B| for the sums, and what is rounded to a coarser type.

    A library that splits a sum over several blocks may keep their parts in the type of the result (cuBLAS, section
    cublasMath_t: CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION is not set unless asked for): each part is rounded
    to it, and so is what they come to. Where the parts cancel, this is more than the rounding of the result.

    Args:
        a: of the type that the GPU multiplies.
        b: likewise.
        unit: the unit roundoff of the sums.
        dtype: of the answer.
        out_unit: the unit roundoff of the result's type, where it is coarser than that of the sums.
        smallest: half the smallest number of the result's type.
    """
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
    value, spread = a @ b, np.abs(a) @ np.abs(b)
    # A complex product takes two products and a sum a part.
    terms = 2 * a.shape[-1] * (2 if wide is np.complex128 else 1)
    bound = gamma(terms, unit) * spread
    return near(value, bound + 2 * out_unit * (spread + bound) + smallest, dtype)


def product_memory(size, item):
    """Bytes of A, B, their product and a workspace."""
    return 5 * (size["n"] + 16) ** 2 * item

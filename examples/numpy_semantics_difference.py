"""An index is out of bounds.

CuPy does not check integer-array indices: they wrap around, where NumPy raises IndexError. Check them first.

    python examples/numpy_semantics_difference.py
"""

import require_gpu

import cupy as cp
import numpy as np

try:
    print(f"NumPy: element 12 of 10 is {int(np.arange(10)[np.array([12])][0])}")
except IndexError as error:
    print(f"NumPy: IndexError: {error}")

x, wanted = cp.arange(10), cp.array([12])
print(f"CuPy: element 12 of 10 is {int(x[wanted][0])}")
print(f"CuPy, checked: {int((wanted >= x.size).sum())} index is out of bounds")

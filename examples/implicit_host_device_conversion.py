"""One expression mixes arrays of the host and of the GPU.

CuPy never copies between host and GPU implicitly: such copies are slow, and would be hidden. Use cupy.asarray to copy
to the GPU and cupy.asnumpy to copy back.

    python examples/implicit_host_device_conversion.py
"""

import require_gpu

import cupy as cp
import numpy as np

device, host = cp.ones(10), np.ones(10)

try:
    print(f"mixed: the sum is {float((device + host).sum()):g}")
except TypeError as error:
    print(f"mixed: TypeError: {error}")

print(f"copied explicitly: the sum is {float((device + cp.asarray(host)).sum()):g}")

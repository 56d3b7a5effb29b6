"""An array of one GPU is used while another GPU is current. Needs two GPUs.

An array lives on the GPU that was current when it was made. On another GPU it needs a copy, or peer access.

    python examples/cross_device_array.py
"""

import sys

import require_gpu

import cupy as cp

if cp.cuda.runtime.getDeviceCount() < 2:
    sys.exit("this example needs two GPUs")

with cp.cuda.Device(0):
    x = cp.arange(10)

with cp.cuda.Device(1):
    try:
        y = x * 2
        print(f"not copied: computed over the bus, element by element; the result is on GPU {y.device.id}")
    except ValueError as error:
        print(f"not copied: ValueError: {error}")
    y = cp.asarray(x) * 2
    print(f"copied: the sum is {int(y.sum())}, on GPU {y.device.id}")

"""cuBLAS is called without a valid handle.

cuBLAS and the other CUDA libraries work with a handle, which belongs to one process and one GPU. A handle that was
never created, or comes from another process, is not valid. The same error appears where a handle cannot be created,
mostly for lack of memory.

    python examples/library_not_initialized.py
"""

import require_gpu

import cupy as cp
import numpy as np
from cupy.cuda import cublas, device

x = cp.arange(4, dtype=cp.float32)
two = np.array(2, dtype=np.float32)

try:
    cublas.sscal(0, 4, 0, x.data.ptr, 1)
    print("handle 0: the call was accepted")
except cublas.CUBLASError as error:
    print(f"handle 0: CUBLASError: {error}")

cublas.sscal(device.get_cublas_handle(), 4, two.ctypes.data, x.data.ptr, 1)
print(f"CuPy's handle of this GPU: twice 0 to 3 is {cp.asnumpy(x).tolist()}")

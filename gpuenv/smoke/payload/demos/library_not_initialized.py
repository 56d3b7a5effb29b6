"""A call into cuBLAS without a handle."""

WHY = (
    "cuBLAS and its sisters work by a handle, which belongs to one process and one GPU. One that was never made, or was"
    " taken over from elsewhere, is none. The same is told where a handle cannot be made, for want of memory mostly."
)


def mistake(cp):
    """A worker uses a handle that it never made."""
    from cupy.cuda import cublas

    x = cp.arange(4, dtype=cp.float32)
    try:
        cublas.sscal(0, 4, 0, x.data.ptr, 1)
    except cublas.CUBLASError as error:
        return "CUBLASError: %s" % error, False
    return "the call was taken", True


def cure(cp):
    """The handle is asked for where it is used."""
    import numpy as np
    from cupy.cuda import cublas, device

    x = cp.arange(4, dtype=cp.float32)
    two = np.array(2, dtype=np.float32)
    handle = device.get_cublas_handle()
    cublas.sscal(handle, 4, two.ctypes.data, x.data.ptr, 1)
    found = cp.asnumpy(x).tolist()
    return "twice 0 to 3 is %s" % found, found == [0.0, 2.0, 4.0, 6.0]

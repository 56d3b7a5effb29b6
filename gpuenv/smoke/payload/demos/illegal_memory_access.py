"""A kernel without a check of its bounds."""

WHY = "More threads are started than there are elements; those beyond the end must do nothing."
LOSES_CONTEXT = True
ENVIRONMENT = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0"}
WITHOUT = r"""
extern "C" __global__ void fill(int *x, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    x[i << 40] = 1;
}
"""
WITH = r"""
extern "C" __global__ void fill(int *x, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i << 40 < n) {
        x[i << 40] = 1;
    }
}
"""


def mistake(cp):
    """Writes far behind the end of the array; the context is lost."""
    x = cp.zeros(1000, dtype=cp.int32)
    try:
        cp.RawKernel(WITHOUT, "fill")((400,), (256,), (x, cp.int64(x.size)))
        return "%d element is set" % int(x.sum()), True
    except RuntimeError as error:  # of the runtime or the driver interface
        return str(error), False


def cure(cp):
    """The bound is passed and checked."""
    x = cp.zeros(1000, dtype=cp.int32)
    cp.RawKernel(WITH, "fill")((400,), (256,), (x, cp.int64(x.size)))
    return "%d element is set" % int(x.sum()), int(x.sum()) == 1

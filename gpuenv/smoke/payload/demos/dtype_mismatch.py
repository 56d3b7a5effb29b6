"""A raw kernel is given another type than it was written for."""

WHY = "A raw kernel gets addresses: nobody checks that double in Python is float in C++. Convert, or check the type."
KERNEL = r"""
extern "C" __global__ void twice(float *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] *= 2;
    }
}
"""


def mistake(cp):
    """The array is of doubles; the kernel takes them for floats."""
    x = cp.full(100, 1.1)
    cp.RawKernel(KERNEL, "twice")((1,), (128,), (x, cp.int32(x.size)))
    return "twice 1.1 is %r" % float(x[0]), abs(float(x[0]) - 2.2) < 1e-6


def cure(cp):
    """The array has the kernel's type."""
    x = cp.full(100, 1.1, dtype=cp.float32)
    cp.RawKernel(KERNEL, "twice")((1,), (128,), (x, cp.int32(x.size)))
    return "twice 1.1 is %.6f" % float(x[0]), abs(float(x[0]) - 2.2) < 1e-6

"""A block with more threads than a block may have."""

WHY = "A block has at most 1024 threads; a larger problem takes more blocks, not larger ones."
KERNEL = r"""
extern "C" __global__ void count(int *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] = i;
    }
}
"""


def mistake(cp):
    """One block of 5000 threads."""
    x = cp.zeros(5000, dtype=cp.int32)
    try:
        cp.RawKernel(KERNEL, "count")((1,), (5000,), (x, cp.int32(x.size)))
    except cp.cuda.driver.CUDADriverError as error:
        return str(error), False
    return "the last element is %d" % int(x[-1]), int(x[-1]) == 4999


def cure(cp):
    """As many blocks of 256 as are needed."""
    x = cp.zeros(5000, dtype=cp.int32)
    blocks = (x.size + 255) // 256
    cp.RawKernel(KERNEL, "count")((blocks,), (256,), (x, cp.int32(x.size)))
    return "the last element is %d" % int(x[-1]), int(x[-1]) == 4999

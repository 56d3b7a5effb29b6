"""The line that fails is not the line at fault."""

WHY = "Launches return at once. An error of a kernel is told by the next call that waits, wherever that stands."
LOSES_CONTEXT = True
ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0"}
KERNEL = r"""
extern "C" __global__ void faulty(unsigned long long address) {
    *(volatile int *)address = 1;
}
"""


def mistake(cp):
    """The error is told by the copy, which is right."""
    y = cp.arange(10)
    cp.RawKernel(KERNEL, "faulty")((1,), (1,), (cp.uint64(16),))
    line = "the copy after it"
    try:
        cp.asnumpy(y)
    except cp.cuda.runtime.CUDARuntimeError as error:
        return "%s was blamed: %s" % (line, error), False
    return "no error", True


def cure(cp):
    """A synchronisation after each step; CUDA_LAUNCH_BLOCKING=1 does it too."""
    try:
        cp.RawKernel(KERNEL, "faulty")((1,), (1,), (cp.uint64(16),))
        cp.cuda.Device().synchronize()
    except cp.cuda.runtime.CUDARuntimeError as error:
        return "the launch was blamed: %s" % error, True
    return "no error", False

"""The GPU tests: a file a group, a class a test. ``MatmulF32`` in ``blas.py`` is the test ``blas.matmul_f32``."""

from typing import Optional


class GpuTest:
    """A test: its input, the answers that the host computes, and those of the GPU.

    The runner reads TITLE, LEVELS, TOLERANCE, NEEDS, ALONE and SECONDS as literals from the class itself: it imports
    nothing of the payload.

    Attributes:
        TITLE: what is proven, in a few words.
        LEVELS: level -> sizes; a deeper level without an entry of its own takes the sizes of the one before.
        TOLERANCE: how far the GPU's answer may be from the expected one, and why.
        NEEDS: what must be there, else the test is skipped: ``gpus:2``, ``module:torch``, ``cupy:14``,
            ``numpy:2.1.2``, ``capability:8.0``.
        ALONE: the levels in which nothing else may run at the same time: it takes times, or watches or fills memory.
        SECONDS: level -> deadline, where the level's own is too short.
        KERNELS: name -> CUDA C++ source of every kernel that it compiles itself.
        ENVIRONMENT: variables to set before CuPy is imported.
        EXACT_REPEAT: whether two runs on the same input must agree bit for bit (compared in the deep level).
        LOSES_CONTEXT: whether it ends with a lost CUDA context on purpose; not run where MPS shares contexts.
        SHRINKS: the size to be halved where there is too little memory.
        HOST: bytes of the host's memory, for input, answers and comparison, for each byte of the GPU's.
    """

    TITLE = ""
    LEVELS = {}
    TOLERANCE = ""
    NEEDS = ()
    ALONE = ()
    SECONDS = {}
    KERNELS = {}
    ENVIRONMENT = {}
    EXACT_REPEAT = False
    LOSES_CONTEXT = False
    SHRINKS: Optional[str] = None
    HOST = 3

    def inputs(self, random, size):
        """The input, made on the host from a ``numpy.random.Generator``: name -> array or number.

        By default ``x``, whole numbers, as many as the size ``n`` says.
        """
        return {"x": random.integers(-(2**40), 2**40, size=size["n"], dtype="int64")}

    def expect(self, given):
        """The answers, computed on the host by other means: name -> ``Answer``."""
        raise NotImplementedError

    def run(self, gpu, given):
        """The GPU's answers: name -> NumPy array."""
        raise NotImplementedError

    def memory(self, size):
        """Bytes of GPU memory that the sizes take; 0: so little that it does not matter."""
        return 0

    def kernel(self, gpu, name):
        """A kernel of the test's own; it is compiled when it is launched."""
        return gpu.compile(self.KERNELS[name], name)


# For tests in which CuPy makes reductions of its own accord, with which it compiles them quickly. It makes a reduction
# from CUB's headers where it can (_cub_reduction.pyx of CuPy 12 to 14), a whole one in two kernels. NVRTC 13.5 took 1.5
# to 4 s of a server's processor for each, and 0.1 s for one of CuPy's own: with an empty kernel cache the four that a
# sparse matrix takes to become dense used up the quick level's seconds, and on a slow host came near its deadline. What
# a test is about is reduced with CUB: kernels.reduction, random.reproducible.
PLAIN_REDUCTIONS = {"CUPY_ACCELERATORS": ""}

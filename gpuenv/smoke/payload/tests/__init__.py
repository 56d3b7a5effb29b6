"""One file a test; the first part of its name is its group.

A test file has these constants, which the runner reads without importing the file:

    TITLE      what is proven, in a few words
    LEVELS     level -> sizes; a deeper level without an entry of its own takes the sizes of the one before
    TOLERANCE  how far the GPU's answer may be from the expected one, and why
    NEEDS      (optional) what must be there, else it is skipped: ``gpus:2``, ``module:torch``, ``cupy:14``,
               ``numpy:2.1.2``, ``capability:8.0``
    ALONE      (optional) the levels in which nothing else may run beside it: it takes times, or watches or fills memory
    SECONDS    (optional) level -> deadline, where the level's own is too short
    KERNELS    (optional) name -> CUDA C++ source of every kernel that it compiles itself
    ENVIRONMENT (optional) variables to set before CuPy is imported
    EXACT_REPEAT (optional) True: two runs on the same input must agree bit for bit (looked at in the deep level)
    LOSES_CONTEXT (optional) True: the test ends with a lost CUDA context on purpose; not run where MPS shares contexts

and these functions:

    inputs(random, size)  the input, made on the host from ``numpy.random.Generator``: name -> array or number
    expect(given)         the answers, computed on the host by other means: name -> ``Answer``
    run(gpu, given)       the GPU's answers: name -> NumPy array
    memory(size)          (optional) bytes of GPU memory that the sizes take; ``SHRINKS`` names the size to be halved,
                          ``HOST`` how many times that they take of the host's, where it is not about 3
"""

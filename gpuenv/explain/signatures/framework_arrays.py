"""Messages of frameworks about types that do not agree, arrays of the host or another GPU, and forks."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

_ATEN = "torch, aten/src/ATen"

SIGNATURES = (
    Signature(
        "torch.types-of-input",
        "torch, FlashAttention, Warp",
        (
            *(
                "should be the same",
                "to have the same dtype",
                "only support fp16 and bf16",
                "but found type torch.cuda",
            ),
            *("but passed array has dtype", "data type must be", "expected scalar type"),
        ),
        ((Cause.DTYPE_MISMATCH, 0.84),),
        f"{_ATEN}, native/Convolution.cpp and transformers/sdp_utils.cpp; flash_attn, flash_api.cpp; warp, context.py",
        pattern=(
            r"Input type \((?P<place>torch\.cuda\.|torch\.(?!cuda)|(?!torch))[\w:]{1,40}\) and (?:weight|bias) type \((?P=place)[\w:]{1,40}\) should be the same"
            r"|Expected query, key,? and value to have the same dtype|FlashAttention only supports? fp16 and bf16 data type"
            r"|Expected object of type torch\.cuda\.\w+ but found type torch\.cuda\.\w+|expects an array with dtype=\w+ but passed array has dtype="
        ),
        title="The types of the arrays do not agree",
    ),
    Signature(
        "cupy.types-of-result",
        "CuPy, NumPy",
        (
            "cannot cast ufunc",
            "out of bounds for uint",
            "out of bounds for int",
            "complex128 are supported",
            "cannot store a value of dtype",
        ),
        ((Cause.DTYPE_MISMATCH, 0.74), (Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.14)),
        "NumPy, _core/_exceptions.py and NEP 50; CuPy, _core/_kernel.pyx; cupyx/scipy/sparse; Theano, tensor/type.py",
        pattern=(
            r"^(?=.*(?:cupy|\bcp\.)).*?(?:Cannot cast ufunc .{0,60}output from|Python integer -?\d+ out of bounds for u?int\d)|Only bool, float32, float64, complex64,? and complex128 are supported"
            r"|cannot store a value of dtype float64 without risking loss of precision"
        ),
        title="The result does not fit into the type that it is to have",
        requires=("cupy", "cuda", "other-jit"),
        decisive_fact="whether NumPy does the same with the same types",
    ),
    Signature(
        "device.not-current",
        "CuPy, JAX, Torch 7, TensorFlow",
        (
            *("array device = ", "incompatible devices for jitted computation", "are located on different gpus"),
            *("peer access is", "incompatible assigned devices"),
        ),
        ((Cause.CROSS_DEVICE_ARRAY, 0.82),),
        "CuPy, _core/core.pyx; jax/_src/pjit.py; cunn, THC checkGPU; TensorFlow, colocation_graph.cc",
        pattern=(
            r"array device = \d+ while current = \d|Received incompatible devices for jitted computation|tensors are located on different GPUs"
            r"|Peer access is unavailable between|resource edge connects colocation groups with incompatible assigned devices"
        ),
        title="An array of one GPU is used on another",
    ),
    Signature(
        "triton.pointer",
        "Triton",
        ("cannot be accessed from triton",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.45), (Cause.CROSS_DEVICE_ARRAY, 0.42)),
        "triton, backends/nvidia/driver.py: cuPointerGetAttribute refused the pointer",
        pattern=r"Pointer argument(?: \(at \d+\))? cannot be accessed from Triton",
        title="Triton was given a tensor of the host, or of a GPU that is not the current one",
        modifiers=(
            Modifier("devices-apart", Cause.CROSS_DEVICE_ARRAY, 6),
            Modifier("cuda-above-0", Cause.CROSS_DEVICE_ARRAY, 4),
        ),
        decisive_fact="the tensor's device, and the current one",
    ),
    Signature(
        "frameworks.host-array",
        "Chainer, torch up to 0.3, transformers",
        (
            *("incompatible array types are mixed", "being on a device type different", "stateless method"),
            *("invalid combination of arguments", "argument 0 of type cupy", "argument 1 of type cupy"),
            "returned notimplemented from __array_ufunc__",
        ),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.8),),
        "chainer, utils/__init__.py: _check_arrays_forward_compatible; torch 0.3, csrc/utils/invalid_arguments.cpp; transformers, generation/utils.py",
        pattern=(
            r"incompatible array types are mixed in the (?:forward|backward) (?:in|out)put|`?input_ids`? being on a device type different"
            r"|Type torch\.cuda\.\w+ doesn't implement stateless method|loop of ufunc does not support argument \d of type cupy\.ndarray|cupy.{0,160}operand type\(s\) all returned NotImplemented from __array_ufunc__|invalid combination of arguments - got \((?=[^)]*torch\.cuda\.\w+Tensor)(?=[^)]*torch\.(?!cuda)\w+Tensor)"
        ),
        title="Arrays of the host and of the GPU meet in one operation",
    ),
    Signature(
        "numpy.no-get",
        "CPython",
        ("'numpy.ndarray' object has no attribute 'get'",),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.74),),
        "CPython, AttributeError: CuPy's arrays alone have that method",
        requires=("cupy", "cuda", "gpu"),
        title="An array of the host is treated like one of the GPU",
    ),
    Signature(
        "frameworks.forked",
        "Lightning, DALI, torch",
        ("if cuda is already initialized", "cannot fork a process when", "cannot re-initialize cuda"),
        ((Cause.FORK_AFTER_CUDA_INIT, 0.9),),
        "lightning, fabric/strategies/launchers/multiprocessing.py; DALI, external source in parallel; torch/cuda/__init__.py",
        pattern=r"can't create new processes if CUDA is already initialized|Cannot fork a process when (?:there is a CUDA context|the CUDA)|Cannot re-initialize CUDA(?! in forked)",
        title="A process forks that has used CUDA already",
    ),
    Signature(
        "kokkos.launch",
        "Kokkos",
        ("too large team size", "scratch memory"),
        ((Cause.INVALID_KERNEL_LAUNCH, 0.8),),
        "Kokkos, core/src/Cuda/Kokkos_Cuda_Parallel_Team.hpp",
        pattern=r"Kokkos.{0,80}(?:[Rr]equested too large team size|requested too much L\d scratch memory)",
        title="The launch asks for more threads or shared memory than the GPU gives",
    ),
    Signature(
        "xla.exhausted",
        "XLA: JAX and TensorFlow",
        ("resource_exhausted",),
        ((Cause.OUT_OF_MEMORY, 0.8), (Cause.GPU_BUSY, 0.1)),
        "XLA, stream_executor: RESOURCE_EXHAUSTED of a device's allocator",
        pattern=r"XlaRuntimeError: RESOURCE_EXHAUSTED(?!: (?:Out of memory|Shared memory))",
        title="The requested memory does not fit into what is free on the GPU",
        decisive_fact="how much is free and who holds the rest: nvidia-smi",
    ),
    Signature(
        "library.create-failed",
        "Caffe, JAX, ArrayFire",
        ("won't be available", "create(&handle) failed", "create failed"),
        ((Cause.LIBRARY_NOT_INITIALIZED, 0.78), (Cause.OUT_OF_MEMORY, 0.12)),
        "caffe, common.cpp; jaxlib, gpu/handle_pool.h and solver_handle_pool; ArrayFire",
        pattern=r"Cannot create C(?:ublas handle|urand generator)|gpu\w+Create\w*\(&handle\) failed|\bcu(?:blas|solver|sparse) create failed",
        title="A CUDA library could not create its handle",
        decisive_fact="how much memory of the GPU is free: nvidia-smi",
    ),
    Signature(
        "fft.half-sizes",
        "torch",
        ("dimensions whose sizes are powers of two",),
        ((Cause.CUFFT_PLAN_FAILURE, 0.8), (Cause.DTYPE_MISMATCH, 0.1)),
        f"{_ATEN}, native/cuda/CuFFTPlanCache.h",
        title="cuFFT makes plans of half precision for powers of two only",
    ),
    Signature(
        "jax.immutable",
        "JAX",
        ("jax arrays are immutable",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.82),),
        "jax/_src/numpy/array_methods.py",
        title="NumPy's arrays can be assigned to, JAX's cannot",
    ),
    Signature(
        "cupy.keyword-unknown",
        "CPython, of CuPy's functions",
        ("got an unexpected keyword argument",),
        ((Cause.NUMPY_SEMANTICS_DIFFERENCE, 0.42), (Cause.CUPY_API_VERSION_INCOMPATIBLE, 0.38)),
        "CPython, TypeError; CuPy documentation, Differences between CuPy and NumPy",
        pattern=r"\bTypeError: (?!(?:plot|scatter|hist|imshow|bar|savefig|legend|show|figure|subplots?|open|print|main|run|fit|train|forward|__init__)\()\w+\(\) got an unexpected keyword argument '\w+'",
        title="The function of CuPy does not take that argument, or not in this release",
        requires=("cupy",),
        level=Level.WARNING,
        decisive_fact="whether the newest CuPy takes it",
    ),
)

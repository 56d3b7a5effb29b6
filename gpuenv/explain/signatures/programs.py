"""Faults of the program that uses the GPU, and of the interpreter that runs it."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Level, Modifier, Signature
from gpuenv.model.causes import Cause

SIGNATURES = (
    Signature(
        "sanitizer.memcheck",
        "compute-sanitizer, cuda-memcheck",
        ("invalid __", "out of bounds", "misaligned", "is out of bounds"),
        ((Cause.ILLEGAL_MEMORY_ACCESS, 0.95),),
        "compute-sanitizer, memcheck tool; Compute Sanitizer User Manual",
        pattern=r"Invalid __(?:global|shared|local)__ (?:read|write|atomic)|Address 0x\w+ is (?:out of bounds|misaligned)",
        title="A kernel reads or writes outside of its arrays",
        evidence="sanitizer",
        # Where only CuPy's own functions are named, the kernel may be CuPy's.
        modifiers=(Modifier("cupy", Cause.CUPY_BUG, 14), Modifier("user-kernel", Cause.CUPY_BUG, 0.05)),
    ),
    Signature(
        "sanitizer.race",
        "compute-sanitizer, torch",
        ("hazard", "race reported", "data race", "race condition"),
        ((Cause.STREAM_RACE, 0.9),),
        "compute-sanitizer, racecheck tool; torch/cuda/_sanitizer.py",
        pattern=(
            r"(?:Potential )?(?:WAR|RAW|WAW) hazard|Race reported between|CSAN detected a possible data race|"
            r"(?:stream|kernel|GPU|CUDA).{0,60}(?:data race|race condition)"
        ),
        title="Work on two streams or threads is not ordered",
    ),
    Signature(
        "stream.unordered",
        "programs and tests",
        ("cuda_launch_blocking", "stream"),
        ((Cause.STREAM_RACE, 0.6),),
        "CUDA C++ Programming Guide, Streams: implicit synchronisation; the words of reports",
        pattern=(
            r"CUDA_LAUNCH_BLOCKING=1.{0,80}\b(?:passes|disappears?|goe?s? away|vanish|works|correct|succeeds)"
            r"|(?:results? (?:differ|are wrong)|mismatch|fails?|errors?).{0,60}(?:different|non-?blocking|multiple|several|two) streams"
            r"|(?:stream|event).{0,40}(?:not synchroni[sz]ed|missing synchroni[sz]ation|without synchroni[sz]|was not recorded|has not been waited)"
            r"|(?:without|not|never|n't) synchroni[sz]\w+ (?:with |on )?(?:the |its |that |a )?(?:\w+ )?stream"
        ),
        decisive_fact="whether it fails with CUDA_LAUNCH_BLOCKING=1 too",
    ),
    Signature(
        "torch.devices-differ",
        "torch",
        ("to be on the same device", "at least two devices", "on different devices", "different gpus"),
        ((Cause.CROSS_DEVICE_ARRAY, 0.72), (Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.2)),
        "torch, aten/src/ATen/TensorIterator.cpp and core/adaption.cpp",
        pattern=(
            r"Expected all tensors to be on the same device|found at least two devices|tensors? (?:are|is) on different (?:devices|GPUs)"
            r"|arguments are located on different GPUs|arrays? (?:are|is) on different (?:devices|GPUs)"
        ),
        modifiers=(
            Modifier("cpu-tensor", Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 20),
            Modifier("cpu-tensor", Cause.CROSS_DEVICE_ARRAY, 0.3),
        ),
    ),
    Signature(
        "torch.to-numpy",
        "torch, JAX, pandas",
        ("device type tensor to numpy", "tensor.cpu()", "host memory"),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.9),),
        "torch/csrc/utils/tensor_numpy.cpp",
        pattern=r"can't convert cuda\S* device type tensor to numpy|Use Tensor\.cpu\(\) to copy the tensor to host",
        title="A GPU tensor was handed to code that wants a NumPy array",
    ),
    Signature(
        "numba.host-array",
        "numba",
        ("cuda array interface", "no conversion", "is not supported by cuda", "host array"),
        ((Cause.IMPLICIT_HOST_DEVICE_CONVERSION, 0.6),),
        "numba/cuda/api.py: as_cuda_array",
        pattern=r"\*host array\* passed to|Host array used in CUDA kernel|Argument \S+ is not a (?:cuda|device) array|does not (?:support|implement|have) (?:the )?(?:__)?cuda[ _]array[ _]interface",
        level=Level.WARNING,
    ),
    Signature(
        "target.no-encodings",
        "CPython",
        (
            "no module named 'encodings'",
            "init_fs_encoding",
            "platform independent libraries",
            "platform dependent libraries",
        ),
        ((Cause.TARGET_ENVIRONMENT_BROKEN, 0.9),),
        "CPython, Python/pylifecycle.c and Modules/getpath.py",
        title="The interpreter does not find its own library",
    ),
    Signature(
        "target.bad-interpreter",
        "the shell, ld.so, the Windows launcher",
        ("bad interpreter", "libpython", "unable to create process using", "no python at", "required file not found"),
        ((Cause.TARGET_ENVIRONMENT_BROKEN, 0.86),),
        "bash; ld.so; CPython, PC/launcher2.c and venvlauncher",
        pattern=(
            r"(?:\bpython[\d.]*|\bpypy[\d.]*|/s?bin/pip[\d.]*)['\"]?: bad interpreter: No such file|error while loading shared libraries: libpython\S+: cannot open|Unable to create process using '?\"?\S*python"
            r"|\bNo Python at ['\"\u2018\u201c]|\bNo Python at \S+python|python[\d.]*: cannot execute: required file not found"
        ),
        title="The interpreter of the environment cannot start: what it is based on is gone",
    ),
    Signature(
        "spacy.not-accessible",
        "thinc, spaCy",
        ("gpu is not accessible", "cannot use gpu", "no gpu devices detected"),
        (
            (Cause.CUPY_NOT_INSTALLED, 0.42),
            (Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR, 0.15),
            (Cause.OUT_OF_MEMORY, 0.12),
            (Cause.NO_DRIVER, 0.1),
        ),
        "thinc/util.py: require_gpu",
        pattern=r"GPU is not accessible|Cannot use GPU, (?P<reason>.+)|No GPU devices detected",
        title="thinc could not use the GPU through CuPy",
        decisive_fact="what python -c 'import cupy; cupy.zeros(1)' says in the same environment",
    ),
    Signature(
        "python.shadowed-cupy",
        "the Python interpreter",
        ("partially initialized module 'cupy'", "'cupy' is not a package", "cupy.py"),
        ((Cause.CUPY_SHADOWED, 0.9),),
        "CPython 3.11 and 3.13, Objects/moduleobject.c and importlib._bootstrap; run with a cupy.py beside the program",
        pattern=(
            r"partially initialized module 'cupy' has no attribute"
            r"|No module named 'cupy\.\w+'; 'cupy' is not a package"
            r"|module 'cupy' has no attribute '\w+' \(consider renaming"
            r"|cannot import name '\w+' from '(?:partially initialized module ')?cupy' \([^()]*cupy\.py\)"
            r"|cannot import name '\w+' from 'cupy' \(consider renaming"
        ),
        title="A file named cupy.py is imported in CuPy's place",
    ),
    Signature(
        "image.requirement",
        "gpuenv",
        ("requirement-not-met", "requirement not met"),
        ((Cause.REQUIREMENT_NOT_MET, 0.85),),
        "gpuenv preflight",
        pattern=r"requirement not met|(?<![\"'/])\brequirement-not-met\b(?![\"'/,])",
    ),
)

"""A message is not certain if it has several causes or the text refutes it."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.scan import scan
from gpuenv.model.causes import Cause
from tests.eval.score import SURE, Case, explain_case
from tests.explain.message_ranking import ranked

NO_DRIVER_IN_DOCKER = 'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]'
NO_VIDEO = "[h264_cuvid @ 0x55d0] Cannot load libnvcuvid.so.1"
NO_DEVICE = "RuntimeError: cuda runtime error (100) : no CUDA-capable device is detected at THCGeneral.cpp:47"
NOT_AN_ARRAY = "ValueError: object __array__ method not producing an array"
LACKS_NAME = "AttributeError: module 'cupy' has no attribute 'float64'"
UNKNOWN = "Failed to initialize NVML: Unknown Error"
NO_CUBLAS = "ImportError: libcublas.so.8.0: cannot open shared object file: No such file or directory"
NO_CUPY = "No module named 'cupy'"


@pytest.mark.parametrize(
    ("message", "fact", "cause", "opposite", "then"),
    [
        (
            NO_DRIVER_IN_DOCKER,
            "on a machine without an nvidia card the stack does not come up:",
            Cause.NO_NVIDIA_GPU,
            "on the machine with the nvidia card the stack does not come up:",
            Cause.CONTAINER_TOOLKIT_BROKEN,
        ),
        (
            NO_VIDEO,
            "docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,video media",
            Cause.CONTAINER_WITHOUT_GPU,
            "docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility media",
            Cause.CONTAINER_DRIVER_CAPABILITIES,
        ),
        (
            NO_VIDEO,
            "docker run with NVIDIA_DRIVER_CAPABILITIES=all",
            Cause.CONTAINER_WITHOUT_GPU,
            "docker run; NVIDIA_DRIVER_CAPABILITIES=all solves it",
            Cause.CONTAINER_DRIVER_CAPABILITIES,
        ),
        (
            NO_DEVICE,
            "This is in Colab; what do I have to set?",
            Cause.NO_NVIDIA_GPU,
            "This is on our cluster; what do I have to set?",
            Cause.VISIBLE_DEVICES_HIDE_GPU,
        ),
        (
            NO_DEVICE,
            "MIG is off on GPU 0 and enabled on the others.",
            Cause.MIG_MISCONFIGURED,
            "MIG is disabled on all of them.",
            Cause.VISIBLE_DEVICES_HIDE_GPU,
        ),
        (
            UNKNOWN,
            "so I installed nvidia-driver-550 in the container with apt",
            Cause.CONTAINER_WITHOUT_GPU,
            "so I installed nvidia-driver-550 on the host with apt",
            Cause.CONTAINER_CGROUP_LOST_GPU,
        ),
        (
            LACKS_NAME,
            'File "/opt/env/lib/python3.11/site-packages/cupyx/scipy/ndimage/_filters.py", line 9, in <module>',
            Cause.CUPY_BUG,
            'File "/opt/env/lib/python3.11/site-packages/cupy/__init__.py", line 9, in __getattr__',
            Cause.CORRUPT_INSTALLATION,
        ),
        (
            "hipErrorNoBinaryForGpu: Coudn't find binary for current devices!",
            "build/bin$ ./rochpcg 32 32 32",
            Cause.ROCM_MISMATCH,
            "build/bin$ ./rocket 32 32 32",
            Cause.NO_KERNEL_IMAGE,
        ),
    ],
)
def test_one_fact_decides(message: str, fact: str, cause: Cause, opposite: str, then: Cause) -> None:
    assert ranked(f"{fact}\n{message}")[0].cause is cause
    assert ranked(f"{opposite}\n{message}")[0].cause is then


@pytest.mark.parametrize(
    "text",
    [
        # No function of CuPy's has code for all types that NumPy takes.
        "TypeError: Wrong type ((<class 'numpy.complex128'>,)) of arguments for cupy_max",
        "TypeError: Wrong type ((<class 'numpy.object_'>,)) of arguments for cupy_sum",
        # The program that catches the error goes on.
        f"WARNING:root:Could not load CuPy: {NO_CUPY}",
        # Only CuPy runs.
        f">>> cupy.min_scalar_type(cupy.array([1, 2]))\n{NOT_AN_ARRAY}",
        # A kernel of CuPy's own may be the one.
        "cupyx.scipy.spatial.Delaunay(points)\n========= Invalid __global__ read of size 8 bytes",
        # The library is not there for several reasons.
        f"docker run jellyfin\n{NO_VIDEO}",
    ],
)
def test_a_message_of_several_causes_is_not_certain(text: str) -> None:
    assert 0 < explanation(scan(text.encode())).causes[0].confidence < SURE


@pytest.mark.parametrize(
    "text",
    [
        f"ModuleNotFoundError: {NO_CUPY}",
        f">>> numpy.sum(cupy.array([1, 2]))\n{NOT_AN_ARRAY}",
        "./saxpy\n========= Invalid __global__ read of size 8 bytes",
        "k = cupy.RawKernel(code, 'saxpy')\n========= Invalid __global__ read of size 8 bytes\n=========     at saxpy",
    ],
)
def test_a_message_of_one_cause_is_certain(text: str) -> None:
    assert explanation(scan(text.encode())).causes[0].confidence >= SURE


@pytest.mark.parametrize("library", ["libcublas.so.8.0", "libcudart.so.10.0", "libcublas.so.9.0"])
def test_a_wrong_wheel_is_certain_only_if_the_text_names_cupy(library: str) -> None:
    """TensorFlow, PyTorch and many others require libraries of one CUDA as well."""
    text = f"ImportError: {library}: cannot open shared object file: No such file or directory"
    results = {
        of: explain_case(Case("any", "any", "any", of + text, ("toolkit=11.4",), "any"), ("toolkit=11.4",)).causes[0]
        for of in ("import cupy\n", "import tensorflow\n")
    }
    assert results["import cupy\n"][1] >= SURE
    assert results["import tensorflow\n"][1] < SURE


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('RuntimeError: Simulation device "GPU" is not supported on this system', Cause.CPU_ONLY_FRAMEWORK),
        (
            'ERROR: Failed to load qobj: Simulation device \\"GPU\\" is not supported on this system',
            Cause.CPU_ONLY_FRAMEWORK,
        ),
        ('Simulation device "GPU" does not support cuStateVec on this system', Cause.OPTIONAL_LIBRARY_MISSING),
        ("What the async copy writes is read while it is uninitialised.", Cause.STREAM_RACE),
        ("get_value reads the host variable right behind the cudaMemcpyAsync into it.", Cause.STREAM_RACE),
        (
            "My card needs cupy-cuda13x, and this node puts cupy-cuda12x beside it at every start.",
            Cause.MULTIPLE_CUPY_PACKAGES,
        ),
        ("CUDA fails in containers until something has used it on the host.", Cause.DEVICE_NODE_MISSING),
        (
            "os.environ['CUDA_VISIBLE_DEVICES'] = '0' in main(): since 0.5 all GPUs are detected.",
            Cause.VISIBLE_DEVICES_SET_TOO_LATE,
        ),
    ],
)
def test_printed_and_described_problems_are_recognized(text: str, cause: Cause) -> None:
    assert ranked(text)[0].cause is cause


@pytest.mark.parametrize(
    "text",
    [
        'Simulation device "CPU" is used on this system; "GPU" is supported there as well.',
        "The async copy has ended before it is read; the values are right.",
        "The wheel for CUDA 13 is cupy-cuda13x, the one for CUDA 12 is cupy-cuda12x.",
        "The containers run until the job on the host has ended.",
        "With CUDA_VISIBLE_DEVICES=0,1,2,3 the four GPUs are used, as they should.",
        "The laptop has an Intel card beside its NVIDIA GPU.",
    ],
)
def test_a_similar_text_is_not_recognized(text: str) -> None:
    assert ranked(text) == ()


NO_SMI = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
NO_MEMORY = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes"
ILLEGAL = "CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered"
ORDINAL = "RuntimeError: CUDA error: invalid device ordinal"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (NO_SMI, "The same notebook works on Google Colab."),
        (NO_DEVICE, "In Colab it runs; on my workstation it does not."),
        (NO_DRIVER_IN_DOCKER, "The host has no NVIDIA GPU driver problem: nvidia-smi answers there."),
        (NO_DRIVER_IN_DOCKER, "The server has no NVIDIA GPUs in MIG mode."),
        (NO_DRIVER_IN_DOCKER, "It works on a machine without an NVIDIA card."),
        ("ImportError: libcuda.so.1: cannot open shared object file", "The host has no NVIDIA GPU drivers so far."),
        (NO_DEVICE, "MIG mode disabled and persistence mode enabled"),
        (NO_VIDEO, "Adding NVIDIA_DRIVER_CAPABILITIES=all resolved it."),
        (NO_VIDEO, "The fix was to add NVIDIA_DRIVER_CAPABILITIES=all"),
        (NO_VIDEO, "Try docker run -e NVIDIA_DRIVER_CAPABILITIES=all"),
        (NO_VIDEO, "Without NVIDIA_DRIVER_CAPABILITIES=all the library is not there."),
        (UNKNOWN, "I never installed the nvidia driver inside the container."),
        (UNKNOWN, "The container worked until I ran systemctl daemon-reload on the host."),
        (UNKNOWN, "The GPU in the container is lost only after daemon-reload is called on the host."),
        (UNKNOWN, "I first run nvidia-smi on the host, which works, and then in the container."),
        (NO_MEMORY, "This happens right after the cudaMemcpyAsync call."),
        (NO_MEMORY, "Random numbers are sent with cudaMemcpyAsync."),
        (ILLEGAL, "It crashes right after cudaMemcpyAsync."),
        (ORDINAL, "Without CUDA_VISIBLE_DEVICES all GPUs are detected."),
        (ORDINAL, "If CUDA_VISIBLE_DEVICES is not set, all GPUs are used."),
        (LACKS_NAME, 'File "/home/user/cupy/bench.py", line 3, in <module>'),
    ],
)
def test_an_unrelated_sentence_changes_nothing(message: str, sentence: str) -> None:
    """What works elsewhere, was the fix or is negated is not a fact of the failing machine."""
    alone, beside = ranked(message)[0], ranked(f"{message}\n{sentence}")[0]
    assert beside.cause is alone.cause
    assert beside.confidence >= min(alone.confidence, SURE) - 0.1


@pytest.mark.parametrize(
    "text",
    [
        "The container worked until I ran apt upgrade on the host.",
        "We first run the tests on the host and then in the container.",
        "cupy-cuda11x fails and cupy-cuda12x fails as well.",
        "Setting no CUDA_VISIBLE_DEVICES all GPUs are used.",
        "make: *** [Makefile:12: build-nvidia] Error 1",
        "make: *** [docker-nvidia] Error 2",
        "make: *** [CMakeFiles/nvidia_plugin.dir/build.make:76: CMakeFiles/nvidia_plugin.dir/x.cpp.o] Error 1",
    ],
)
def test_the_vocabulary_of_a_cause_is_not_enough(text: str) -> None:
    assert ranked(text) == ()

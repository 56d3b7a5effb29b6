"""The causes of messages that libraries and tools print, and what the values in them decide."""

from __future__ import annotations

import pytest

from gpuenv import explain_text
from gpuenv.explain.explainer import explanation
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.match import scan
from gpuenv.model.causes import Cause
from tests.eval.messages import MESSAGES

# Of no program's text, or only behind another one by its numbers.
WITHOUT = {
    Cause.INSTALL_INTERRUPTED,  # found in the files of the environment
    Cause.SOURCES_DISAGREE,
    Cause.GPU_TEST_FAILED,
    Cause.GPU_TOO_OLD_FOR_ANY_DRIVER,
    Cause.REQUIREMENT_NOT_MET,
}
PAIRS = [(cause, text) for cause, texts in MESSAGES.items() for text in texts]


def causes(text: str) -> tuple[LikelyCause, ...]:
    return explanation(scan(text.encode())).causes


def first(text: str) -> Cause:
    return causes(text)[0].cause


def test_the_cause_of_a_message_is_named_first_or_among_three() -> None:
    named = [(text, cause, [entry.cause.value for entry in causes(text)]) for cause, text in PAIRS]
    not_first = [(text, cause, found) for text, cause, found in named if found[:1] != [cause]]
    assert [(text, cause, found) for text, cause, found in not_first if cause not in found[:3]] == []
    assert len(not_first) <= 0.05 * len(PAIRS), not_first


def test_every_cause_has_three_messages() -> None:
    assert set(MESSAGES) == {cause.value for cause in set(Cause) - WITHOUT}
    assert [cause for cause, texts in MESSAGES.items() if len(set(texts)) < 3] == []


def test_an_asynchronous_error_is_labelled_as_one() -> None:
    (late, *_) = causes("CUDARuntimeError: cudaErrorLaunchFailure: unspecified launch failure")
    assert late.surfaced_late
    (immediate, *_) = causes("cudaErrorInvalidDevice: invalid device ordinal")
    assert not immediate.surfaced_late


def test_a_doubt_comes_with_the_fact_that_would_settle_it() -> None:
    for text in ("CUDA_ERROR_NO_DEVICE", "cudaErrorInsufficientDriver", "NVRTC_ERROR_INVALID_OPTION (5)"):
        (doubtful, *_) = causes(text)
        assert doubtful.confidence < 0.8
        assert doubtful.would_decide
    (certain, *_) = causes("NVRM: API mismatch: the client has the version 535.183.01")
    assert certain.would_decide is None


def test_the_captured_values_are_in_the_title() -> None:
    (missing, *_) = causes("version `GLIBCXX_3.4.30' not found")
    assert "GLIBCXX_3.4.30" in missing.title
    (newer, *_) = causes("fatal   : Unsupported .version 8.7; current version is '8.4'")
    assert "8.7" in newer.title


def test_an_unmaintained_legacy_branch_is_named() -> None:
    line = "NVRM:  supported through the NVIDIA %s.xx Legacy drivers. Please"
    for branch in ("340", "390", "71"):
        assert [entry.cause for entry in causes(line % branch)] == [
            Cause.GPU_REMOVED_FROM_DRIVER,
            Cause.GPU_TOO_OLD_FOR_ANY_DRIVER,
        ]
    assert causes(line % "340")[0].confidence < 0.6
    assert causes(line % "470")[0].confidence > 0.75


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (79, Cause.GPU_HARDWARE_FAULT),
        (48, Cause.GPU_HARDWARE_FAULT),
        (31, Cause.ILLEGAL_MEMORY_ACCESS),
        (13, Cause.ILLEGAL_MEMORY_ACCESS),
        (119, Cause.DRIVER_UNRESPONSIVE),
        (120, Cause.DRIVER_UNRESPONSIVE),
    ],
)
def test_the_number_of_an_xid_decides_its_cause(number: int, cause: Cause) -> None:
    assert first(f"kernel: NVRM: Xid (PCI:0000:01:00): {number}, pid=1, name=python3") is cause
    assert first(f"Xid: {number}") is cause


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (2, Cause.OUT_OF_MEMORY),
        (3, Cause.CUDA_INITIALIZATION_FAILED),
        (35, Cause.DRIVER_TOO_OLD_FOR_CUDA),
        (46, Cause.COMPUTE_MODE_EXCLUSIVE),
        (100, Cause.VISIBLE_DEVICES_HIDE_GPU),
        (101, Cause.INVALID_DEVICE_ORDINAL),
        (700, Cause.ILLEGAL_MEMORY_ACCESS),
        (802, Cause.FABRIC_MANAGER_NOT_RUNNING),
        (803, Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
    ],
)
def test_the_number_of_a_cuda_error_decides_its_cause(number: int, cause: Cause) -> None:
    assert first(f"CUDA error: {number}") is cause


@pytest.mark.parametrize(
    ("number", "name", "cause"),
    [
        (9, "DriverNotLoaded", Cause.DRIVER_MODULE_NOT_LOADED),
        (15, "GpuIsLost", Cause.GPU_HARDWARE_FAULT),
        (18, "LibRmVersionMismatch", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (4, "NoPermission", Cause.DEVICE_NODE_PERMISSION),
    ],
)
def test_the_number_or_name_of_an_nvml_error_decides_its_cause(number: int, name: str, cause: Cause) -> None:
    assert first(f"nvmlInit_v2() returned {number}") is cause
    assert first(f"pynvml.NVMLError_{name}") is cause


def test_a_limit_of_the_pool_differs_from_a_full_gpu() -> None:
    text = "Out of memory allocating 800 bytes (allocated so far: 500 bytes{})."
    assert first(text.format(", limit set to: 1,000 bytes")) is Cause.MEMORY_POOL_RETENTION
    assert first(text.format("")) is Cause.OUT_OF_MEMORY
    assert first("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating") is Cause.OUT_OF_MEMORY


_OLD = "(GPU 0; 79.10 GiB total capacity; {own} already allocated; {free} free; {own} reserved in total by PyTorch)"
_NEW = (
    ". GPU 0 has a total capacity of 79.10 GiB of which {free} is free.{others} Including non-PyTorch memory, this "
    "process has {own} memory in use."
)
_OTHER = " Process 4711 has 78.10 GiB memory in use."


@pytest.mark.parametrize(
    ("sizes", "cause"),
    [
        (_OLD.format(own="0 bytes", free="17.31 MiB"), Cause.GPU_BUSY),
        (_OLD.format(own="78.20 GiB", free="17.31 MiB"), Cause.OUT_OF_MEMORY),
        (_OLD.format(own="12.00 MiB", free="78.31 GiB"), Cause.OUT_OF_MEMORY),
        (_NEW.format(own="500.00 MiB", free="78.00 MiB", others=_OTHER), Cause.GPU_BUSY),
        (_NEW.format(own="79.00 GiB", free="78.00 MiB", others=""), Cause.OUT_OF_MEMORY),
    ],
)
def test_the_sizes_show_whether_other_programs_hold_the_memory(sizes: str, cause: Cause) -> None:
    assert first(f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 GiB{sizes}") is cause


@pytest.mark.parametrize("amount", ["...", "2..0", "20.00", "0"])
def test_an_allocation_without_numbers_is_read(amount: str) -> None:
    text = f"CUDA out of memory. Tried to allocate {amount} GiB. GPU 0 has a total capacity of ... GiB of which ..."
    assert first(text) is Cause.OUT_OF_MEMORY


def test_each_xid_is_read_among_many_of_another() -> None:
    lines = [f"NVRM: Xid (PCI:0000:01:00): 45, pid={number}, Ch 1" for number in range(20)]
    result = causes("\n".join([*lines, "NVRM: Xid (PCI:0000:01:00): 48, pid=1, DBE"]))
    assert result[0].cause is Cause.GPU_HARDWARE_FAULT
    assert result[0].confidence > 0.6


@pytest.mark.parametrize(
    "text",
    [
        "cudaErrorInitializationError: initialization error",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInitializationError: initialization error",
        "RuntimeError: CUDA error: initialization error",
        "CUDA error: 3",
        "CUDA_ERROR_NOT_INITIALIZED: initialization error",
    ],
)
def test_a_bare_initialization_error_is_no_fork(text: str) -> None:
    """Few programs fork; a driver that does not start says the same."""
    result = [entry.cause for entry in causes(text)]
    assert result[0] is Cause.CUDA_INITIALIZATION_FAILED
    assert result[1] is Cause.FORK_AFTER_CUDA_INIT


@pytest.mark.parametrize(
    "text",
    [
        "Process Process-2:\ncudaErrorInitializationError: initialization error",
        'File "/usr/lib/python3.12/multiprocessing/process.py", line 3\nRuntimeError: CUDA error: initialization error',
        "Caught RuntimeError in DataLoader worker process 0.\nRuntimeError: CUDA error: initialization error",
        "Cannot re-initialize CUDA in forked subprocess\ncudaErrorInitializationError: initialization error",
    ],
)
def test_an_initialization_error_of_a_forked_process_is_one(text: str) -> None:
    assert first(text) is Cause.FORK_AFTER_CUDA_INIT


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        ("", Cause.NO_DRIVER),
        ("$ docker run -it image python a.py\n", Cause.CONTAINER_WITHOUT_GPU),
        ("Linux version 5.15.167.4-microsoft-standard-WSL2\n", Cause.WSL_LIBCUDA),
    ],
)
def test_where_libcuda_is_missing_tells_why(place: str, cause: Cause) -> None:
    line = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    assert first(place + line) is cause


def test_an_architecture_that_nvrtc_13_refuses_is_an_old_one() -> None:
    line = "nvrtc: error: invalid value for --gpu-architecture (-arch)"
    assert first(line) is Cause.GPU_TOO_NEW_FOR_TOOLKIT
    assert first(f"cupy-cuda13x 14.2.0\n{line}") is Cause.GPU_REMOVED_FROM_TOOLKIT


def test_a_script_that_imports_itself_hides_cupy() -> None:
    error = "partially initialized module 'cupy' has no attribute 'array' (most likely due to a circular import)"
    assert first(f'File "/home/me/cupy.py", line 3, in <module>\nAttributeError: {error}') is Cause.CUPY_SHADOWED


def test_the_driver_release_decides_whether_an_unsupported_gpu_is_too_old_or_too_new() -> None:
    text = (
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:{})\nNVRM: installed in this system is not supported by the\n"
        "NVRM: NVIDIA {} driver release.\nThe GPU is a {}.\n"
    )
    assert explain_text(text.format("1b80", "590.44.01", "GTX 1080")).causes[0].cause is Cause.GPU_REMOVED_FROM_DRIVER
    assert explain_text(text.format("2b85", "550.54.15", "RTX 5090")).causes[0].cause is Cause.GPU_TOO_NEW_FOR_DRIVER

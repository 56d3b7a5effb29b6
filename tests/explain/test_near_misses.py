"""Lines that have the words of a message but report no fault, each with the real fault."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import scan


def message_ids(text: str) -> list[str]:
    return [name for entry in explanation(scan(text.encode())).causes for name in entry.signatures]


@pytest.mark.parametrize(
    ("message", "healthy", "fault"),
    [
        (
            "suspend.resume",
            "After suspend everything still works with driver 550, including CUDA.",
            "After suspend the desktop still works, but CUDA fails with an error.",
        ),
        (
            "node.permission",
            "libEGL warning: failed to open /dev/dri/renderD128: Permission denied",
            "hipInit: cannot open /dev/dri/renderD128: Permission denied",
        ),
        ("nvrm.xid", "xid: 79 committed, 12 rows", "the kernel's log has Xid: 79 of the GPU"),
        ("nvrm.xid", "Xid 63: a row was remapped, no action is needed", "Xid 63: a row was remapped, then all hung"),
        (
            "node.permission",
            "test -w /dev/nvidiactl && echo accessible\naccessible",
            "cat /dev/nvidiactl: Permission denied",
        ),
        (
            "target.bad-interpreter",
            "bash: ./run.sh: /bin/bash^M: bad interpreter: No such file or directory",
            "bash: /opt/env/bin/pip: /opt/gone/bin/python3.11: bad interpreter: No such file or directory",
        ),
        (
            "target.bad-interpreter",
            "zsh: ./tool.rb: /usr/bin/ruby: bad interpreter: No such file or directory",
            "/opt/env/bin/python: bad interpreter: No such file or directory",
        ),
        (
            "target.bad-interpreter",
            "./deploy.py: /usr/bin/python3^M: bad interpreter: No such file or directory",
            "./deploy.py: /usr/bin/python3: bad interpreter: No such file or directory",
        ),
        (
            "cupy.sdist-building",
            "Building wheel for cupy (setup.py): finished with status 'done'\nSuccessfully built cupy",
            "Building wheels for collected packages: cupy\n  Building wheel for cupy (setup.py): started",
        ),
        (
            "cupy.sdist-building",
            "Building wheels for collected packages: cupy\nSuccessfully built cupy\nSuccessfully installed cupy-14.2.0",
            "Building wheels for collected packages: fastrlock, cupy\nSuccessfully built fastrlock",
        ),
        (
            "cupy.sdist-configuring",
            "* CuPy Configuration Summary *\n  cuda      : Yes (version 12020)\n  nccl      : No",
            "* CuPy Configuration Summary *\n  cuda      : No\n  nccl      : No",
        ),
        (
            "cupy.api-changed",
            "cuml 25.2 requires cupy-cuda12x>=12.0.0, you have 13.4.0, which is fine",
            "cuml 25.2 requires cupy-cuda12x>=12.0.0, but you have cupy-cuda12x 11.6.0 which is incompatible.",
        ),
        (
            "cupy.api-changed",
            "rmm requires cupy>=12.0 and that is satisfied: the requirement is met",
            "rmm requires cupy>=12.0, and 9.6.0 is there",
        ),
        (
            "ld.libstdcxx",
            "code: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by code)",
            "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /opt/a/cupy/core.so)",
        ),
        (
            "nvidia-cli.ldcache",
            "ps: nvidia-container-cli configure --ldconfig=@/sbin/ldconfig.real --device=all",
            "nvidia-container-cli: ldcache error: process /sbin/ldconfig failed with error code: 1",
        ),
        ("build.cuda-home", "Set CUDA_PATH environment variable if CuPy fails to load.", "set CUDA_PATH or CUDA_HOME"),
        (
            "windows.dll-directory",
            "os.add_dll_directory(os.environ['CUDA_PATH'] + r'\\bin')",
            "os.add_dll_directory(os.path.join(cuda_path, 'bin'))",
        ),
        ("cuda.numbered", "cuInit(0) = 0 (CUDA_SUCCESS)", "cuInit(0) = 999"),
    ],
)
def test_a_near_miss_is_not_the_message(message: str, healthy: str, fault: str) -> None:
    assert message_ids(healthy) == []
    assert message in message_ids(fault)


@pytest.mark.parametrize(
    "line",
    [
        '    logger.error("CUDA out of memory, reduce the batch size")',
        '  case cudaErrorNoDevice: return "no CUDA-capable device is detected";',
        'static const char *names[] = {"CUDA_ERROR_OUT_OF_MEMORY"};',
        '    fprintf(stderr, "CUDA driver version is insufficient for CUDA runtime version");',
        "with pytest.raises(cupy.cuda.memory.OutOfMemoryError):",
        "    except cupy.cuda.memory.OutOfMemoryError:",
        "- fix(init): handle cudaErrorNoDevice",
        "if status == NVML_ERROR_LIB_RM_VERSION_MISMATCH:",
        "    } else if (code == cudaErrorIllegalAddress) {",
        "    elif error in (CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NO_DEVICE):",
        "case torch.cuda.OutOfMemoryError:",
        '        return "CUDA driver version is insufficient for CUDA runtime version";',
        "cudaErrorSystemNotReady = 802",
        "    CUDA_ERROR_ILLEGAL_ADDRESS = 700, an instruction left the mapped memory",
        "NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18",
        "CUBLAS_STATUS_NOT_INITIALIZED: returned when the handle was not created",
        "CUDNN_STATUS_NOT_INITIALIZED (1): the handle is missing; usually returned by the first call",
        "cudaErrorInitializationError: this error indicates that CUDA could not start",
        "cuInit returns CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NOT_INITIALIZED or CUDA_SUCCESS",
    ],
)
def test_source_code_that_names_an_error_is_not_a_report(line: str) -> None:
    assert message_ids(line) == []
    assert message_ids(f"{line}\ncupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,192 bytes") != []


@pytest.mark.parametrize(
    "line",
    [
        "if I run two of them, I get CUDA_ERROR_OUT_OF_MEMORY (on each):",
        "cudaErrorSystemNotReady (802) returned from cudaGetDeviceCount",
        "CUBLAS_STATUS_NOT_INITIALIZED (1) when calling cublasCreate",
        "cuInit returns CUDA_ERROR_NO_DEVICE",
        "status = CUDA_ERROR_ILLEGAL_ADDRESS",
    ],
)
def test_a_reported_error_is_recognized(line: str) -> None:
    assert message_ids(line) != []

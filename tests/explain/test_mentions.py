"""Lines that mention an error without reporting one: banners, help texts, shown source, change logs, tables."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import scan
from gpuenv.model.causes import Cause

_NVRTC = "ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory"
_WHEELS = (
    "If you installed CuPy via wheels (cupy-cudaXXX or cupy-rocm-X-X), make sure that the package matches with the "
    "version of CUDA or ROCm installed."
)
# cupy/__init__.py and cupy/_environment.py of CuPy 13.6 and 14.2: the banner of an import that fails.
BANNERS = {
    "13": f"""Traceback (most recent call last):
  File "/venv/lib/python3.12/site-packages/cupy/__init__.py", line 17, in <module>
    from cupy import _core  # NOQA
    ^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.12/site-packages/cupy/_core/__init__.py", line 3, in <module>
    from cupy._core import core  # NOQA
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "cupy/_core/core.pyx", line 1, in init cupy._core.core
{_NVRTC}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "/venv/lib/python3.12/site-packages/cupy/__init__.py", line 19, in <module>
    raise ImportError(f\'\'\'
ImportError:
================================================================
Failed to import CuPy.

{_WHEELS}

On Linux, you may need to set LD_LIBRARY_PATH environment variable depending on how you installed CUDA/ROCm.
On Windows, try setting CUDA_PATH environment variable.

Check the Installation Guide for details:
  https://docs.cupy.dev/en/latest/install.html

Original error:
  {_NVRTC}
================================================================
""",
    "14": f"""ImportError:
================================================================
Failed to import CuPy.

{_WHEELS}

On Linux, you may need to set LD_LIBRARY_PATH environment variable depending on how you installed CUDA/ROCm.
On Windows, try setting CUDA_PATH environment variable.

Check the Installation Guide for details:
  https://docs.cupy.dev/en/latest/install.html

Original error:
  {_NVRTC}
================================================================
""",
}
REPORT = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,192 bytes (allocated so far: 0 bytes)."


def causes(text: str) -> list[Cause]:
    return [entry.cause for entry in explanation(scan(text.encode())).causes]


@pytest.mark.parametrize("text", BANNERS.values(), ids=BANNERS)
def test_the_banner_of_a_failed_import_tells_of_the_library_that_is_missing(text: str) -> None:
    result = explanation(scan(text.encode())).causes
    assert result[0].cause in {Cause.CUDA_LIBRARY_MISSING, Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR}
    assert "ld.toolkit-library" in result[0].signatures
    assert Cause.ROCM_MISMATCH not in [entry.cause for entry in result]
    assert Cause.CUDA_PATH_WRONG not in [entry.cause for entry in result]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            id="help of PyTorch",
        ),
        pytest.param(
            f"{_WHEELS}\nOn Windows, try setting CUDA_PATH environment variable.",
            id="help of CuPy",
        ),
        pytest.param(
            'Traceback (most recent call last):\n  File "train.py", line 7, in step\n'
            '    raise RuntimeError("CUDA out of memory")',
            id="source line of a frame",
        ),
        pytest.param(
            '  File "/venv/lib/python3.12/site-packages/torch/cuda/__init__.py", line 310, in _lazy_init\n'
            '    raise AssertionError("Torch not compiled with CUDA enabled")\n'
            '  File "a.py", line 3, in f\n    x = check(cudaErrorNoDevice)',
            id="source lines of frames",
        ),
        pytest.param('---> 12 raise RuntimeError("CUDA out of memory")', id="source line of IPython"),
        pytest.param(
            "- fix(memory): CUDA out of memory is raised as OutOfMemoryError\n- docs: explain cudaErrorNoDevice\n"
            "* test(init): CUDA_ERROR_NO_DEVICE on a node without a GPU",
            id="change log",
        ),
        pytest.param(
            "cudaErrorMemoryAllocation = 2\ncudaErrorInitializationError = 3\ncudaErrorNoDevice = 100\n"
            "CUDA_ERROR_ILLEGAL_ADDRESS = 700, an instruction left the mapped memory\n"
            "NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18\nCUBLAS_STATUS_NOT_INITIALIZED: returned when there is no handle",
            id="table of codes",
        ),
        pytest.param(
            '  case cudaErrorNoDevice: return "no CUDA-capable device is detected";\n'
            '#define MESSAGE "CUDA driver version is insufficient for CUDA runtime version"',
            id="source of C",
        ),
    ],
)
def test_a_mention_counts_for_nothing(text: str) -> None:
    assert causes(text) == []
    assert {hit.message.id for hit in scan(f"{text}\n{REPORT}".encode()).hits} == {"cupy.memory"}


@pytest.mark.parametrize(
    "error",
    [
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
        "RuntimeError: CUDA error: out of memory",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8 bytes (allocated so far: 0 bytes).",
        "torch.OutOfMemoryError: CUDA out of memory.",
    ],
)
def test_an_error_right_after_a_frame_of_compiled_code_is_reported(error: str) -> None:
    """Cython's frames show no source line, unless the source is there."""
    frame = '  File "cupy_backends/cuda/api/runtime.pyx", line 146, in cupy_backends.cuda.api.runtime.check_status\n'
    assert causes(frame + error)[0] is Cause.OUT_OF_MEMORY

"""Kinds of texts whose answers readers found of no use: what the text says counts, and the first steps can be done.

The texts are written here, in the form in which programs print their messages.
"""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.match import scan
from gpuenv.explain.messages import all_messages
from gpuenv.explain.programs import Program, fixes_for, program_of
from gpuenv.model.causes import Cause

TRACEBACK = "Traceback (most recent call last):\n"
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
TORCH_HINT = (
    "CUDA kernel errors might be asynchronously reported at some other API call\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.\n"
)
NOT_FOR_ARCHITECTURE = "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)\n"


def first(text: str) -> LikelyCause:
    return explanation(scan(text.encode())).causes[0]


def cause_of(text: str) -> Cause:
    return first(text).cause


def steps(text: str) -> str:
    return "\n".join(fix.text for fix in first(text).fix)


@pytest.mark.parametrize(
    "run",
    [
        "$ CUDA_LAUNCH_BLOCKING=1 python3 fit.py",
        "$ env CUDA_LAUNCH_BLOCKING=1 python fit.py",
        "$ export CUDA_LAUNCH_BLOCKING=1",
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        "os.environ['CUDA_LAUNCH_BLOCKING']='1'",
        "I have set CUDA_LAUNCH_BLOCKING=1 already:",
    ],
)
def test_with_synchronous_launches_the_traceback_is_exact(run: str) -> None:
    text = f'{run}\n{TRACEBACK}  File "fit.py", line 9, in <module>\n    y = net(x)\n{ILLEGAL}\n{TORCH_HINT}'
    assert cause_of(text) is Cause.ILLEGAL_MEMORY_ACCESS
    assert "out of range" in first(text).fix[0].text
    assert first(text).would_decide != "which kernel it is: run once more with CUDA_LAUNCH_BLOCKING=1"


def test_the_hint_of_torch_sets_no_variable() -> None:
    plain = f'{TRACEBACK}  File "fit.py", line 9, in <module>\n    y = net(x)\n{ILLEGAL}\n{TORCH_HINT}'
    assert "cuda.blocking-launch" not in first(plain).signatures


@pytest.mark.parametrize(
    "words", ["CUDA driver is a stub library", "cudaErrorStubLibrary", "libcuda is a stub library"]
)
def test_a_stub_is_taken_off_the_library_path(words: str) -> None:
    text = f"{TRACEBACK}cupy_backends.cuda.api.runtime.CUDARuntimeError: {words}\n"
    assert cause_of(text) is Cause.LIBRARY_PATH_CONFLICT
    assert "stubs" in steps(text)
    assert "LD_LIBRARY_PATH" in steps(text)


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: Torch not compiled with CUDA enabled\n",
        "CUDA-enabled jaxlib is not installed. Falling back to cpu.\n",
        "[LightGBM] [Fatal] CUDA Tree Learner was not enabled in this build.\n",
    ],
)
def test_whoever_wants_no_gpu_learns_how_to_use_the_cpu(text: str) -> None:
    assert cause_of(text) is Cause.CPU_ONLY_FRAMEWORK
    assert "To use the CPU" in steps(text)


def test_an_old_gpu_needs_an_older_torch_or_none() -> None:
    text = (
        "    Found GPU0 GeForce GT 620M which is of cuda capability 2.1.\n"
        "    PyTorch no longer supports this GPU because it is too old.\n"
    )
    assert cause_of(text) is Cause.NO_KERNEL_IMAGE
    old = next(fix.text for fix in first(text).fix if "old" in fix.text)
    assert "Previous Versions" in old
    assert "CPU" in old


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (NOT_FOR_ARCHITECTURE, Program.TORCH),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\n", Program.OTHER),
    ],
)
def test_a_program_with_its_own_nvrtc_is_upgraded(text: str, program: Program) -> None:
    assert program_of(text) is program
    assert cause_of(text) is Cause.GPU_TOO_NEW_FOR_TOOLKIT
    step = first(text).fix[0].text
    assert "11.8" in step
    assert "nvcc" not in step


@pytest.mark.parametrize("other", ["libcusparse.so.10", "libcufft.so.10"])
def test_the_first_step_for_an_old_tensorflow_is_not_for_new_ones_alone(other: str) -> None:
    text = (
        "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library "
        "'libcusolver.so.10'; dlerror: libcusolver.so.10: cannot open shared object file: No such file or directory\n"
        "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library "
        f"'{other}'; dlerror: {other}: cannot open shared object file: No such file or directory\n"
    )
    assert cause_of(text) is Cause.CUDA_LIBRARY_MISSING
    assert "Python 3.9" in first(text).fix[0].text
    assert "tested build configurations" in steps(text)


@pytest.mark.parametrize(
    "cause", [Cause.CUDA_LIBRARY_MISSING, Cause.OPTIONAL_LIBRARY_MISSING, Cause.CPU_ONLY_FRAMEWORK]
)
def test_the_extra_of_tensorflow_comes_with_the_releases_that_have_it(cause: Cause) -> None:
    extra = [fix for fix in fixes_for(cause, Program.TENSORFLOW) if fix.command and "and-cuda" in fix.command[-1]]
    assert extra
    assert all("2.14" in fix.text for fix in extra)


def test_numba_gets_the_cuda_of_the_driver_and_no_fixed_one() -> None:
    commands = [word for fix in fixes_for(Cause.DRIVER_TOO_OLD_FOR_CUDA, Program.NUMBA) for word in fix.command or ()]
    assert [word for word in commands if word.startswith("cuda-version=")] == ["cuda-version=VERSION"]


@pytest.mark.parametrize(
    "name",
    ["cupy.cuda' has no attribute 'compile_with_cache", "cupy' has no attribute 'util", "cupy' has no attribute 'prof"],
)
def test_the_replacement_of_a_removed_name_is_in_the_upgrade_guide(name: str) -> None:
    text = f"{TRACEBACK}AttributeError: module '{name}'\n"
    assert cause_of(text) is Cause.CUPY_API_VERSION_INCOMPATIBLE
    assert "Upgrade Guide" in steps(text)


@pytest.mark.parametrize("name", ["nccl", "cudnn"])
def test_a_module_that_cupy_does_not_load_is_imported_by_its_name(name: str) -> None:
    text = f"{TRACEBACK}    comm = cupy.cuda.{name}\nAttributeError: module 'cupy.cuda' has no attribute '{name}'\n"
    assert "import cupy.cuda.nccl" in steps(text)


def test_nccl_is_there_although_cupy_does_not_load_it() -> None:
    assert cause_of("AttributeError: module 'cupy.cuda' has no attribute 'nccl'") is Cause.CUPY_API_VERSION_INCOMPATIBLE


@pytest.mark.parametrize(
    "text",
    [
        (
            '  File "/opt/app/chainer/train.py", line 4, in <module>\n    xp = cuda.cupy\n'
            "AttributeError: 'module' object has no attribute 'cupy'\n"
        ),
        "AttributeError: module 'chainer.cuda' has no attribute 'cupy'\n",
        "    with chainer.cuda.Device(0):\nAttributeError: 'module' object has no attribute 'Device'\n",
        "AttributeError: module 'chainer.backends.cuda' has no attribute 'Stream'\n",
    ],
)
def test_chainer_without_cupy_has_no_cupy_s_names(text: str) -> None:
    assert cause_of(text) is Cause.CUPY_NOT_INSTALLED


@pytest.mark.parametrize(
    "text",
    [
        "OutOfMemoryError                          Traceback (most recent call last)\n----> 3 field.to_gpu()\n",
        "OutOfMemoryError: \n",
        "cupy.cuda.memory.OutOfMemoryError\n",
        "torch.cuda.OutOfMemoryError\n",
        "torch.OutOfMemoryError\n",
    ],
)
def test_the_class_of_the_exception_alone_tells_of_memory(text: str) -> None:
    assert cause_of(text) is Cause.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "text",
    [
        (
            '  File "cupy_backends/cuda/api/runtime.pyx", line 138, in '
            "cupy_backends.cuda.api.runtime.CUDARuntimeError.__init__\nTypeError: an integer is required\n"
        ),
        (
            "RuntimeError: Caught CUDARuntimeError in DataLoader worker process 0.\n"
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInitializationError: initialization error\n"
        ),
    ],
)
def test_cupy_in_a_worker_of_a_data_loader_is_forked(text: str) -> None:
    assert cause_of(text) is Cause.FORK_AFTER_CUDA_INIT
    assert "spawn" in steps(text)


def test_a_compiled_module_that_is_none_comes_of_one_release_of_cupy() -> None:
    text = (
        "    return cupy.cuda.compile_with_cache(code).get_function(name)\n"
        "AttributeError: 'NoneType' object has no attribute 'get_function'\n"
    )
    assert cause_of(text) is Cause.CUPY_BUG
    assert "RawModule" in first(text).title


@pytest.mark.parametrize(
    "text",
    [
        '  File "cupy/_core/core.pyx", line 2473, in cupy._core.core._send_object_to_gpu\nValueError\n',
        (
            '  File "cupy/core/core.pyx", line 1936, in cupy.core.core._send_object_to_gpu\n'
            "ValueError: Unsupported dtype object\n"
        ),
    ],
)
def test_an_array_of_objects_stays_on_the_host(text: str) -> None:
    assert cause_of(text) is Cause.NUMPY_SEMANTICS_DIFFERENCE
    assert "cupy.asnumpy" in steps(text)


def test_a_size_beyond_32_bits_is_no_bug() -> None:
    text = '  File "cupyx/scipy/sparse/_csr.py", line 9, in sum\nOverflowError: value too large to convert to int\n'
    assert cause_of(text) is Cause.NUMPY_SEMANTICS_DIFFERENCE
    assert "32" in first(text).title


@pytest.mark.parametrize("name", ["cupy.core.core.ndarray", "cupy._core.core.ndarray", "cupy.ndarray"])
def test_an_array_that_cannot_be_put_into_bytes_is_copied_to_the_host(name: str) -> None:
    assert cause_of(f"TypeError: can not serialize '{name}' object\n") is Cause.IMPLICIT_HOST_DEVICE_CONVERSION


@pytest.mark.parametrize("program", [Program.CONTAINER, Program.OTHER, Program.TORCH])
@pytest.mark.parametrize("cause", [Cause.CUDA_HEADERS_MISSING, Cause.CUDA_PATH_WRONG])
def test_a_runtime_image_is_replaced_by_its_devel_tag(cause: Cause, program: Program) -> None:
    assert "devel" in fixes_for(cause, program)[0].text


def test_without_a_toolkit_no_variable_can_name_one() -> None:
    text = "Failed to auto-detect CUDA root directory. Please specify `CUDA_PATH` environment variable\n"
    assert cause_of(text) is Cause.CUDA_PATH_WRONG
    assert "nstall" in first(text).fix[0].text


def test_a_container_of_the_driver_needs_a_host_without_nouveau() -> None:
    text = (
        "$ kubectl logs -n gpu-operator nvidia-driver-daemonset-x7k2p\n"
        "========== NVIDIA Software Installer ==========\n"
        "Starting installation of NVIDIA driver version 470.82.01 for Linux kernel version 5.4.0-90-generic\n"
        "Unloading NVIDIA driver kernel modules...\n"
        "Loading NVIDIA driver kernel modules...\n"
        "modprobe: ERROR: could not insert 'nvidia': No such device\n"
    )
    assert "nouveau" in steps(text)
    assert "dkms autoinstall" not in str(first(text).fix)


@pytest.mark.parametrize(
    "words", ["Windows 10 1909 (OS Build 18363.1256)", "Microsoft Windows [Version 10.0.18363.418]"]
)
def test_a_windows_without_cuda_for_wsl_is_updated(words: str) -> None:
    text = f"WSL2 with Ubuntu, {words}\n>>> import cudf\nImportError: libcuda.so.1\n"
    assert cause_of(text) is Cause.WSL_LIBCUDA
    assert "19044" in steps(text)
    assert "18363" in first(text).title


@pytest.mark.parametrize("words", ["Windows 11 (OS Build 22631.3007)", "Microsoft Windows [Version 10.0.19045.3803]"])
def test_a_windows_with_cuda_for_wsl_is_not_blamed(words: str) -> None:
    found = explanation(scan(f"WSL2 with Ubuntu, {words}\n".encode()))
    assert [entry for entry in found.causes if "wsl.old-windows" in entry.signatures] == []


def test_more_is_said_of_full_memory_than_to_look_at_it() -> None:
    (chunks, pool) = fixes_for(Cause.OUT_OF_MEMORY, Program.CUPY)
    assert "chunks" in chunks.text
    assert "free_all_blocks" in pool.text


def test_a_failed_allocation_of_rmm_is_one_of_rapids() -> None:
    line = "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 40000000000 bytes) at: mr.hpp:71"
    assert program_of(line) is Program.RAPIDS
    assert cause_of(line) is Cause.OUT_OF_MEMORY


def test_a_mac_has_no_gpu_for_a_container() -> None:
    assert any("Mac" in fix.text for fix in Cause.CONTAINER_WITHOUT_GPU.fix)


def test_only_some_boards_take_jetpack_6() -> None:
    assert "Orin" in " ".join(fix.text for fix in Cause.JETSON_TEGRA.fix)


def test_cupy_s_own_kernel_is_launched_with_smaller_arrays() -> None:
    text = (
        '  File "cupy/_core/_routines_linalg.pyx", line 320, in cupy._core._routines_linalg.dot\n'
        "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_INVALID_VALUE: invalid argument\n"
    )
    assert cause_of(text) is Cause.INVALID_KERNEL_LAUNCH
    assert "smaller" in steps(text)


def test_a_header_that_a_build_of_cupy_misses_fails_the_build() -> None:
    text = (
        "Building wheel for cupy (setup.py): finished with status 'error'\n"
        "cc1plus: fatal error: cuda_runtime.h: No such file or directory\n"
    )
    assert cause_of(text) is Cause.CUPY_SDIST_BUILD_FAILURE


def test_the_original_error_that_chainer_quotes_counts() -> None:
    text = "RuntimeError: CUDA environment is not correctly set up\noriginal error: libcuda.so.1: cannot open\n"
    assert cause_of(text) is Cause.NO_DRIVER


def test_what_would_decide_is_on_the_topic() -> None:
    of_kernels = {
        *(Cause.ILLEGAL_MEMORY_ACCESS, Cause.ASYNC_ERROR_SURFACED_LATE, Cause.INVALID_KERNEL_LAUNCH, Cause.STREAM_RACE),
    }
    blocking = [one for one in all_messages() if "CUDA_LAUNCH_BLOCKING" in (one.decided_by or "")]
    assert [one.id for one in blocking if not of_kernels & set(one.causes)] == []
    assert [one.id for one in all_messages() if "driver_types.h" in (one.decided_by or "")] == []


def test_a_missing_library_of_another_program_asks_for_no_cupy() -> None:
    text = "OSError: libcudart.so: cannot open shared object file: No such file or directory\n"
    assert "cupy" not in (first(text).would_decide or "").lower()


def test_the_fixes_of_a_rocm_mismatch_mention_unsupported_gpus() -> None:
    assert any("list your GPU as supported" in fix.text for fix in Cause.ROCM_MISMATCH.fix)


@pytest.mark.parametrize(
    "refusal",
    [
        "$ pip install cupy-cuda12x\nerror: externally-managed-environment\n",
        "$ uv pip install --system cupy-cuda12x\nerror: The interpreter at /usr is externally managed",
    ],
)
def test_a_python_of_the_system_is_left_alone_and_cupy_goes_into_an_environment(refusal: str) -> None:
    assert cause_of(refusal) is Cause.CUPY_NOT_INSTALLED
    assert [fix.command for fix in first(refusal).fix] == [
        ("python3", "-m", "venv", "cupy-env"),
        ("gpuenv", "install", "--python", "cupy-env"),
    ]


def test_the_interpreters_of_a_virtual_environment_only_are_removed(tmp_path: Path) -> None:
    (line,) = (fix.shell_line for fix in Cause.TARGET_ENVIRONMENT_BROKEN.fix if fix.shell_line)
    (tmp_path / "bin").mkdir()
    interpreter = tmp_path / "bin/python3"
    interpreter.write_text("the system's")
    done = subprocess.run(["sh", "-c", line.replace("ENVIRONMENT", str(tmp_path))], check=False, capture_output=True)
    assert done.returncode != 0
    assert interpreter.read_text() == "the system's"
    venv.create(tmp_path / "env", symlinks=True)
    link = tmp_path / "env/bin/python3"
    link.unlink()
    link.symlink_to(tmp_path / "gone")
    repair = line.replace("ENVIRONMENT", str(tmp_path / "env"))
    subprocess.run(["sh", "-c", repair], check=True)
    subprocess.run([link, "-c", ""], check=True)


@pytest.mark.parametrize("rest", ["", " Please check your cudatoolkit version matches your CUDA version."])
def test_numba_without_a_cuda_runtime_lacks_a_library_and_not_a_newer_gpu(rest: str) -> None:
    error = "numba.cuda.cudadrv.error.NvvmSupportError: "
    empty = f"{error}No supported GPU compute capabilities found.{rest}"
    assert cause_of(empty) is Cause.CUDA_LIBRARY_MISSING
    assert first(empty).title.startswith("Numba finds no CUDA runtime (libcudart)")
    assert Cause.GPU_REMOVED_FROM_TOOLKIT not in [entry.cause for entry in explanation(scan(empty.encode())).causes]
    too_old = f"{error}GPU compute capability 2.1 is not supported(requires >=3.5)"
    assert cause_of(too_old) is Cause.GPU_REMOVED_FROM_TOOLKIT


INSUFFICIENT = (
    "CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version\n"
)
NEW_DRIVER = "| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |\n"


@pytest.mark.parametrize(
    "run",
    [
        "$ docker run --rm cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ sudo podman run -it --rm docker.io/cupy/cupy:v14.2.0 bash\n",
        "$ docker run --rm \\\n    cupy/cupy:v14.2.0 python3 fit.py\n",
    ],
)
@pytest.mark.parametrize("banner", ["", NEW_DRIVER])
def test_a_container_that_was_started_without_a_gpu_has_no_driver_that_is_too_old(run: str, banner: str) -> None:
    for text in (banner + run + INSUFFICIENT, banner + INSUFFICIENT + run):
        assert cause_of(text) is Cause.CONTAINER_WITHOUT_GPU
        assert INSUFFICIENT.strip() in [line.text for line in first(text).lines]


@pytest.mark.parametrize(
    "run",
    [
        "$ docker run --rm --gpus all cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ podman run --device nvidia.com/gpu=all cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ docker run --runtime=nvidia cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ docker run --rm \\\n    --gpus all cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ docker run --rm -it \\\n    -v $PWD:/work \\\n    --gpus all \\\n    cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ nvidia-docker run cupy/cupy:v14.2.0 python3 fit.py\n",
        "$ python3 fit.py\n",
    ],
)
def test_a_driver_is_too_old_for_a_container_with_a_gpu(run: str) -> None:
    assert cause_of(run + INSUFFICIENT) is Cause.DRIVER_TOO_OLD_FOR_CUDA

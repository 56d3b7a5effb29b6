"""Messages with fixes of their own: those of their cause would not help, or would do harm."""

from __future__ import annotations

import shlex

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.match import scan
from gpuenv.explain.messages import all_messages
from gpuenv.explain.score import DoctorVerdict
from gpuenv.model.causes import Cause, Fix
from gpuenv.model.finding import Finding, Severity

ENROOT = """slurmstepd: error: pyxis:     [ERROR] Command not found: nvidia-container-cli, see LINK
slurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1
"""
APPTAINER = """INFO:    Could not find any nv files on this host!
cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient
"""
CONFIDENTIAL = """UserWarning: CUDA initialization: cudaGetDeviceCount(). Error 802: system not yet initialized
$ nvidia-smi conf-compute -grs
Confidential Compute GPUs Ready state: not-ready
"""
WINDOWS_USER = """cupy_backends.cuda.libs.nvrtc.NVRTCError: NVRTC_ERROR_COMPILATION (6)
cupy.cuda.compiler.CompileException: Catastrophic error: cannot open source file "C:\\Users\\黄\\Temp\\7cb9_2.cubin.cu"
"""
STATIC_TLS = """import cupy as cp, sklearn
ImportError: /opt/venv/scikit_learn.libs/libgomp-d22c30c5.so.1.0.0: cannot allocate memory in static TLS block
"""
FULL = """  File "/usr/lib/python3.11/site-packages/cupy/cuda/compiler.py", line 604, in _compile_with_cache_cuda
OSError: [Errno 28] No space left on device: '/home/u/.cupy/kernel_cache/tmpx8wmgu7w'
"""
NO_CTYPES = """  File "/home/u/.pyenv/lib/python3.12/site-packages/cupy/_environment.py", line 3
    import ctypes
ModuleNotFoundError: No module named '_ctypes'
"""
JOB = """slurmstepd: error: Detected 1 oom_kill event in StepId=8842.batch.
/var/spool/slurmd/job884213/slurm_script: line 14: 214411 Killed                  python train_cupy.py
"""
KERNEL = "Out of memory: Killed process 4242 (python3) total-vm:41943040kB, anon-rss:31457280kB"
GRIDD = (
    "nvidia-gridd[1021]: Failed to acquire license from lic.example.org (Error: The requested feature is not available)"
)
PODMAN = (
    "Error: preparing container 5b1d for attach: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"
)
ARCH = """$ sudo modprobe nvidia
modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.17.9-arch1-1
"""
POD = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
CUTENSOR = "cupy_backends.cuda.libs.cutensor.CuTensorError: CUTENSOR_STATUS_INSUFFICIENT_DRIVER"


def first(text: str) -> LikelyCause:
    return explanation(scan(text.encode())).causes[0]


def words_of(fixes: tuple[Fix, ...]) -> str:
    return " ".join(f"{fix.text} {fix.shell_line or shlex.join(fix.command or ())}" for fix in fixes)


@pytest.mark.parametrize(
    ("text", "cause", "included", "excluded"),
    [
        pytest.param(ENROOT, Cause.CONTAINER_TOOLKIT_BROKEN, "libnvidia-container-tools", "docker", id="enroot"),
        pytest.param(PODMAN, Cause.CONTAINER_TOOLKIT_BROKEN, "nvidia-ctk cdi generate", "restart docker", id="podman"),
        pytest.param(POD, Cause.CONTAINER_TOOLKIT_BROKEN, "kubectl describe nodes", "docker", id="pod"),
        pytest.param(APPTAINER, Cause.NO_DRIVER, "driver", "docker", id="apptainer"),
        pytest.param(CONFIDENTIAL, Cause.CUDA_INITIALIZATION_FAILED, "-srs 1", "fabric", id="confidential"),
        pytest.param(WINDOWS_USER, Cause.CUPY_BUG, "ASCII", "[ctk]", id="windows-user"),
        pytest.param(STATIC_TLS, Cause.JETSON_TEGRA, "LD_PRELOAD", "l4t", id="static-tls"),
        pytest.param(FULL, Cause.KERNEL_CACHE_UNWRITABLE, "df -h", "chown", id="full"),
        pytest.param(NO_CTYPES, Cause.TARGET_ENVIRONMENT_BROKEN, "libffi", "--python", id="ctypes"),
        pytest.param(JOB, Cause.OUT_OF_MEMORY, "--mem", "nvidia-smi", id="job"),
        pytest.param(KERNEL, Cause.OUT_OF_MEMORY, "free -h", "sacct", id="kernel"),
        pytest.param(GRIDD, Cause.GPU_THROTTLED, "ClientConfigToken", "Cool", id="gridd"),
        pytest.param(ARCH, Cause.DRIVER_MODULE_NOT_LOADED, "sudo reboot", "modprobe", id="arch"),
        pytest.param(CUTENSOR, Cause.DRIVER_TOO_OLD_FOR_CUDA, "newer driver", "[ctk]", id="cutensor"),
    ],
)
def test_the_first_cause_has_a_fix_that_helps(text: str, cause: Cause, included: str, excluded: str) -> None:
    found = first(text)
    assert found.cause is cause
    assert included in words_of(found.fix)
    assert excluded not in words_of(found.fix)


def test_the_title_is_that_of_the_message_that_replaces_another() -> None:
    assert first(WINDOWS_USER).title == "NVRTC cannot open CuPy's own source file in the temporary folder"
    assert first(CONFIDENTIAL).title == "The GPU of this confidential virtual machine does not accept work yet"


@pytest.mark.parametrize("host", [JOB, KERNEL])
def test_the_fixes_are_those_of_the_message_that_gives_the_title(host: str) -> None:
    found = first(f"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes\n{host}")
    assert found.title == "CuPy could not allocate 8,000,000,000 bytes"
    assert "nvidia-smi" in words_of(found.fix)
    assert "--mem" not in words_of(found.fix)


def test_a_source_file_that_the_user_includes_is_not_cupys() -> None:
    found = first('kernel.cu(3): catastrophic error: cannot open source file "common.cu"')
    assert found.cause is Cause.CUDA_HEADERS_MISSING


def test_a_vgpu_is_not_slowed_down_before_its_licence_is_due() -> None:
    assert explanation(scan(b"License Status : Unlicensed (Unrestricted)")).causes == ()
    assert first("License Status : Unlicensed (Restricted)").cause is Cause.GPU_THROTTLED


def test_another_cause_of_the_message_keeps_its_own_fixes() -> None:
    busy = next(cause for cause in explanation(scan(POD.encode())).causes if cause.cause is Cause.GPU_BUSY)
    assert "kubectl" not in words_of(busy.fix)


def test_the_fix_for_this_machine_outranks_that_of_the_message() -> None:
    fix = Fix("Install the toolkit for this host.")
    cause = Cause.CONTAINER_TOOLKIT_BROKEN
    finding = Finding(
        "CTR305", cause, Severity.ERROR, primary=True, follows_from=None, title="", evidence=(), fix=(fix,), docs=""
    )
    verdict = DoctorVerdict({finding.cause: finding}, has_machine=True)
    assert explanation(scan(PODMAN.encode()), verdict).causes[0].fix == (fix,)


def test_a_fix_is_a_sentence_and_its_command_is_complete() -> None:
    steps = [(message.id, step) for message in all_messages() for step in message.fix]
    assert [name for name, step in steps if not step.text[0].isupper() or step.text[-1] not in ".:"] == []
    assert [name for name, step in steps if step.command == ()] == []

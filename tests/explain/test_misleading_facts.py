"""Facts that resemble a deciding one, each with the real one."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from tests.explain.message_ranking import ranked

NO_DEVICE = "RuntimeError: CUDA error: no CUDA-capable device is detected"
UNKNOWN = "CUDA_ERROR_UNKNOWN"
OUT = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 512 bytes"
HANDLE = "RuntimeError: CUBLAS_STATUS_NOT_INITIALIZED"
POOL, TORCH = Cause.MEMORY_POOL_RETENTION, Cause.TORCH_CUPY_CONFLICT
PATH, LOST = Cause.LIBRARY_PATH_CONFLICT, Cause.CONTAINER_CGROUP_LOST_GPU
MISSING, CLOSED = Cause.DEVICE_NODE_MISSING, Cause.DEVICE_NODE_PERMISSION
NONE, SLEPT = Cause.NO_NVIDIA_GPU, Cause.SUSPEND_RESUME_LOST_GPU
COMPAT = Cause.FORWARD_COMPAT_UNSUPPORTED


def first(text: str) -> Cause | None:
    """The likeliest cause by messages alone, without the classifier."""
    result = ranked(text)
    return result[0].cause if result else None


@pytest.mark.parametrize(
    "command",
    [
        "$ sudo apt-get update\nHit:1 OK",
        "sudo apt-get install fine",
        "sudo pip install works.",
        "sudo python -m pip list works",
        "$ sudo systemctl status nvidia-persistenced: fine",
        "$ sudo modprobe nvidia\n$ nvidia-smi works",
        "sudo nvidia-smi works, and as user too",
        "sudo python x.py prints False too",
        "sudo python x.py: True, as user too",
        "pip works as root",
        "it never works as root",
    ],
)
def test_commands_that_prove_nothing_about_root_are_ignored(command: str) -> None:
    assert first(f"{command}\n{NO_DEVICE}") is not Cause.DEVICE_NODE_PERMISSION


@pytest.mark.parametrize(
    "fact",
    [
        "sudo python check.py: works",
        "sudo ./deviceQuery: PASS",
        "torch.cuda.is_available() is True as root",
        "sudo python3 x.py prints True",
        "as root both cards are there",
        "as the ordinary user it fails; `sudo nvidia-smi` works",
    ],
)
def test_success_as_root_only_means_a_permission_problem(fact: str) -> None:
    assert first(f"{fact}\n{NO_DEVICE}") is Cause.DEVICE_NODE_PERMISSION


@pytest.mark.parametrize(
    ("message", "opposite", "fact", "cause"),
    [
        (OUT, "free_all_blocks() does not help, it never works", "free_all_blocks() helps", POOL),
        (OUT, "free_all_blocks() fixed nothing", "empty_cache() fixed it", POOL),
        (HANDLE, "removing import torch does not help", "removing import torch helps", TORCH),
        (HANDLE, "removing import torch: nothing works", "without import torch it works", TORCH),
        (HANDLE, "with LD_LIBRARY_PATH unset nothing works", "unsetting LD_LIBRARY_PATH works", PATH),
        (HANDLE, "unsetting LD_LIBRARY_PATH doesn't help", "unsetting LD_LIBRARY_PATH helps", PATH),
        (
            NO_DEVICE,
            "restarting the container does not help; it never works",
            "restarting the container helps until the morning",
            LOST,
        ),
        (NO_DEVICE, "restarting the container should help", "restarting the container fixes it", LOST),
        (NO_DEVICE, "kubectl delete pod x; still the same, nothing works", "kubectl delete pod x: works", LOST),
        (NO_DEVICE, "systemctl daemon-reload did not help.", "it works until systemctl daemon-reload", LOST),
        (NO_DEVICE, "I ran systemctl daemon-reload for the service", "gone after systemctl daemon-reload", LOST),
        (NO_DEVICE, "adding /dev/nvidia-uvm does not help", "adding /dev/nvidia-uvm helps", Cause.DEVICE_NODE_MISSING),
        (UNKNOWN, "memtest86 found no errors", "memtest: stuck bit at 0x1f", Cause.GPU_HARDWARE_FAULT),
        (UNKNOWN, "GPU memtest passed: 0 errors", "cuda_memtest: 3 errors", Cause.GPU_HARDWARE_FAULT),
        (UNKNOWN, "dcgmi diag -r 3: all Pass, no FAIL", "dcgmi diag -r 3: memory FAIL", Cause.GPU_HARDWARE_FAULT),
        (
            UNKNOWN,
            "the vendor replaced the board, same as before",
            "the vendor replaced the board, it is gone",
            Cause.GPU_HARDWARE_FAULT,
        ),
        (UNKNOWN, "the fault does not follow the card", "the fault follows the card", Cause.GPU_HARDWARE_FAULT),
        (
            NO_DEVICE,
            "blacklist nvidia is not in any modprobe.d file",
            "blacklist nvidia",
            Cause.DRIVER_MODULE_NOT_LOADED,
        ),
        (NO_DEVICE, "Default, not exclusive_process", "exclusive_process", Cause.COMPUTE_MODE_EXCLUSIVE),
        (NO_DEVICE, "dpkg --audit prints nothing", "dpkg --audit prints four packages", Cause.DRIVER_INSTALL_BROKEN),
        (
            "",
            "the GPU never fell off the bus. all fine",
            "the GPU fell off the bus at noon",
            Cause.GPU_HARDWARE_FAULT,
        ),
    ],
)
def test_a_negated_fix_does_not_decide(message: str, opposite: str, fact: str, cause: Cause) -> None:
    for text in (f"{opposite}\n{message}", f"{message}\n{opposite}"):
        assert first(text) is not cause, text
    assert first(f"{fact}\n{message}") is cause


LISTED = "$ ls /dev/nvidia*\n/dev/nvidia0  /dev/nvidiactl"


@pytest.mark.parametrize(
    ("message", "usual", "fact", "cause"),
    [
        (NO_DEVICE, f"{LISTED}\n/dev/nvidia-uvm\n/dev/nvidia-uvm-tools", "has only nvidia0 nvidiactl", MISSING),
        (NO_DEVICE, f"{LISTED} /dev/nvidia-modeset\n/dev/nvidia-uvm  /dev/nvidia-uvm-tools", LISTED, MISSING),
        (NO_DEVICE, "/dev/nvidia-uvm", "/dev/nvidia-uvm: missing", MISSING),
        (NO_DEVICE, "On an AWS GPU instance (g5.xlarge):", "MIG: two GPU instances", Cause.MIG_MISCONFIGURED),
        (
            NO_DEVICE,
            "    MIG Mode\n        Current : Disabled\n        GPU instance ID : N/A",
            "mig.mode.current: Enabled",
            Cause.MIG_MISCONFIGURED,
        ),
        (NO_DEVICE, "H100 with driver 580.xx", "use the 470.xx driver", Cause.GPU_REMOVED_FROM_DRIVER),
        (NO_DEVICE, "RTX 4090, use the 580.xx driver", "it needs 390.xx", Cause.GPU_REMOVED_FROM_DRIVER),
        (
            NO_DEVICE,
            "RTX 4090, driver 470.xx was removed and 580.95.05 installed",
            "a legacy card",
            Cause.GPU_REMOVED_FROM_DRIVER,
        ),
        (NO_DEVICE, "ii  cuda-compat-12-4  550.54.15  amd64", "libcuda.so.1 from compat", COMPAT),
        (NO_DEVICE, "The compat folder is empty", "the compat libcuda comes first", COMPAT),
        (
            NO_DEVICE,
            "lspci | grep -i nvidia -> 01:00.0 VGA NVIDIA GA102; 0 errors",
            "lspci | grep -i nvidia -> 0",
            NONE,
        ),
        (NO_DEVICE, "it only has an Intel CPU, and a RTX 3090", "it has only Intel graphics", NONE),
        (NO_DEVICE, "The machine has only Intel CPUs and four A100", "only an ASPEED", NONE),
        (NO_DEVICE, "my MacBook connects by ssh to the server with 4 A100", "on my MacBook", NONE),
        (NO_DEVICE, "Windows 11 host, VMware guest Ubuntu", "Windows 11 host, Ubuntu", Cause.WSL_LIBCUDA),
        (NO_DEVICE, "Windows host via VirtualBox, Ubuntu guest", "Ubuntu under Windows", Cause.WSL_LIBCUDA),
        (NO_DEVICE, "I dual-boot Ubuntu beside Windows 11; Ubuntu has it", "Debian inside Windows", Cause.WSL_LIBCUDA),
        (NO_DEVICE, "machine resumed training from checkpoint", "the laptop resumed from sleep", SLEPT),
        (NO_DEVICE, "the desktop resumed the download", "the desktop resumed.", SLEPT),
        (
            NO_DEVICE,
            "crw-rw---- 1 root disk 8,0 /dev/sda, crw-rw-rw- /dev/nvidia0",
            "crw-rw---- 1 root video 195, 0 /dev/nvidia0",
            CLOSED,
        ),
        (
            NO_DEVICE,
            "crw-rw-rw- 1 root root 195, 0 /dev/nvidia0\ncrw-rw---- 1 root video 226, 0 /dev/dri/card0",
            "/dev/nvidia0 is crw-rw----",
            CLOSED,
        ),
        (NO_DEVICE, "error code 640 from /dev/nvidiactl", "/dev/nvidiactl has mode 0640", CLOSED),
        (NO_DEVICE, "SELinux is Enforcing", "DevicePolicy=closed", CLOSED),
        (NO_DEVICE, "with --security-opt label=disable it fails too", "--security-opt label=disable helps", CLOSED),
    ],
)
def test_a_normal_state_does_not_decide(message: str, usual: str, fact: str, cause: Cause) -> None:
    assert first(f"{usual}\n{message}") is not cause
    assert first(f"{fact}\n{message}") is cause


@pytest.mark.parametrize(
    ("innocent", "real", "cause"),
    [
        ("BLAS = 0 | CUDA = 1 system_info llama.cpp", "cuda: BLAS = 0 | AVX = 1", Cause.CPU_ONLY_FRAMEWORK),
        ("conda: clobber is deprecated; cuda installed ok", "cuda: ClobberError", Cause.MIXED_PIP_CONDA),
        (
            "TypeError: plot() got an unexpected keyword argument 'colour' in my cupy notebook",
            "cupy: TypeError: sort() got an unexpected keyword argument 'kind'",
            Cause.NUMPY_SEMANTICS_DIFFERENCE,
        ),
    ],
)
def test_a_harmless_mention_does_not_decide(innocent: str, real: str, cause: Cause) -> None:
    assert first(innocent) is not cause
    assert first(real) is cause

"""Messages that only report missing CUDA: one further fact decides the cause."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from tests.explain.message_ranking import ranked

NO_DEVICE = "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected"
NO_GPUS = "RuntimeError: No CUDA GPUs are available"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system."
UNKNOWN = "CUDA_ERROR_UNKNOWN"
NOT_STARTED = "cuInit failed: initialization error"
OLD = "CUDA driver version is insufficient for CUDA runtime version"
LIBCUDA = "OSError: libcuda.so.1: cannot open shared object file: No such file or directory"
NONE_FOUND = "No devices were found"


@pytest.mark.parametrize(
    ("message", "fact", "cause"),
    [
        # Who may open the device nodes.
        (NO_DEVICE, "crw-rw---- 1 root video 195, 0 Mar  1 09:12 /dev/nvidia0", Cause.DEVICE_NODE_PERMISSION),
        (NO_GPUS, "crw-rw----. 1 root render 195, 255 /dev/nvidiactl", Cause.DEVICE_NODE_PERMISSION),
        (UNKNOWN, "the service's user is not in the group render", Cause.DEVICE_NODE_PERMISSION),
        (NO_DEVICE, "sudo python check.py: works", Cause.DEVICE_NODE_PERMISSION),
        # Which of them are there.
        (UNKNOWN, "the jail has only /dev/nvidia0 and /dev/nvidiactl", Cause.DEVICE_NODE_MISSING),
        (UNKNOWN, "ls: nvidia0  nvidiactl  nvidia-modeset", Cause.DEVICE_NODE_MISSING),
        (NO_GPUS, "there is no nvidia-uvm in it", Cause.DEVICE_NODE_MISSING),
        # Which driver holds the card, and which cards there are.
        (NO_DEVICE, "lsmod: nouveau 2318336 4", Cause.NOUVEAU_LOADED),
        (LIBCUDA, "Kernel driver in use: nouveau", Cause.NOUVEAU_LOADED),
        (NO_DEVICE, "OpenGL renderer: Mesa NV134", Cause.NOUVEAU_LOADED),
        (NO_DEVICE, "lspci | grep -ci nvidia\n0", Cause.NO_NVIDIA_GPU),
        (NO_DEVICE, "lspci -d 10de: prints nothing", Cause.NO_NVIDIA_GPU),
        (NO_GPUS, "the laptop has only Intel graphics", Cause.NO_NVIDIA_GPU),
        (OLD, "lspci | grep VGA -> Matrox Electronics Systems G200", Cause.NO_NVIDIA_GPU),
        # What the container was given, and what it lost.
        (NO_DEVICE, '"DeviceRequests": null,', Cause.CONTAINER_WITHOUT_GPU),
        (NO_DRIVER, "the service has no deploy section", Cause.CONTAINER_WITHOUT_GPU),
        (OLD, "apptainer exec tool.sif tool", Cause.CONTAINER_WITHOUT_GPU),
        (LIBCUDA, "NVIDIA_DRIVER_CAPABILITIES=utility", Cause.CONTAINER_DRIVER_CAPABILITIES),
        (NO_DEVICE, "systemd[1]: Reloading.", Cause.CONTAINER_CGROUP_LOST_GPU),
        (NO_GPUS, "a restart of the container helps until the next morning", Cause.CONTAINER_CGROUP_LOST_GPU),
        # What became of the kernel's module, and of the machine.
        (NO_DEVICE, "kernel command line: module_blacklist=nvidia", Cause.DRIVER_MODULE_NOT_LOADED),
        (NO_DEVICE, "PM: suspend entry (s2idle)", Cause.SUSPEND_RESUME_LOST_GPU),
        (NOT_STARTED, "since hibernation; a reload of nvidia_uvm is enough", Cause.SUSPEND_RESUME_LOST_GPU),
        (UNKNOWN, "the server never slept", Cause.CUDA_INITIALIZATION_FAILED),
        (NOT_STARTED, "./deviceQuery says so too", Cause.CUDA_INITIALIZATION_FAILED),
        (LIBCUDA, "dpkg --audit names four packages", Cause.DRIVER_INSTALL_BROKEN),
        # Which branch, which mode, which part of the GPU.
        (NONE_FOUND, "dmesg: use the 470.xx driver", Cause.GPU_REMOVED_FROM_DRIVER),
        (NO_DEVICE, "Compute Mode: Prohibited", Cause.COMPUTE_MODE_EXCLUSIVE),
        (NO_DEVICE, "mig.mode.current: Enabled", Cause.MIG_MISCONFIGURED),
        (NO_GPUS, "CUDA_VISIBLE_DEVICES=void", Cause.VISIBLE_DEVICES_HIDE_GPU),
        (NO_DRIVER, "gpu_burn: GPU 2: FAULTY", Cause.GPU_HARDWARE_FAULT),
    ],
)
def test_one_fact_decides_an_ambiguous_message(message: str, fact: str, cause: Cause) -> None:
    for text in (f"{message}\n{fact}", f"{fact}\n{message}"):
        result = ranked(text)
        assert result[0].cause is cause, (text, result)


@pytest.mark.parametrize(
    ("message", "healthy", "cause"),
    [
        # Similar facts that do not decide.
        (NO_DEVICE, "crw-rw-rw- 1 root root 195, 0 /dev/nvidia0", Cause.VISIBLE_DEVICES_HIDE_GPU),
        (NO_DEVICE, "ls: nvidia0  nvidiactl  nvidia-uvm", Cause.VISIBLE_DEVICES_HIDE_GPU),
        (NO_DEVICE, "lspci: 01:00.0 VGA compatible controller: NVIDIA GA104", Cause.VISIBLE_DEVICES_HIDE_GPU),
        (NO_DEVICE, "00:02.0 VGA compatible controller: Intel Corporation UHD", Cause.VISIBLE_DEVICES_HIDE_GPU),
        (NO_GPUS, "Default Runtime: runc", Cause.VISIBLE_DEVICES_HIDE_GPU),
        (UNKNOWN, "a fresh look", Cause.SUSPEND_RESUME_LOST_GPU),
        (NO_DEVICE, "NVIDIA_DRIVER_CAPABILITIES=compute,utility", Cause.VISIBLE_DEVICES_HIDE_GPU),
    ],
)
def test_a_healthy_fact_changes_nothing(message: str, healthy: str, cause: Cause) -> None:
    assert ranked(f"{message}\n{healthy}")[0].cause is cause


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", Cause.CPU_ONLY_FRAMEWORK),
        (
            "Failed to initialize NVML: Driver/library version mismatch",
            Cause.DRIVER_LIBRARY_VERSION_MISMATCH,
        ),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess", Cause.FORK_AFTER_CUDA_INIT),
    ],
)
def test_facts_do_not_change_a_certain_message(message: str, cause: Cause) -> None:
    facts = "crw-rw---- 1 root video 195, 0 /dev/nvidia0\n./deviceQuery\nPM: suspend entry (s2idle)\nDriver: nouveau"
    assert ranked(f"{message}\n{facts}")[0].cause is cause

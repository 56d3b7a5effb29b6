"""What the kernel's log tells of a CUDA that cannot be initialised."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact, lines_with, source
from gpuenv.doctor.fixes.distributions import firmware
from gpuenv.doctor.predicates import contained, driver_sees_gpu
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix
from gpuenv.model.pattern import pattern

_BEFORE = ("DRV100", "DRV101", "GPU201", "GPU202", "GPU203", "GPU204", "GPU209", "CTR301", "DRV105", "DRV106", "DRV107")
# CUDA 13.2 Update 1, Release Notes, Known Issues, General CUDA: "CUDA initialization can fail on certain Linux kernels
# with KASLR enabled", with this message and this way out (read 2026-11-22).
_NO_ROOM = pattern(r"nvidia-uvm: .*request_free_mem_region\(\) err")
_TURN_OFF = "options nvidia_uvm uvm_disable_hmm=1"
# Linux, drivers/base/firmware_loader/main.c; open-gpu-kernel-modules, RmFetchGspRmImages.
_NO_FIRMWARE = pattern(r"firmware load for nvidia/\S+ failed with error|NVRM: .*No firmware image found")


@check("DRV118", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=_BEFORE)
def no_room_for_memory(facts: Facts) -> Outcome:
    """The kernel gives CUDA's memory manager no room in its address space.

    What it means: some kernels that place themselves at random (KASLR) leave no free range for the GPU's memory where
    the driver asks for one (HMM), so CUDA cannot be initialised, though nvidia-smi works.
    How it is seen: cuInit fails, and the kernel's log has a line of nvidia-uvm with request_free_mem_region() err.
    What to do: turn HMM off in the module nvidia-uvm and load it anew, or start the kernel with nokaslr; newer kernels
    have it mended.
    """
    lines = lines_with(facts.snapshot, _NO_ROOM)
    if not lines or not facts.snapshot.driver.cuda_init.value:
        return
    yield Symptom(
        "The kernel gives CUDA's memory manager no room: HMM and this kernel do not go together",
        lines + source(facts.snapshot, "libcuda") + fact("host.kernel", facts.snapshot.host.kernel),
        (
            Fix(
                "Turn HMM off for the module nvidia-uvm.",
                ("sudo", "sh", "-c", f"echo '{_TURN_OFF}' > /etc/modprobe.d/nvidia-uvm-hmm.conf"),
            ),
            Fix("Load the module anew, or restart.", ("sudo", "modprobe", "-r", "nvidia_uvm")),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia_uvm")),
            Fix("Or start the kernel with nokaslr, or another kernel."),
        ),
    )


@check("DRV119", Cause.DRIVER_INSTALL_BROKEN, requires=_BEFORE)
def no_firmware(facts: Facts) -> Outcome:
    """The driver does not find its firmware for the GPU.

    What it means: the open kernel modules, and for newer GPUs the proprietary ones too, load firmware for the GPU's own
    processor from a file of exactly the driver's version. Without it the GPU is not started.
    How it is seen: no GPU is listed, and the kernel's log says that firmware below nvidia/ could not be loaded.
    What to do: install the firmware of exactly the driver's version, or the whole driver again; where the module is
    loaded from an initial RAM disk, make that anew.
    """
    snapshot = facts.snapshot
    lines = lines_with(snapshot, _NO_FIRMWARE)
    if not lines or driver_sees_gpu(snapshot) or contained(snapshot) or not snapshot.driver.cuda_init.value:
        return
    yield Symptom(
        "The driver does not find its firmware, so the GPU is not started",
        lines + fact("driver.module_version", snapshot.driver.module_version) + source(snapshot, "libcuda"),
        (
            Fix("Install the firmware of exactly this driver, or the driver again.", firmware(snapshot)),
            Fix("Unload the module, or restart.", ("sudo", "modprobe", "-r", "nvidia")),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia")),
        ),
    )

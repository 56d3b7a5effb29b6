"""GPUs that the driver finds on the bus and cannot start, by its own words in the kernel's log."""

from __future__ import annotations

import re

from gpuenv.doctor.checks.module import ABSENT
from gpuenv.doctor.evidence import hardware_lines, lines_with, readings, source
from gpuenv.doctor.fixes.gpus import CONNECT_POWER, GIVE_ROOM, WAKE_UP
from gpuenv.doctor.predicates import contained, driver_sees_gpu, left_out
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import Cuda
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.text import pattern

_BEFORE = (*ABSENT, "GPU204")
_OF_A_GPU = (Cuda.NO_DEVICE, Cuda.INVALID_DEVICE, Cuda.UNKNOWN)  # of cuInit, where one of the GPUs does not start
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, RmInitAdapter: NV_ERR_INSUFFICIENT_POWER.
_NO_POWER = pattern(r"NVRM: .*does not have the necessary power cables connected")
# open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c, of a GPU whose registers read as ones alone;
# Linux, drivers/pci/pci.c, pci_power_up. One that falls off the bus while it is in use has an Xid of its own.
_NO_ANSWER = pattern(
    r"NVRM: .*fallen off the bus and is not responding"
    r"|\bnvidia [0-9a-f:.]+: Unable to change power state from D3cold to D0, device inaccessible"
)
# open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c, nv_pci_probe.
_NO_ROOM = pattern(r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid|NVRM: BAR\d is 0M @ 0x0")


@check("DRV120", Cause.GPU_HARDWARE_FAULT, requires=_BEFORE)
def without_power(facts: Facts) -> Outcome:
    """A GPU has no power: a cable is not connected.

    What it means: the board is on the PCI bus, which feeds it a little, but its own power connector gets none or too
    little, so the driver does not start it.
    How it is seen: the driver does not list the GPU, and says in the kernel's log that the power cables are missing.
    What to do: switch the machine off and connect every power cable of the board, of the kind that it needs.
    """
    yield from _unstarted(
        facts.snapshot,
        _NO_POWER,
        "A GPU is not started, since its power cables are not connected",
        CONNECT_POWER,
    )


@check("DRV121", Cause.GPU_HARDWARE_FAULT, requires=_BEFORE)
def no_room_on_the_bus(facts: Facts) -> Outcome:
    """The machine has given a GPU no room for its memory on the PCI bus.

    What it means: a GPU shows its memory through windows (BARs) whose addresses the firmware, or the hypervisor, hands
    out. Where the room below 4 GiB is too small and none above it is used, the GPU gets none, and the module cannot
    drive it. It bears the cause of the hardware, since the machine has to be set up otherwise, and no other driver and
    no other kernel would find the GPU: it is on the bus and cannot be reached there.
    How it is seen: the driver does not list the GPU, and says in the kernel's log that a region is invalid.
    What to do: turn on "Above 4G Decoding" in the firmware, or let the kernel hand the addresses out anew; for a
    virtual machine give it a larger 64-bit window.
    """
    yield from _unstarted(
        facts.snapshot,
        _NO_ROOM,
        "A GPU cannot be driven: the machine's firmware has given its memory no room on the PCI bus",
        GIVE_ROOM,
    )


@check("DRV122", Cause.GPU_HARDWARE_FAULT, requires=(*_BEFORE, "DRV120", "DRV121"))
def does_not_answer(facts: Facts) -> Outcome:
    """A GPU is on the PCI bus and answers no more.

    What it means: the kernel counted the GPU when it started, and the driver gets nothing but ones from it: it fell off
    the bus, lost its power, or did not wake from the deepest sleep (D3cold), into which laptops send it. Where it is
    the only GPU, the module does not even stay loaded, and loading it again brings the same.
    How it is seen: the driver does not list the GPU, and it or the kernel's PCI code says so in the kernel's log.
    What to do: switch the machine off wholly and on again, which a restart may not do; where it comes back, keep the
    GPU out of the deepest sleep, and check seating, power and cooling.
    """
    if hardware_lines(facts.snapshot):
        return  # an event tells of it
    yield from _unstarted(facts.snapshot, _NO_ANSWER, "A GPU on the PCI bus does not answer", WAKE_UP)


def _unstarted(snapshot: Snapshot, words: re.Pattern[str], title: str, fixes: tuple[Fix, ...]) -> Outcome:
    """In a container the log is the host's, and a GPU that is not started is none of those that it was given."""
    lines, missing = lines_with(snapshot, words), left_out(snapshot)
    if not lines or not missing or contained(snapshot):
        return
    devices = tuple(
        Evidence(f"PCI device {d.pci}", "not listed by the driver", "/sys/bus/pci/devices") for d in missing
    )
    yield Symptom(
        title,
        lines + devices + readings(snapshot, "driver.version") + source(snapshot, "nvml"),
        fixes,
        Severity.WARNING if driver_sees_gpu(snapshot) and not _keeps_cuda_from_all(snapshot) else Severity.ERROR,
    )


def _keeps_cuda_from_all(snapshot: Snapshot) -> bool:
    """Whether CUDA starts for no GPU, the others included, and nothing else that was read explains that.

    After a sleep it is the module of CUDA's memory that has lost its state, and a GPU in MIG mode may have no instance.
    """
    if snapshot.driver.cuda_init.value not in _OF_A_GPU or any(gpu.mig.value for gpu in snapshot.gpus):
        return False
    return not (snapshot.driver.cuda_init.value == Cuda.UNKNOWN and snapshot.host.suspends.value)

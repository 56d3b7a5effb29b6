"""The GPUs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.doctor.evidence import event_evidence, source
from gpuenv.doctor.fixes.gpus import called, option_of, resets
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check, grave_if_needed
from gpuenv.model.causes import Cause
from gpuenv.model.codes import Nvml
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpu import Gpu
from gpuenv.model.identity import pci_key


@check("GPU203", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201"))
def gpu_lost(facts: Facts) -> Outcome:
    """A GPU has fallen off the bus, or cannot be opened.

    What it means: the driver lists the GPU but cannot talk to it any more. Power, heat, seating or a defect are the
    usual causes; the other GPUs may work on.
    How it is seen: NVML answers GPU_IS_LOST, or another error, when the GPU is opened; RESET_REQUIRED is one of them.
    What to do: read the Xid messages in the kernel's log; reset a GPU of which NVML asks for it; switch off and on
    again; if it comes back, have it replaced.
    """
    lost = [gpu for gpu in facts.snapshot.gpus if gpu.fault.known]
    if not lost:
        return
    to_reset = all(gpu.fault.value == Nvml.RESET_REQUIRED for gpu in lost)
    reset = "End every program on it, then reset it."
    yield Symptom(
        f"{', '.join(map(called, lost))} {_state(lost, to_reset=to_reset)}",
        tuple(
            Evidence(f"NVML's return code for {_place(gpu)}", str(gpu.fault.value), "nvmlDeviceGetHandleByIndex")
            for gpu in lost
        )
        + event_evidence(facts.snapshot)
        + source(facts.snapshot, "libcuda"),
        (
            *(resets(reset, map(option_of, lost)) if to_reset else ()),
            Fix("Look for Xid messages of the driver in the kernel's log.", ("sudo", "dmesg")),
            Fix("Switch the machine off and on again; if it comes back, have the GPU replaced."),
        ),
        grave_if_needed(facts) if facts.snapshot.driver.cuda_init.value == 0 else Severity.ERROR,
    )


def _state(lost: Sequence[Gpu], *, to_reset: bool) -> str:
    plural = len(lost) > 1
    if to_reset:
        return "need a reset before they can be used" if plural else "needs a reset before it can be used"
    if any(gpu.fault.value == Nvml.GPU_IS_LOST for gpu in lost):
        return f"{'have' if plural else 'has'} fallen off the bus"
    return "cannot be opened"


def _place(gpu: Gpu) -> str:
    """Its index, and the address by which the kernel's log and the chassis know it."""
    address = pci_key(gpu.pci.value)
    numbered = "GPU" if gpu.index.value is None else f"GPU {gpu.index.value}"
    return f"{numbered}{f' at {address}' if address else ''}"

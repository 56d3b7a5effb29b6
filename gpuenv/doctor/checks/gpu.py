"""GPUs that are there and broken: by NVML, and by the kernel's log."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.doctor.evidence import event_evidence, hardware_lines, source
from gpuenv.doctor.fixes.gpus import called, option_of, resets
from gpuenv.doctor.predicates import contained
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, Symptom, check, grave_if_needed
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import HARDWARE, Nvml, pci_key
from gpuenv.model.snapshot import Gpu, KernelMessage, Snapshot


@check("GPU209", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201", "CTR301"))
def hardware_events(facts: Facts) -> Outcome:
    """The kernel's log has a hardware event of a GPU since the machine was started.

    What it means: the driver reports faults as Xid events. Many are brought about by an application and mean nothing
    for the next one; these are of the GPU's memory, its link or its power, after which it needs a reset or a look.
    How it is seen: the lines of the kernel's log with an Xid number that NVIDIA's catalogue resolves by a reset, a
    restart or a look at the board. Where the log cannot be read, this is not known.
    What to do: reset the GPU or restart the machine; where the event comes back, check seating, power and cooling, and
    have the GPU replaced.
    """
    snapshot = facts.snapshot
    if snapshot.kernel_log.value is None:
        yield NotKnown(snapshot.kernel_log.reason or "the kernel's log cannot be read")
        return
    if any(gpu.fault.known for gpu in snapshot.gpus):
        return  # NVML tells of the same GPU
    events = [event for event in hardware_lines(snapshot) if _is_ours(event, snapshot)]
    if not events:
        return
    kinds = dict.fromkeys(f"Xid {event.xid} ({HARDWARE[event.xid]})" for event in events if event.xid)
    named = dict.fromkeys(_label(event, snapshot) for event in events)
    yield Symptom(
        f"The kernel's log has a hardware event of {' and '.join(named)}: {', '.join(kinds)}",
        event_evidence(snapshot),
        (
            Fix("Restart the machine."),
            *resets("Or reset this GPU, where nobody uses it.", (event.pci for event in events)),
            Fix("Where it comes back, check seating, power and cooling, and have the GPU replaced."),
        ),
        Severity.ERROR if snapshot.driver.cuda_init.value else Severity.WARNING,
    )


def _is_ours(event: KernelMessage, snapshot: Snapshot) -> bool:
    """Inside a container the log is the host's, and a GPU that was not given to it is not its affair."""
    if not contained(snapshot) or snapshot.driver.cuda_init.value:
        return True
    return event.pci in {pci_key(gpu.pci.value) for gpu in snapshot.gpus}


def _label(event: KernelMessage, snapshot: Snapshot) -> str:
    same = (gpu for gpu in snapshot.gpus if event.pci and pci_key(gpu.pci.value) == event.pci)
    name = next((gpu.name.value for gpu in same if gpu.name.value), "the GPU")
    return f"{name} at {event.pci}" if event.pci else name


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
    """The index, and the address by which the kernel's log and the chassis identify it."""
    address = pci_key(gpu.pci.value)
    numbered = "GPU" if gpu.index.value is None else f"GPU {gpu.index.value}"
    return f"{numbered}{f' at {address}' if address else ''}"

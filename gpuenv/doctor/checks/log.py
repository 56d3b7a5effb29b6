"""What the kernel's log says of the GPUs."""

from __future__ import annotations

from gpuenv.doctor.evidence import event_evidence, hardware_lines
from gpuenv.doctor.fixes.gpus import resets
from gpuenv.doctor.predicates import contained
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix, Severity
from gpuenv.model.identity import pci_key
from gpuenv.model.snapshot import KernelMessage, Snapshot
from gpuenv.model.xid import HARDWARE


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

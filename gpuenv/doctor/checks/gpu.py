"""The GPUs themselves."""

from __future__ import annotations

from gpuenv.doctor.events import event_evidence
from gpuenv.doctor.evidence import fact, source
from gpuenv.doctor.machine import driver_sees_gpu, nvidia_on_bus
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.matrix.products import product_by_pci
from gpuenv.matrix.support import branch_of, branches_for
from gpuenv.model.causes import Cause
from gpuenv.model.codes import Nvml
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.identity import pci_key


@check("GPU203", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201"))
def gpu_lost(facts: Facts) -> Outcome:
    """A GPU has fallen off the bus, or cannot be opened.

    What it means: the driver lists the GPU but cannot talk to it any more. Power, heat, seating or a defect are the
    usual causes; the other GPUs may work on.
    How it is seen: NVML answers GPU_IS_LOST, or another error, when the GPU is opened.
    What to do: read the Xid messages in the kernel's log; switch off and on again; if it comes back, have it replaced.
    """
    lost = [gpu for gpu in facts.snapshot.gpus if gpu.fault.known]
    if not lost:
        return
    named = ", ".join(str(gpu.name.value or gpu.pci.value or f"GPU {gpu.index.value}") for gpu in lost)
    fallen = any(gpu.fault.value == Nvml.GPU_IS_LOST for gpu in lost)
    yield Symptom(
        f"{named} {'has fallen off the bus' if fallen else 'cannot be opened'}",
        tuple(
            Evidence(
                f"NVML's return code for GPU {gpu.index.value}", str(gpu.fault.value), "nvmlDeviceGetHandleByIndex"
            )
            for gpu in lost
        )
        + event_evidence(facts.snapshot)
        + source(facts.snapshot, "libcuda"),
        (
            Fix("Look for Xid messages of the driver in the kernel's log.", ("sudo", "dmesg")),
            Fix("Switch the machine off and on again; if it comes back, have the GPU replaced."),
        ),
        Severity.WARNING if facts.snapshot.driver.cuda_init.value == 0 else Severity.ERROR,
    )


@check(
    "GPU204",
    Cause.GPU_REMOVED_FROM_DRIVER,
    Cause.GPU_TOO_NEW_FOR_DRIVER,
    requires=("DRV100", "GPU201", "GPU202", "CTR301", "CTR305"),
)
def gpu_unknown_to_driver(facts: Facts) -> Outcome:
    """The driver branch does not support the GPU: not any more, or not yet.

    What it means: each driver branch drives a range of generations. A GPU on the bus that the driver does not list is
    outside that range.
    How it is seen: the PCI bus has a GPU that the driver does not list, and its generation left support before this
    branch or came after it. Where it is the only GPU, the kernel module does not even stay loaded.
    What to do: install the last branch that supports an old GPU, or a newer one for a new GPU.
    """
    snapshot, matrix = facts.snapshot, facts.matrix
    driver = snapshot.driver.version.value
    if driver is None:
        return
    listed = {pci_key(gpu.pci.value) for gpu in snapshot.gpus}
    for device in nvidia_on_bus(snapshot) or ():
        product = product_by_pci(device.device, matrix)
        if product is None or pci_key(device.pci) in listed:
            continue
        row = branches_for(product.compute_capability, matrix)
        branch = branch_of(driver, matrix)
        wanted = row.wants(branch) if row else None
        if row is None or wanted is None:
            continue
        old = row.last is not None and branch > row.last
        yield Symptom(
            f"Driver branch {driver.branch} does not support {product.name} {'any more' if old else 'yet'}",
            fact("driver.version", snapshot.driver.version)
            + (Evidence(f"PCI device {device.pci}", f"10de:{device.device}", matrix.cite(product.source)),)
            + (Evidence("needed", wanted, row.source),),
            (Fix(f"Install a driver of {wanted}."),),
            Severity.WARNING if driver_sees_gpu(snapshot) else Severity.ERROR,
            Cause.GPU_REMOVED_FROM_DRIVER if old else Cause.GPU_TOO_NEW_FOR_DRIVER,
        )

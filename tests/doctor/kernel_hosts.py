"""Machines with one working GPU, and messages of their kernels."""

from __future__ import annotations

from gpuenv.model.finding import Finding
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    Container,
    DeviceNode,
    Driver,
    Gpu,
    Host,
    KernelMessage,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
)
from gpuenv.model.versions import DriverVersion
from tests.support.diagnosis import diagnosis_of

KERNEL = "6.8.0-45-generic"
BUS = (PciGpu("0000:01:00.0", "10de", "2684", "AD102", None),)


def findings(snapshot: Snapshot) -> list[Finding]:
    """Findings of the driver, the GPU and the container, without those of the target."""
    all_findings = diagnosis_of(snapshot).findings
    return [finding for finding in all_findings if finding.code.startswith(("DRV", "GPU", "CTR"))]


def log(*lines: str, xid: int | None = None, pci: str = "0000:01:00.0") -> Reading[tuple[KernelMessage, ...]]:
    return known(tuple(KernelMessage(line, xid, pci if xid else None) for line in lines), "/dev/kmsg")


def working(*, cuda: int = 0, container: Container = Container.NONE) -> Snapshot:
    """A machine with one GPU that NVML lists."""
    return Snapshot(
        host=Host(os=known("linux", "uname"), container=known(container, "marks")),
        driver=Driver(
            version=known(DriverVersion.parse("550.163.01"), "nvml"),
            module=known(Module.LOADED, "/proc"),
            module_version=known(DriverVersion.parse("550.163.01"), "/proc"),
            nvml_init=known(0, "nvml"),
            cuda_init=known(cuda, "libcuda"),
            device_nodes=tuple(DeviceNode(f"/dev/nvidia{n}", True, "crw-rw-rw-", "0:0") for n in ("0", "ctl", "-uvm")),
        ),
        gpus=(Gpu(index=known(0, "nvml"), pci=known("0000:01:00.0", "nvml"), name=known("NVIDIA L4", "nvml")),),
        gpu_count=known(1, "nvml"),
        visible_count=known(1, "libcuda") if cuda == 0 else Reading(),
        pci_gpus=BUS,
        sources=tuple(Source(name, SourceState.ANSWERED) for name in ("kernel", "nvml", "libcuda")),
    )

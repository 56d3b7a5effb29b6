"""Is there an NVIDIA GPU, and is it hidden from this process?"""

from __future__ import annotations

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.kernel_module import let_through, switched_off
from gpuenv.doctor.predicates import probed
from gpuenv.doctor.registry import (
    NONE_EXPECTED,
    Absence,
    CheckContext,
    NotKnown,
    Outcome,
    Symptom,
    check,
    severity_for_unusable_gpu,
)
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import is_rocm, rocm_of
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import (
    accessible_gpus,
    bus_is_reliable,
    driver_nodes,
    driver_sees_gpu,
    is_contained,
    is_old_instance,
    nvidia_on_bus,
    parse_visible,
    uuids_of,
    visible_entries,
)
from gpuenv.model.nvidia import AMD, INTEL
from gpuenv.model.snapshot import Container, Module, Snapshot

_HIDING = ("", "none", "void")
_NO_REQUEST = "void"  # what the device plugin of Kubernetes sets for a pod that asked for no GPU
_PERHAPS_OFF = Fix(
    "Where this one has an NVIDIA GPU all the same: the line alias nvidia off is in a file of modprobe's, by which "
    "programs switch a laptop's GPU off. Switch it on with the program that wrote it."
)
_OF_PROCESSORS = frozenset((INTEL, AMD))


@check(
    "GPU201",
    Cause.NO_NVIDIA_GPU,
    Cause.ROCM_MISMATCH,
    Cause.DRIVER_MODULE_NOT_LOADED,
    requires=("DRV101",),
    absence=Absence.GPU,
)
def no_nvidia_gpu(ctx: CheckContext) -> Outcome:
    """The machine has no NVIDIA GPU.

    What it means: the PCI bus has no device of NVIDIA's, and no library of the driver shows a GPU either. CuPy cannot
    compute here; a CUDA toolkit on the machine does not change that.
    Where AMD's driver shows a GPU and the CuPy in the target is one for CUDA, or for another ROCm than the one that is
    there, the two do not fit each other.
    How it is seen: the kernel's list of PCI devices, and AMD's nodes in it. Under WSL and on Jetson boards the GPU is
    not on the PCI bus, and there this is not asked; macOS itself says it, for which there is no driver. In a container
    the bus may be hidden: where NVIDIA's module is loaded, or the kernel is a sandbox's, an empty one tells nothing.
    Where a file of modprobe's bears the line by which programs switch a laptop's NVIDIA GPU off, it may be there: some
    of them take it off the bus as well. It is taken for so where the driver's module is installed beside a processor's
    own GPU; else the file is named, and the machine has none.
    What to do: work on a machine that has one. For a virtual machine or a cloud instance, choose a type with a GPU; for
    a job, ask the scheduler for one. For an AMD GPU, build CuPy for ROCm from its source.
    """
    snapshot = ctx.snapshot
    if ctx.needs.gpus_absent and not snapshot.amd_gpus:
        yield _none(evidence_of(snapshot, "gpu_count"))
        return
    if driver_sees_gpu(snapshot) or snapshot.host.wsl.value or ctx.needs.tegra:
        return
    if snapshot.host.os.value == "darwin":
        # CUDA Toolkit Release Notes 12.1, table 1: its platforms are Linux, Windows and WSL (read November 2026).
        yield Symptom(
            "There is no NVIDIA GPU that CUDA could use: it has no driver for macOS",
            evidence_of(snapshot, "host.os", "host.arch"),
            (
                Fix("Use a machine with Linux or Windows and an NVIDIA GPU: another host, or an instance in a cloud."),
                NONE_EXPECTED,
            ),
        )
        return
    of_amd = bool(snapshot.amd_gpus) and not snapshot.gpus
    if of_amd and (ctx.needs.gpus_absent or snapshot.source("kernel").state.value == "not-asked"):
        yield _nothing(snapshot)
        return
    on_bus = nvidia_on_bus(snapshot)
    if on_bus is None:
        yield NotKnown("the PCI bus is not to be seen from here")
        return
    if on_bus or driver_nodes(snapshot):
        return
    if bus_is_reliable(snapshot):
        yield _nothing(snapshot)
    elif snapshot.host.sandbox.known:
        yield NotKnown(f"the PCI bus that {snapshot.host.sandbox.value} shows is not the host's")


def _nothing(snapshot: Snapshot) -> Symptom:
    others = ", ".join(gpu.name or f"{gpu.vendor}:{gpu.device}" for gpu in snapshot.pci_gpus or ()) or "none"
    evidence = [Evidence("display and 3D controllers on the PCI bus", others, "/sys/bus/pci/devices")]
    evidence += [
        Evidence(
            "toolkits", f"CUDA {kit.toolkit.value} in {kit.path}", "not to the point: a toolkit is no GPU and no driver"
        )
        for kit in snapshot.toolkits
    ]
    amd = tuple(dict.fromkeys(gpu.gfx or gpu.name or f"node {gpu.node}" for gpu in snapshot.amd_gpus))
    if amd:
        return _amd(snapshot, ", ".join(amd), tuple(evidence))
    off = tuple(Evidence("driver.module_blocks", block, "modprobe.d") for block in switched_off(snapshot))
    # NVIDIA's module is installed next to a processor's own GPU; elsewhere such a file is a leftover.
    laptop = not _OF_PROCESSORS.isdisjoint(gpu.vendor for gpu in snapshot.pci_gpus or ())
    if off and laptop and snapshot.driver.module.value is Module.NOT_LOADED:
        return Symptom(
            "No NVIDIA GPU is on the PCI bus, and a file of modprobe's is there by which one is switched off",
            off + tuple(evidence[:1]),
            (*let_through(snapshot), NONE_EXPECTED),
            cause=Cause.DRIVER_MODULE_NOT_LOADED,
        )
    return _none(off + tuple(evidence), (_PERHAPS_OFF,) if off else ())


def _none(evidence: tuple[Evidence, ...], more: tuple[Fix, ...] = ()) -> Symptom:
    return Symptom(
        "This machine has no NVIDIA GPU",
        evidence,
        (
            Fix("Use a machine with an NVIDIA GPU: another host or instance type, or a job that asks for one."),
            *more,
            NONE_EXPECTED,
        ),
    )


def _amd(snapshot: Snapshot, kinds: str, evidence: tuple[Evidence, ...]) -> Symptom:
    """The GPU is AMD's: a CuPy for CUDA cannot use it, and one for ROCm is not for this program to examine."""
    for_cuda = [entry for entry in snapshot.target.cupy if not is_rocm(entry.distribution)]
    installed = tuple(Evidence("target.cupy", e.label, "its metadata") for e in for_cuda)
    nodes = tuple(
        Evidence("amd_gpus", f"{gpu.gfx or gpu.name} at {gpu.pci or 'an unknown place'}", "/sys/class/kfd")
        for gpu in snapshot.amd_gpus
    )
    title = f"This machine has no NVIDIA GPU, but AMD's {kinds}"
    # A line is for one minor release of ROCm.
    there = (snapshot.rocm.value or "").split(".")[:2]
    lines = ((entry, rocm_of(entry.distribution)) for entry in snapshot.target.cupy if there != [""] and not for_cuda)
    other = next((entry for entry, wanted in lines if wanted and wanted.split(".") != there), None)
    if other is not None:
        title = f"{other.distribution} is for another ROCm than the {snapshot.rocm.value} that is there"
        installed = (Evidence("target.cupy", other.label, "its metadata"),)
    return Symptom(
        f"{title}, which {for_cuda[0].distribution} cannot use" if for_cuda else title,
        nodes + installed + evidence_of(snapshot, "rocm") + evidence,
        (
            Fix("Build CuPy for ROCm from its source: CuPy's installation guide, Using CuPy on AMD GPU."),
            Fix("Or use a machine with an NVIDIA GPU; gpuenv examines those alone."),
        ),
        cause=Cause.ROCM_MISMATCH if for_cuda or other else None,
    )


def _hidden(snapshot: Snapshot, told: str) -> Symptom:
    instances = [instance.uuid for gpu in snapshot.gpus for instance in gpu.mig_instances]
    of_mig = told.startswith("MIG-") and any(gpu.mig.value for gpu in snapshot.gpus)
    return Symptom(
        f"CUDA_VISIBLE_DEVICES={told or '(empty)'} "
        + ("names no MIG instance that is there" if of_mig else "hides every GPU"),
        _evidence(snapshot, told)
        + tuple(Evidence("a MIG instance that is there", uuid, "nvml") for uuid in instances[:7]),
        (
            Fix("Unset it for this command.", ("env", "-u", "CUDA_VISIBLE_DEVICES", "gpuenv", "doctor")),
            Fix(
                "Or name a MIG instance that is there, by its UUID."
                if of_mig and instances
                else f"Or name GPUs that are there: {_names(snapshot)}."
            ),
        ),
        cause=Cause.MIG_MISCONFIGURED if of_mig else None,
    )


def _cut_short(ctx: CheckContext, told: str) -> Outcome:
    """A list of which CUDA reads only the beginning."""
    snapshot = ctx.snapshot
    counted = accessible_gpus(snapshot.gpus)
    found = parse_visible(
        told.rstrip(", "), len(counted), uuids_of(counted)
    )  # nothing stands behind a comma at the end
    instances = [entry for entry in found.entries if entry.startswith("MIG-")]
    if len(instances) > 1:
        yield Symptom(
            f"CUDA_VISIBLE_DEVICES names {len(instances)} MIG instances, and a CUDA program sees one of them",
            _evidence(snapshot, told),
            (Fix("Name one instance for each process.", ("env", f"CUDA_VISIBLE_DEVICES={instances[0]}", "python")),),
            Severity.WARNING,
            Cause.MIG_MISCONFIGURED,
        )
        return
    if found.invalid is None:
        return
    yield Symptom(
        f"CUDA_VISIBLE_DEVICES={told} ends for CUDA at {found.invalid or 'an empty entry'}, which names nothing",
        _evidence(snapshot, told),
        (Fix(f"Name GPUs that are there: {_names(snapshot)}."),),
        severity_for_unusable_gpu(ctx),
    )


def _names(snapshot: Snapshot) -> str:
    last = len(accessible_gpus(snapshot.gpus)) - 1
    return f"0 to {last}, or their UUIDs" if last > 0 else "0, or its UUID"


def _evidence(snapshot: Snapshot, told: str) -> tuple[Evidence, ...]:
    return (Evidence("environment.CUDA_VISIBLE_DEVICES", repr(told), "the environment"),) + evidence_of(
        snapshot, "gpu_count", "visible_count"
    )


@check(
    "GPU202", Cause.VISIBLE_DEVICES_HIDE_GPU, Cause.MIG_MISCONFIGURED, requires=("DRV100", "GPU201"), of_process=True
)
def hidden_by_variable(ctx: CheckContext) -> Outcome:
    """CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hides every GPU.

    What it means: the machine has a GPU and its driver works, but a variable tells CUDA, or the container engine, to
    show none of them, or names one that does not exist.
    How it is seen: NVML counts GPUs while libcuda counts none, and no entry of CUDA_VISIBLE_DEVICES names a GPU or a
    MIG instance that is there; or libcuda counts fewer than the variable names, because CUDA reads it only up to an
    entry that names nothing; or the container was started with NVIDIA_VISIBLE_DEVICES empty, none or void and has no
    device nodes.
    What to do: unset the variable, or set it to a GPU that is there, where the shell, the job script, the notebook or
    the container sets it.
    """
    snapshot = ctx.snapshot
    variables = snapshot.environment
    told = variables.get("CUDA_VISIBLE_DEVICES")
    nothing_seen = snapshot.visible_count.value == 0 and driver_sees_gpu(snapshot)
    if told is not None and nothing_seen and (visible_entries(told, snapshot.gpus) == 0 or is_old_instance(told)):
        yield _hidden(snapshot, told)
    elif told and snapshot.gpu_count.source == "nvml" and (snapshot.visible_count.value or 0) > 0:
        yield from _cut_short(ctx, told)
    elif told is not None and not probed(snapshot) and not snapshot.gpus:
        first = told.split(",", maxsplit=1)[0].strip()
        if not first or first.startswith("-"):  # the list ends at its first entry, on any machine
            yield _hidden(snapshot, told)
    mounted = variables.get("NVIDIA_VISIBLE_DEVICES")
    if mounted == _NO_REQUEST and snapshot.host.container.value is Container.KUBERNETES:
        return  # the pod asked for no GPU: that is a matter of its specification
    kept_out = is_contained(snapshot) and not driver_nodes(snapshot) and not driver_sees_gpu(snapshot)
    if mounted in _HIDING and kept_out:
        yield Symptom(
            f"NVIDIA_VISIBLE_DEVICES={mounted or '(empty)'} keeps every GPU out of this container",
            (Evidence("environment.NVIDIA_VISIBLE_DEVICES", repr(mounted), "the environment"),)
            + evidence_of(snapshot, "host.container"),
            (Fix("Start the container with NVIDIA_VISIBLE_DEVICES=all, or name the GPUs it shall have."),),
        )

"""Checks of GPUs that work, but not as they should: pending modes, slow links, low limits, closed device nodes.

Each fact is documented in NVIDIA's NVML API Reference, Device Queries and Grid Licensable Features (R590).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.gpus import gpu_label, reset_fixes, smi_selector
from gpuenv.doctor.predicates import is_open_to_all
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check, severity_for_unusable_gpu
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import DeviceNode, Gpu, Snapshot, Virtualization
from gpuenv.model.strings import pattern

_REQUIRES = ("DRV100", "GPU201", "GPU202", "GPU203")
_NARROW = 4  # a link of at most this fraction of its lanes is broken; a slot or a switch often halves them
_LOW = 2  # a limit of less than this fraction of the vendor's is a mistake or a fault; sites often set three quarters
_GPU_NODE = pattern(r"/dev/nvidia\d+")


def _opened(snapshot: Snapshot) -> Iterator[tuple[str, Gpu]]:
    """The GPUs that NVML opened, with their paths in the snapshot."""
    return ((f"gpus[{index}]", gpu) for index, gpu in enumerate(snapshot.gpus) if gpu.index.known)


@check("GPU213", Cause.MIG_MISCONFIGURED, requires=_REQUIRES)
def mig_mode_pending(ctx: CheckContext) -> Outcome:
    """MIG mode of a GPU changes with the next reset.

    What it means: MIG was enabled or disabled, and the GPU could not be reset at that time, mostly because a program or
    a service used it. Until the reset it works in its present mode; after it, programs see other devices.
    How it is seen: NVML's current and pending mode differ (nvmlDeviceGetMigMode).
    What to do: set the mode back; or end the programs on the GPU and reset it, or restart the machine, and create
    instances.
    """
    for path, gpu in _opened(ctx.snapshot):
        if gpu.mig.value is None or gpu.mig_pending.value in (None, gpu.mig.value):
            continue
        state = "enabled" if gpu.mig_pending.value else "disabled"
        back = Fix(
            "Keep the present mode.",
            ("sudo", "nvidia-smi", "-i", str(smi_selector(gpu)), "-mig", str(int(gpu.mig.value))),
        )
        yield Symptom(
            f"{gpu_label(gpu)}: MIG mode is pending: it will be {state} by the next reset",
            evidence_of(ctx.snapshot, f"{path}.mig", f"{path}.mig_pending"),
            (
                back,
                *reset_fixes("Or end every program on it, then reset it.", [smi_selector(gpu)]),
                *((_create_instance(gpu),) if gpu.mig_pending.value else ()),
            ),
            Severity.WARNING,
        )


def _create_instance(gpu: Gpu) -> Fix:
    """NVIDIA, MIG User Guide, Creating GPU Instances: profile 0 is the whole GPU."""
    text = "After the reset, create an instance of the whole GPU: without one, CUDA finds no device."
    return Fix(text, ("sudo", "nvidia-smi", "mig", "-i", str(gpu.index.value), "-cgi", "0", "-C"))


@check("GPU214", Cause.GPU_THROTTLED, requires=_REQUIRES)
def pcie_link_narrow(ctx: CheckContext) -> Outcome:
    """The PCIe link of a GPU has lost most of its lanes.

    What it means: copies between host and GPU take several times longer. A bad contact, a riser or a damaged slot is
    the usual cause. The generation of the link falls while the GPU is idle, its width mostly does not.
    How it is seen: the link has at most a quarter of the lanes that GPU and slot support together
    (nvmlDeviceGetCurrPcieLinkWidth, nvmlDeviceGetMaxPcieLinkWidth).
    What to do: reseat the board, replace the riser, or try another slot. An external enclosure has four lanes by
    design.
    """
    for path, gpu in _opened(ctx.snapshot):
        width, most = gpu.pcie.width.value, gpu.pcie.width_most.value
        if not width or not most or width * _NARROW > most:
            continue
        yield Symptom(
            f"{gpu_label(gpu)}: its PCIe link has {width} of {most} lanes",
            evidence_of(ctx.snapshot, f"{path}.pcie.width", f"{path}.pcie.width_most", f"{path}.pcie.generation"),
            (
                Fix("Power the machine off and reseat the board and its riser; try another slot."),
                Fix("Compare with the link while the GPU is busy.", ("nvidia-smi", "-q", "-d", "PCIE")),
            ),
            Severity.WARNING,
        )


@check("GPU215", Cause.GPU_THROTTLED, requires=_REQUIRES)
def power_limit_low(ctx: CheckContext) -> Outcome:
    """The power limit of a GPU is less than half of its default.

    What it means: under load the GPU lowers its clock to stay within the limit, so that programs run much slower. A
    limit was set and forgotten, a laptop runs on its battery, or a power cable or supply is too weak.
    How it is seen: the limit in force and the default (nvmlDeviceGetEnforcedPowerLimit,
    nvmlDeviceGetPowerManagementDefaultLimit).
    What to do: set the default limit, which is lost when the driver is unloaded; check the power supply.
    """
    for path, gpu in _opened(ctx.snapshot):
        limit, default = gpu.health.power_limit.value, gpu.health.power_limit_default.value
        if not limit or not default or limit * _LOW >= default:
            continue
        command = ("sudo", "nvidia-smi", "-i", str(smi_selector(gpu)), "-pl", f"{default:.0f}")
        yield Symptom(
            f"{gpu_label(gpu)}: its power limit is {limit:.0f} W, and {default:.0f} W by default",
            evidence_of(ctx.snapshot, f"{path}.health.power_limit", f"{path}.health.power_limit_default"),
            (Fix("Set the default limit.", command), Fix("If it stays low, check the power supply and its cables.")),
            Severity.WARNING,
        )


@check("GPU216", Cause.GPU_THROTTLED, requires=_REQUIRES)
def vgpu_unlicensed(ctx: CheckContext) -> Outcome:
    """A virtual GPU has no licence.

    What it means: a vGPU starts with full capability; without a licence its performance and functions are restricted
    more and more over time (NVIDIA, Virtual GPU Client Licensing User Guide).
    How it is seen: NVML reports a vGPU, and none of its features with a licence
    (nvmlDeviceGetGridLicensableFeatures_v4).
    What to do: set up the client's token or licence server, and start nvidia-gridd; its log has the reason.
    """
    for path, gpu in _opened(ctx.snapshot):
        if gpu.virtualization.value is Virtualization.VGPU and gpu.licensed.value is False:
            yield Symptom(
                f"{gpu_label(gpu)}: this virtual GPU has no licence and will be slowed down",
                evidence_of(ctx.snapshot, f"{path}.virtualization", f"{path}.licensed"),
                (
                    Fix("See why no licence was acquired.", ("sudo", "journalctl", "-u", "nvidia-gridd")),
                    Fix(
                        "Put the client's token in /etc/nvidia/ClientConfigToken, and restart nvidia-gridd.",
                        ("sudo", "systemctl", "restart", "nvidia-gridd"),
                    ),
                ),
                Severity.WARNING,
            )


@check("GPU217", Cause.GPU_HARDWARE_FAULT, requires=_REQUIRES)
def inforom_corrupt(ctx: CheckContext) -> Outcome:
    """The infoROM of a GPU is corrupt.

    What it means: the board's own memory keeps its serial number, its settings and its counts of errors. Programs run,
    but error counts and settings, such as ECC mode, may be lost or wrong.
    How it is seen: NVML verifies its checksums (nvmlDeviceValidateInforom) and answers that it is corrupted.
    What to do: restart the machine; if it is still corrupt, have the board repaired or replaced.
    """
    for path, gpu in _opened(ctx.snapshot):
        if gpu.health.inforom_valid.value is False:
            yield Symptom(
                f"{gpu_label(gpu)}: its infoROM is corrupt",
                evidence_of(ctx.snapshot, f"{path}.health.inforom_valid"),
                (Fix("Restart the machine; if it is still corrupt, have the board repaired or replaced."),),
                Severity.WARNING,
            )


@check("CTR308", Cause.DEVICE_NODE_PERMISSION, requires=("CTR304", "GPU201", "GPU202"))
def gpu_node_closed(ctx: CheckContext) -> Outcome:
    """This user may open only some of the GPUs.

    What it means: the device nodes of other GPUs belong to another user or group, so CUDA does not list these GPUs. On
    a shared machine this may be intended.
    How it is seen: CUDA works, and the mode and owner of a node /dev/nvidia0, /dev/nvidia1 and so on exclude this user.
    A scheduler or container engine that granted the others is not reported.
    What to do: ask the administrator for the node's group, or remove the rule that changes its mode.
    """
    snapshot = ctx.snapshot
    closed = [node for node in snapshot.driver.device_nodes if _is_closed(node)]
    if not closed or snapshot.driver.cuda_init.value != 0 or snapshot.grant.gpus.known:
        return
    yield Symptom(
        f"This user may not open {', '.join(node.path for node in closed)}: CUDA does not list "
        f"{'this GPU' if len(closed) == 1 else 'these GPUs'}",
        tuple(Evidence(node.path, f"{node.mode} {node.owner}", "/dev") for node in closed),
        (
            Fix("See who may open them.", ("ls", "-l", *(node.path for node in closed))),
            Fix("Add this user to the group that owns them, or remove the udev rule that changes their mode."),
        ),
        severity_for_unusable_gpu(ctx),
    )


def _is_closed(node: DeviceNode) -> bool:
    """Whether mode and owner of a GPU's node exclude this user; what a control group excludes is so by design."""
    return _GPU_NODE.fullmatch(node.path) is not None and not node.accessible and not is_open_to_all(node)

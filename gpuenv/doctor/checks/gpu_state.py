"""Checks of the state of GPUs: compute mode, memory, links, clock, pending modes, limits, licence, closed nodes.

Each fact is documented in NVIDIA's NVML API Reference, Device Queries and Grid Licensable Features (R590).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.gpus import SHOW_REMAPPING, gpu_label, is_slot_board, reset_fixes, smi_selector
from gpuenv.doctor.fixes.variables import select_fixes
from gpuenv.doctor.predicates import is_driver_probed, is_gpu_node, is_open_to_all
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check, severity_for_unusable_gpu
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import is_contained
from gpuenv.model.snapshot import SEVERE_THROTTLE_REASONS, ComputeMode, DeviceNode, Gpu, Snapshot, Virtualization

_REQUIRES = ("DRV100", "GPU201", "GPU202", "GPU203")
_EXCLUSIVE = (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD)
_MPS = "nvidia-cuda-mps"  # the kernel keeps 15 characters of nvidia-cuda-mps-server
_MPS_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
_RESETTABLE = ("rows_pending", "pages_pending", "ecc_uncorrected")
_FULL = 20  # a GPU is full if less than this fraction of its memory is free: 1/20
_BRIDGE_LINKS = 4
_COMPLETED = "completed"  # the registration of a GPU in an NVSwitch fabric
_NARROW = 4  # a link of at most this fraction of its lanes is broken; a slot or a switch often halves them
_LOW = 2  # a limit of less than this fraction of the vendor's is a mistake or a fault; sites often set three quarters


def _visible(snapshot: Snapshot) -> list[tuple[int, Gpu]]:
    """The GPUs that this process sees, with their index in the snapshot; without a probe of CUDA, those of NVML."""
    visible = [(index, gpu) for index, gpu in enumerate(snapshot.gpus) if gpu.ordinal.known]
    if visible or is_driver_probed(snapshot):
        return visible
    return [(index, gpu) for index, gpu in enumerate(snapshot.gpus) if gpu.index.known]


@check("GPU205", Cause.COMPUTE_MODE_EXCLUSIVE, requires=_REQUIRES)
def compute_mode(ctx: CheckContext) -> Outcome:
    """The GPU's compute mode excludes this process.

    What it means: in prohibited mode no process can compute on the GPU; in exclusive mode only one can, and another
    process already does. CUDA lists the GPU, then reports that all devices are busy or unavailable. Under MPS the one
    process is the MPS server, which lets other processes use the GPU.
    How it is seen: NVML reports the compute mode and the processes on the GPU.
    What to do: see whose process it is and wait for it, use another GPU, or set the mode to default.
    """
    visible = _visible(ctx.snapshot)
    closed = [(index, gpu) for index, gpu in visible if _closed(ctx.snapshot, gpu)]
    if not closed:
        return
    evidence = evidence_of(ctx.snapshot, *(f"gpus[{index}].compute_mode" for index, _ in closed))
    evidence += tuple(entry for index, gpu in closed for entry in _holders(index, gpu))
    prohibited = any(gpu.compute_mode.value is ComputeMode.PROHIBITED for _, gpu in closed)
    available = [gpu for _, gpu in visible if not _closed(ctx.snapshot, gpu)]
    fixes = [] if prohibited else [_wait_for(ctx.snapshot, closed)]
    fixes += select_fixes(ctx.snapshot, available[:1], "Use a GPU that is free, in this shell.")
    first = closed[0][1].index.value
    let = "Or let" if fixes else "Let"
    text = (
        f"{let} every process use it, until the next restart; ask the administrator first: the mode is set on purpose."
    )
    fixes.append(Fix(text, ("sudo", "nvidia-smi", "-i", str(first), "-c", "DEFAULT")))
    yield Symptom(
        f"{', '.join(gpu_label(gpu) for _, gpu in closed)}: "
        + ("the compute mode prohibits every use" if prohibited else "exclusive mode, and another process uses it"),
        evidence,
        tuple(fixes),
        Severity.WARNING if available else Severity.ERROR,
    )


def _wait_for(snapshot: Snapshot, closed: Sequence[tuple[int, Gpu]]) -> Fix:
    """A command that shows the processes on these GPUs, for which the user waits."""
    pids = [str(user.pid) for _, gpu in closed for user in gpu.users]
    if not pids or is_contained(snapshot):  # process ids are the host's
        return Fix("See which process uses it; wait for it, or end it if it is yours.", ("nvidia-smi",))
    text = "See whose process uses it; wait for it, or end it if it is yours."
    return Fix(text, ("ps", "-o", "user,pid,etime,args", "-p", ",".join(pids)))


def _closed(snapshot: Snapshot, gpu: Gpu) -> bool:
    mode = gpu.compute_mode.value
    if mode is ComputeMode.PROHIBITED:
        return True
    return mode in _EXCLUSIVE and bool(gpu.processes.value) and not _shared_by_mps(snapshot, gpu)


def _shared_by_mps(snapshot: Snapshot, gpu: Gpu) -> bool:
    """Whether the process on the GPU is MPS's server, by its name or by the variable."""
    if any((user.name or "").startswith(_MPS) for user in gpu.users):
        return True
    nameless = all(user.name is None for user in gpu.users)
    return nameless and (_MPS_VARIABLE in snapshot.environment or bool(snapshot.mps.daemon.value))


def _holders(index: int, gpu: Gpu) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            f"gpus[{index}].users",
            f"process {user.pid}{f' ({user.name})' if user.name else ''}"
            + (f", {user.memory >> 20} MiB" if user.memory is not None else ""),
            gpu.processes.source or "nvml",
        )
        for user in gpu.users[:4]
    )


@check("GPU206", Cause.GPU_HARDWARE_FAULT, requires=_REQUIRES)
def memory_errors(ctx: CheckContext) -> Outcome:
    """The GPU's memory has errors that need a reset, or that can no longer be repaired.

    What it means: a page to be retired or a row to be remapped stays in use until the GPU is reset; programs that use
    it end with an ECC error. A failed remapping means that no spare row is left, so the GPU must be replaced. Corrected
    errors are not a fault.
    How it is seen: NVML's counts of uncorrected errors since the driver was loaded, of retired pages and remapped rows.
    What to do: end the programs on the GPU and reset it, or restart the machine; if errors happen again, have it
    replaced.
    """
    for index, gpu in enumerate(ctx.snapshot.gpus):
        health, path = gpu.health, f"gpus[{index}].health"
        is_used = gpu.ordinal.known or not is_driver_probed(ctx.snapshot)
        severity = Severity.ERROR if is_used else Severity.WARNING
        if health.rows_failed.value:
            yield Symptom(
                f"{gpu_label(gpu)}: a memory row could not be remapped",
                evidence_of(ctx.snapshot, f"{path}.rows_failed", f"{path}.rows_uncorrected"),
                (Fix("Have the GPU replaced; do not use it until then."),),
                severity,
                hardware_fault=True,
            )
        elif waiting := [name for name in _RESETTABLE if getattr(health, name).value]:
            is_pending = bool(health.rows_pending.value or health.pages_pending.value)
            yield Symptom(
                f"{gpu_label(gpu)}: memory errors need a reset",
                evidence_of(ctx.snapshot, *(f"{path}.{name}" for name in waiting)),
                (
                    *reset_fixes("End every program on it, then reset it.", [smi_selector(gpu)]),
                    Fix("Or restart the machine; if errors happen again, have the GPU replaced."),
                    *((SHOW_REMAPPING,) if is_pending else ()),
                ),
                severity if is_pending else Severity.WARNING,
                hardware_fault=is_pending,
            )


@check("GPU207", Cause.GPU_THROTTLED, Cause.GPU_HARDWARE_FAULT, requires=_REQUIRES)
def nvlink_down(ctx: CheckContext) -> Outcome:
    """An NVLink of a GPU is down although all should be up.

    What it means: on an NVSwitch machine every link of a GPU leads to a switch: with one down, collective operations of
    several GPUs may fail. In a pair of GPUs with at most four links each, all links lead over the bridge; a link that
    is down costs bandwidth. Elsewhere links without a bridge are down by design.
    How it is seen: NVML reports that some links are up and others are not, while the fabric's registration is complete,
    or the GPU has few links; or that fewer links of a GPU are up than of another GPU of the same product.
    What to do: look for SXid and Xid messages in the kernel log; reseat the bridge of a pair; on an NVSwitch machine,
    restart it, and have the GPU or the baseboard serviced.
    """
    for index, gpu in enumerate(ctx.snapshot.gpus):
        down = [link.link for link in gpu.nvlinks if not link.active]
        if not down or len(down) == len(gpu.nvlinks) or not _should_all_be_up(gpu, ctx.snapshot):
            continue
        is_fabric, users = gpu.fabric.state.value == _COMPLETED, [g for g in ctx.snapshot.gpus if g.ordinal.known]
        is_used = gpu in users and len(users) > 1  # a process with one GPU uses no link
        yield Symptom(
            f"{gpu_label(gpu)}: {len(down)} of {len(gpu.nvlinks)} NVLinks are down",
            (Evidence(f"gpus[{index}].nvlinks", f"down: {', '.join(map(str, down))}", "nvml"),)
            + (evidence_of(ctx.snapshot, f"gpus[{index}].fabric.state") if gpu.fabric.state.known else ()),
            (
                Fix("Look for Xid and SXid messages of the driver in the kernel log.", ("sudo", "dmesg")),
                *(_FABRIC_LINK if is_fabric and not is_slot_board(gpu) else (_BRIDGE,)),
            ),
            Severity.ERROR if is_fabric and is_used else Severity.WARNING,
            Cause.GPU_HARDWARE_FAULT if is_fabric else None,
            hardware_fault=is_fabric,
        )


_BRIDGE = Fix("Power the machine off and reseat the NVLink bridge, if there is one.")
# The manual of nvidia-smi, nvlink --errorcounters; NVIDIA, Fabric Manager for NVSwitch Systems.
_FABRIC_LINK = (
    Fix("Show the error counts of the links.", ("nvidia-smi", "nvlink", "-e")),
    Fix("Read the fabric manager's log.", ("sudo", "journalctl", "-u", "nvidia-fabricmanager")),
    Fix("Restart the machine, which trains the links again; this ends all programs.", ("sudo", "reboot")),
    Fix("If the link stays down, have the GPU or the baseboard with its NVSwitches serviced."),
)


def _should_all_be_up(gpu: Gpu, snapshot: Snapshot) -> bool:
    """Whether a switch or a single bridge has all its links; or a GPU of the same product has more up."""
    if gpu.fabric.state.value == _COMPLETED or len(gpu.nvlinks) <= _BRIDGE_LINKS:
        return True
    twins = [other for other in snapshot.gpus if other.name.value == gpu.name.value]
    return any(sum(link.active for link in other.nvlinks) > sum(link.active for link in gpu.nvlinks) for other in twins)


_COOL = Fix("Cool it: check fans, dust and the room's temperature; a board without a fan needs a server's airflow.")
_CHECK_COOLING = Fix("Check fans, dust, the room's temperature and the power cables of the GPU.")


@check("GPU210", Cause.GPU_THROTTLED, requires=_REQUIRES)
def clock_throttled(ctx: CheckContext) -> Outcome:
    """Heat or the power supply throttles the GPU's clock.

    What it means: the GPU protects itself: it is too hot, or the board or the server signals that there is not enough
    power. Programs run several times slower. An idle GPU, or one at its power limit under load, is not affected.
    How it is seen: NVML's reasons for the clock: a thermal slowdown, a hardware slowdown or the power brake.
    What to do: check fans, dust, the room's temperature and the power cables; reduce the load on the server.
    """
    for index, gpu in enumerate(ctx.snapshot.gpus):
        severe = [reason for reason in gpu.health.throttle_reasons.value or () if reason in SEVERE_THROTTLE_REASONS]
        if not severe:
            continue
        yield Symptom(
            f"{gpu_label(gpu)}: its clock is throttled: {', '.join(severe)}",
            evidence_of(
                ctx.snapshot, *(f"gpus[{index}].health.{name}" for name in ("throttle_reasons", "temperature", "clock"))
            ),
            (
                Fix("Show its temperature and power.", ("nvidia-smi", "-q", "-d", "PERFORMANCE,TEMPERATURE,POWER")),
                _COOL if any("thermal" in reason for reason in severe) else _CHECK_COOLING,
            ),
            Severity.WARNING,
        )


@check("GPU208", Cause.GPU_BUSY, requires=(*_REQUIRES, "GPU205"), of_process=True)
def memory_full(ctx: CheckContext) -> Outcome:
    """Other processes use nearly all memory of the default GPU.

    What it means: a program that names no device uses the first one that CUDA lists. That GPU has little free memory,
    so allocations fail, though nothing is broken.
    How it is seen: NVML's free memory of CUDA device 0 is less than a twentieth of the total.
    What to do: choose another GPU with CUDA_VISIBLE_DEVICES, wait, or end the processes on it if they are yours.
    """
    visible = _visible(ctx.snapshot)
    for index, gpu in visible:
        total, free = gpu.memory_total.value, gpu.memory_free.value
        is_first = gpu.ordinal.value == 0 or len(visible) == 1
        if not is_first or gpu.mig.value or total is None or free is None or free * _FULL >= total:
            continue
        freest = max((other for _, other in visible), key=lambda other: other.memory_free.value or 0)
        has_free = freest is not gpu and (freest.memory_free.value or 0) > free
        text = "Use the GPU with the most free memory, in this shell."
        fixes = [*(select_fixes(ctx.snapshot, [freest], text) if has_free else ())]
        fixes.append(_wait_for(ctx.snapshot, [(index, gpu)]))
        yield Symptom(
            f"{gpu_label(gpu)}: {free >> 20} of {total >> 20} MiB are free",
            evidence_of(ctx.snapshot, f"gpus[{index}].memory_free") + _holders(index, gpu),
            tuple(fixes),
            Severity.WARNING,
        )


def _opened(snapshot: Snapshot) -> Iterator[tuple[str, Gpu]]:
    """The GPUs that NVML opened, with their paths in the snapshot."""
    return ((f"gpus[{index}]", gpu) for index, gpu in enumerate(snapshot.gpus) if gpu.index.known)


@check("GPU213", Cause.MIG_MISCONFIGURED, requires=_REQUIRES)
def mig_mode_pending(ctx: CheckContext) -> Outcome:
    """MIG mode of a GPU changes with the next reset.

    What it means: MIG was enabled or disabled, and the GPU could not be reset at that time, usually because a program
    or a service used it. Until the reset it works in its present mode; after it, programs see other devices.
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
    the usual cause. The generation of the link falls while the GPU is idle, its width usually does not.
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
    return is_gpu_node(node.path) and not node.accessible and not is_open_to_all(node)

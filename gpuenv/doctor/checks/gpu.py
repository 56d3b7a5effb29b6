"""Checks of GPUs that are broken, or that the driver does not support."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.doctor.driver_requirements import (
    BLACKWELL,
    PROPRIETARY,
    TURING,
    DriverRequirement,
    conflicting_gpus,
    driver_requirement,
    kind_for,
)
from gpuenv.doctor.evidence import evidence_of, hardware_event_evidence, hardware_events, log_evidence
from gpuenv.doctor.fixes.distributions import driver_package_fixes, other_kernel_modules_fixes
from gpuenv.doctor.fixes.gpus import SHOW_REMAPPING, gpu_label, is_slot_board, look_for_xid, reset_fixes, smi_selector
from gpuenv.doctor.fixes.kernel_module import excluded_gpu_fixes
from gpuenv.doctor.predicates import gpus_not_listed, machine_fails_cuda
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check, severity_for_unusable_gpu
from gpuenv.matrix.products import branch_of, generation_for, product_by_pci, product_near_pci
from gpuenv.matrix.tables import Matrix, Product
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_sees_gpu, is_contained
from gpuenv.model.nvidia import CONTACT_XIDS, FALLEN_OFF_THE_BUS, HARDWARE_XIDS, MEMORY_XIDS, Nvml, pci_key
from gpuenv.model.snapshot import Gpu, KernelMessage, PciGpu, Snapshot
from gpuenv.model.strings import pattern
from gpuenv.model.versions import DriverVersion


@check("GPU209", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201", "CTR301"))
def hardware_event_logged(ctx: CheckContext) -> Outcome:
    """The kernel log has a hardware event of a GPU since the machine was started.

    What it means: the driver reports faults as Xid events. Applications cause many of them, which do not affect the
    next program; these concern the GPU's memory, its link or its power, and need a reset or an inspection.
    How it is seen: the lines of the kernel log with an Xid number that NVIDIA's catalogue resolves by a reset, a
    restart or an inspection of the board. If the log cannot be read, the check is undetermined.
    What to do: reset the GPU, or restart the machine; after an error of its memory see whether the remapping failed. If
    the event happens again, check seating, power and cooling unless it concerns the memory, and have the GPU replaced.
    """
    snapshot = ctx.snapshot
    if snapshot.kernel_log.value is None:
        yield NotKnown(snapshot.kernel_log.reason or "the kernel log cannot be read")
        return
    if any(gpu.fault.known for gpu in snapshot.gpus):
        return  # NVML reports the same GPU
    names = {pci_key(gpu.pci.value): gpu.name.value for gpu in reversed(snapshot.gpus)}
    events = hardware_events(snapshot)
    if is_contained(snapshot) and not machine_fails_cuda(snapshot):  # the log is the host's, with all its GPUs
        events = tuple(event for event in events if event.pci in names)
    if not events:
        return
    kinds = dict.fromkeys(f"Xid {event.xid} ({HARDWARE_XIDS[event.xid]})" for event in events if event.xid)
    gpus = dict.fromkeys(f"{names.get(e.pci) or 'the GPU'} at {e.pci}" if e.pci else "the GPU" for e in events)
    yield Symptom(
        f"The kernel log has a hardware event of {' and '.join(gpus)}: {', '.join(kinds)}",
        hardware_event_evidence(snapshot),
        _event_fixes(snapshot, events),
        Severity.ERROR if machine_fails_cuda(snapshot) else Severity.WARNING,
    )


def _event_fixes(snapshot: Snapshot, events: Sequence[KernelMessage]) -> tuple[Fix, ...]:
    """Fixes, the least disruptive first; the board's seating matters only for faults of contact, power or heat."""
    xids = {event.xid for event in events}
    by_contact = not xids.isdisjoint(CONTACT_XIDS)
    again = "check seating, power and cooling, and " if by_contact else ""
    last = Fix(f"If it happens again, {again}have the GPU replaced.")
    if FALLEN_OFF_THE_BUS in xids:
        text = "Restart the machine; if the GPU is still missing, power it off and on. A reset has no effect."
        return (Fix(text), last)
    resets = reset_fixes("Reset this GPU, once no program uses it.", (event.pci for event in events))
    restart = Fix(f"{'Or restart' if resets else 'Restart'} {'the host' if is_contained(snapshot) else 'the machine'}.")
    remapping = () if xids.isdisjoint(MEMORY_XIDS) else (SHOW_REMAPPING,)
    return (*resets, restart, *remapping, last)


@check("GPU203", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201"))
def gpu_lost(ctx: CheckContext) -> Outcome:
    """A GPU has fallen off the bus, or cannot be opened.

    What it means: the driver lists the GPU but can no longer communicate with it. Power, heat, seating or a defect are
    the usual causes; the other GPUs may still work.
    How it is seen: NVML answers GPU_IS_LOST, RESET_REQUIRED or another error when it opens the GPU.
    What to do: read the Xid messages in the kernel log; reset the GPU if NVML requires it; power the machine off and
    on; if it happens again, have the GPU replaced.
    """
    lost = [gpu for gpu in ctx.snapshot.gpus if gpu.fault.known]
    if not lost:
        return
    to_reset = all(gpu.fault.value == Nvml.RESET_REQUIRED for gpu in lost)
    state = "cannot be opened"
    if to_reset:
        state = f"{'need' if len(lost) > 1 else 'needs'} a reset before {'they' if len(lost) > 1 else 'it'} can be used"
    elif any(gpu.fault.value == Nvml.GPU_IS_LOST for gpu in lost):
        state = f"{'have' if len(lost) > 1 else 'has'} fallen off the bus"
    # The index, and the address by which the kernel log and the chassis identify it.
    names = (
        "GPU"
        + ("" if g.index.value is None else f" {g.index.value}")
        + (f" at {key}" if (key := pci_key(g.pci.value)) else "")
        for g in lost
    )
    yield Symptom(
        f"{', '.join(map(gpu_label, lost))} {state}",
        tuple(
            Evidence(f"NVML's return code for {name}", str(gpu.fault.value), "nvmlDeviceGetHandleByIndex")
            for name, gpu in zip(names, lost, strict=True)
        )
        + hardware_event_evidence(ctx.snapshot)
        + evidence_of(ctx.snapshot, "libcuda"),
        (
            *(reset_fixes("End every program on it, then reset it.", map(smi_selector, lost)) if to_reset else ()),
            *look_for_xid(ctx.snapshot),
            Fix(f"Power the machine off and on; if it happens again, {_checks_before(lost)}have the GPU replaced."),
        ),
        severity_for_unusable_gpu(ctx) if _is_left_out(ctx.snapshot) else Severity.ERROR,
        hardware_fault=True,
    )


def _checks_before(lost: Sequence[Gpu]) -> str:
    """What can be checked on a board in a slot; a module on a baseboard has neither cable nor riser."""
    if not any(map(is_slot_board, lost)):
        return ""
    return "check its power cables, the power supply, its seating and riser, and only then "


def _is_left_out(snapshot: Snapshot) -> bool:
    """Whether CUDA works, and a variable names the GPUs to use, so that a lost one cannot reach this process."""
    return snapshot.driver.cuda_init.value == 0 and "CUDA_VISIBLE_DEVICES" in snapshot.environment


_KINDS = "NVIDIA, Driver Installation Guide, Kernel Modules"
# The driver's messages: open-gpu-kernel-modules, nv.c, and the strings of nv-kernel.o of the proprietary modules.
_NEEDS_OPEN = pattern(r"requires? (?:the )?use of the (?:\S*NVRM: )?NVIDIA open kernel modules")
_NEEDS_PROPRIETARY = pattern(r"not supported by open\b|does not include the required GPU|System Processor \(GSP\)")
_UNSUPPORTED_GPU = pattern(r"NVRM: .*is not supported by the")
# NVIDIA's driver, nv-kernel.o: of a GPU that a former branch drove; seen in public logs with 390, 470 and 580.
_LEGACY = pattern(r"NVRM:\s+supported through the NVIDIA (\d{1,4})\.xx Legacy drivers")
_ID = pattern(r"[0-9A-Fa-f]{1,4}")
_LOADED = pattern(r"NVRM: loading NVIDIA UNIX (Open )?")


@check(
    "GPU204",
    Cause.GPU_REMOVED_FROM_DRIVER,
    Cause.GPU_TOO_NEW_FOR_DRIVER,
    Cause.GPU_TOO_OLD_FOR_ANY_DRIVER,
    requires=("DRV100", "GPU201", "GPU202", "CTR301", "CTR305"),
)
def gpu_unknown_to_driver(ctx: CheckContext) -> Outcome:
    """The driver does not support the GPU: no longer, not yet, or not with this kind of kernel module.

    What it means: each driver branch supports a range of generations. It has two kinds of kernel modules: the open ones
    support Turing and newer, the proprietary ones everything before Blackwell and Grace Hopper.
    How it is seen: the PCI bus has a GPU that the driver does not list, and its generation lost support before this
    branch, came after it, or needs the other kind of modules; or the driver reports it in the kernel log. If it is the
    only GPU, the kernel module does not even stay loaded.
    What to do: install the last branch that supports an old GPU, or a newer one for a new GPU; or the other kind of
    kernel modules of the same branch.
    """
    found = False
    for device in gpus_not_listed(ctx.snapshot):
        product = product_by_pci(device.device, ctx.matrix)
        row = generation_for(product.compute_capability, ctx.matrix) if product else None
        if row is not None and _fixes_without_driver(row.last_branch, ctx.matrix) and driver_sees_gpu(ctx.snapshot):
            continue  # an old display card without any usable driver, next to GPUs that work
        symptom = _known_product(device, product, ctx) if product else _unknown_product(device, ctx)
        if symptom is not None:
            found = True
            yield symptom
    if not found and not driver_sees_gpu(ctx.snapshot):  # the log names the kind for a GPU that is in no table
        for regex, wants_open in ((_NEEDS_OPEN, True), (_NEEDS_PROPRIETARY, False)):
            if any(map(regex.search, _lines(ctx.snapshot))):
                yield _wrong_modules("the GPU", wants_open, ctx, ())
                return


@check("GPU218", Cause.SOURCES_DISAGREE, requires=("DRV100", "GPU201", "GPU203", "GPU204"))
def excluded_gpu(ctx: CheckContext) -> Outcome:
    """An option of the kernel module leaves out a GPU, while others work.

    What it means: NVreg_ExcludedGpus names the GPUs that the driver does not use, NVreg_AssignGpus the only ones that
    it uses. A GPU that is left out is on the PCI bus, but neither NVML nor CUDA lists it. This may be on purpose, so it
    is a note; if it is the only GPU, CUDA does not start, which is another finding (DRV113).
    How it is seen: /proc/driver/nvidia/gpus marks the GPU as excluded; or the driver does not list a GPU that is on the
    bus, and a file in modprobe.d or the kernel's command line has one of the options.
    What to do: if the GPU is wanted, remove it from the option, rebuild the initramfs, and restart.
    """
    snapshot = ctx.snapshot
    fixes, excluded = excluded_gpu_fixes(snapshot), snapshot.driver.excluded_gpus
    by_assignment = any("NVreg_AssignGpus" in line for line in snapshot.driver.module_options.value or ())
    addresses = excluded.value or ()
    if not addresses and (by_assignment or not excluded.known):
        addresses = tuple(device.pci for device in gpus_not_listed(snapshot))
    if not fixes or not addresses or not driver_sees_gpu(snapshot):
        return
    yield Symptom(
        f"An option of the kernel module leaves out {len(addresses)} of the GPUs on the bus: {', '.join(addresses)}",
        evidence_of(snapshot, "driver.excluded_gpus", "driver.module_options", "gpu_count"),
        fixes,
        Severity.NOTE,
    )


def _known_product(device: PciGpu, product: Product, ctx: CheckContext) -> Symptom | None:
    """A GPU whose generation needs another branch or the other kind of kernel modules."""
    snapshot, matrix, driver = ctx.snapshot, ctx.matrix, ctx.snapshot.driver.version.value
    row = generation_for(product.compute_capability, matrix)
    is_driven = pci_key(device.pci) in {pci_key(gpu.pci.value) for gpu in snapshot.gpus}
    if driver is not None and row is not None and not is_driven and (needed := row.wants(branch_of(driver, matrix))):
        old = row.last_branch is not None and branch_of(driver, matrix) > row.last_branch
        without_driver = _fixes_without_driver(row.last_branch, matrix)
        evidence = _device(device, matrix.cite(product.source)) + (Evidence("needed", needed, matrix.cite(row.source)),)
        fixes = without_driver or _other_branch(product.name, ctx)
        return _unsupported(ctx, driver, product.name, evidence, fixes, old=old, gone=bool(without_driver))
    if ctx.needs.tegra or (is_contained(snapshot) and driver_sees_gpu(snapshot)):
        return None
    # The kind of the loaded module, or of the last load in the kernel log.
    loads = [match[1] for line in _lines(snapshot) if (match := _LOADED.search(line))]
    by_log = ("open" if loads[-1] else "proprietary") if loads else None
    kind = snapshot.driver.flavor.value if snapshot.driver.flavor.known else by_log
    needed_kind = kind_for(product.compute_capability, snapshot)
    if kind is None or needed_kind in (None, kind):
        return None
    return _wrong_modules(product.name, needed_kind == "open", ctx, _device(device, _KINDS))


def _unsupported(  # noqa: PLR0913 - the parts of a finding
    ctx: CheckContext,
    driver: DriverVersion,
    name: str,
    evidence: tuple[Evidence, ...],
    fixes: tuple[Fix, ...],
    *,
    old: bool,
    gone: bool = False,
    more: str = "",
) -> Symptom:
    removed = Cause.GPU_TOO_OLD_FOR_ANY_DRIVER if gone else Cause.GPU_REMOVED_FROM_DRIVER
    return Symptom(
        f"Driver branch {driver.branch} does not support {name} {'any more' if old else 'yet'}{more}",
        evidence_of(ctx.snapshot, "driver.version") + evidence,
        fixes,
        _severity_of_unlisted(ctx.snapshot),
        removed if old else Cause.GPU_TOO_NEW_FOR_DRIVER,
    )


def _fixes_without_driver(last: int | None, matrix: Matrix) -> tuple[Fix, ...]:
    """A fix if the last branch for a GPU is older than any that CuPy supports; else empty."""
    if last is None or last >= min(row.branch for row in matrix.driver_branches):
        return ()
    return (Fix(f"Use another GPU: branch {last} was the last one for this GPU, and no known CuPy runs on it."),)


def _other_branch(name: str, ctx: CheckContext) -> tuple[Fix, ...]:
    """A branch that drives this GPU and every GPU that works; the user may not need this one."""
    snapshot, needed = ctx.snapshot, driver_requirement(ctx)
    if not needed.possible:
        return conflicting_gpus(ctx)
    keep = Fix(f"Or keep the driver, if you do not need {name}: the other GPUs work without it.")
    other = driver_package_fixes(snapshot, needed, exact=True)
    return (*other, keep) if driver_sees_gpu(snapshot) else other


def _wrong_modules(name: str, wants_open: bool, ctx: CheckContext, evidence: tuple[Evidence, ...]) -> Symptom:  # noqa: FBT001 - one of two kinds
    snapshot = ctx.snapshot
    used, needed = ("proprietary", "open") if wants_open else ("open", "proprietary")
    fixes = other_kernel_modules_fixes(snapshot, wants_open=wants_open)
    driven = [gpu.compute_capability.value for gpu in snapshot.gpus if gpu.index.known or gpu.ordinal.known]
    if any(c is not None and (c < TURING if wants_open else c >= BLACKWELL) for c in driven):  # they would stop working
        fixes = (Fix("Neither kind of kernel modules drives all these GPUs: use this one in another machine."),)
    lines = [line for line in _lines(snapshot) if (_NEEDS_OPEN if wants_open else _NEEDS_PROPRIETARY).search(line)]
    return Symptom(
        f"The driver's {used} kernel modules cannot drive {name}: it needs the {needed} ones",
        evidence_of(snapshot, "driver.flavor", "driver.version") + evidence + log_evidence(snapshot, lines[-2:]),
        conflicting_gpus(ctx) or fixes,
        _severity_of_unlisted(snapshot),
        Cause.GPU_TOO_NEW_FOR_DRIVER if wants_open else Cause.GPU_REMOVED_FROM_DRIVER,
    )


def _unknown_product(device: PciGpu, ctx: CheckContext) -> Symptom | None:
    """A GPU that is in no table and that the driver refuses, or for which it names the last branch."""
    snapshot, matrix, driver = ctx.snapshot, ctx.matrix, ctx.snapshot.driver.version.value
    name, refused = f"the GPU {device.device}", [line for line in _lines(snapshot) if _UNSUPPORTED_GPU.search(line)]
    if driver is not None and refused and _ID.fullmatch(device.device):
        near = product_near_pci(device.device, matrix)  # neighbouring PCI ids are of one generation
        row = generation_for(near.compute_capability, matrix) if near else None
        old = bool(row and row.last_branch is not None and branch_of(driver, matrix) > row.last_branch)
        cited = f"near {near.name}, by its id" if near else "newer than every known id"
        fix = Fix(f"Install {'an older' if old else 'a newer'} driver: see NVIDIA's list of supported products.")
        return _unsupported(
            ctx, driver, name, _device(device, cited) + log_evidence(snapshot, refused[-2:]), (fix,), old=old
        )
    matches = [(line, match) for line in _lines(snapshot) if (match := _LEGACY.search(line))]
    if not matches or driver is None or driver_sees_gpu(snapshot):
        return None
    branch = int(matches[-1][1][1])
    without_driver, evidence = _fixes_without_driver(branch, matrix), log_evidence(snapshot, [matches[-1][0]])
    needed = DriverRequirement(None, branch, frozenset((PROPRIETARY,)))
    fixes = without_driver or driver_package_fixes(snapshot, needed, exact=True)
    evidence, more = _device(device, "in no table") + evidence, f": it requires branch {branch}"
    return _unsupported(ctx, driver, name, evidence, fixes, old=True, gone=bool(without_driver), more=more)


def _device(device: PciGpu, cited: str) -> tuple[Evidence, ...]:
    return (Evidence(f"PCI device {device.pci}", f"10de:{device.device}", cited),)


def _lines(snapshot: Snapshot) -> list[str]:
    return [message.text for message in snapshot.kernel_log.value or ()]


def _severity_of_unlisted(snapshot: Snapshot) -> Severity:
    return Severity.WARNING if driver_sees_gpu(snapshot) else Severity.ERROR

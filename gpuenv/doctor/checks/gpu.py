"""GPUs that are broken or that the installed driver does not drive, and their state: mode, memory, links, clock."""

from __future__ import annotations

from itertools import islice

from gpuenv.doctor.driver_requirements import BLACKWELL, TURING, kind_for, no_one_driver, wanted
from gpuenv.doctor.evidence import event_evidence, evidence_of, hardware_lines, logged
from gpuenv.doctor.fixes.distributions import (
    family,
    older_driver,
    other_kernel_modules,
)
from gpuenv.doctor.fixes.gpus import called, option_of, resets, showing
from gpuenv.doctor.predicates import left_out, probed
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check, severity_for_unusable_gpu
from gpuenv.matrix.products import branch_of, branches_for, product_by_pci, product_near_pci
from gpuenv.matrix.tables import Matrix, Product
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_sees_gpu, is_contained
from gpuenv.model.nvidia import HARDWARE_XIDS, Nvml, pci_key
from gpuenv.model.snapshot import SEVERE_THROTTLE_REASONS, ComputeMode, Gpu, PciGpu, Snapshot
from gpuenv.model.strings import pattern
from gpuenv.model.versions import DriverVersion


@check("GPU209", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201", "CTR301"))
def hardware_events(ctx: CheckContext) -> Outcome:
    """The kernel's log has a hardware event of a GPU since the machine was started.

    What it means: the driver reports faults as Xid events. Many are brought about by an application and mean nothing
    for the next one; these are of the GPU's memory, its link or its power, after which it needs a reset or a look.
    How it is seen: the lines of the kernel's log with an Xid number that NVIDIA's catalogue resolves by a reset, a
    restart or a look at the board. Where the log cannot be read, this is not known.
    What to do: reset the GPU or restart the machine; where the event comes back, check seating, power and cooling, and
    have the GPU replaced.
    """
    snapshot = ctx.snapshot
    if snapshot.kernel_log.value is None:
        yield NotKnown(snapshot.kernel_log.reason or "the kernel's log cannot be read")
        return
    if any(gpu.fault.known for gpu in snapshot.gpus):
        return  # NVML tells of the same GPU
    names = {pci_key(gpu.pci.value): gpu.name.value for gpu in reversed(snapshot.gpus)}
    events = hardware_lines(snapshot)
    if is_contained(snapshot) and not snapshot.driver.cuda_init.value:  # the log is the host's, with GPUs of others
        events = tuple(event for event in events if event.pci in names)
    if not events:
        return
    kinds = dict.fromkeys(f"Xid {event.xid} ({HARDWARE_XIDS[event.xid]})" for event in events if event.xid)
    named = dict.fromkeys(f"{names.get(e.pci) or 'the GPU'} at {e.pci}" if e.pci else "the GPU" for e in events)
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


@check("GPU203", Cause.GPU_HARDWARE_FAULT, requires=("DRV100", "GPU201"))
def gpu_lost(ctx: CheckContext) -> Outcome:
    """A GPU has fallen off the bus, or cannot be opened.

    What it means: the driver lists the GPU but cannot talk to it any more. Power, heat, seating or a defect are the
    usual causes; the other GPUs may work on.
    How it is seen: NVML answers GPU_IS_LOST, or another error, when the GPU is opened; RESET_REQUIRED is one of them.
    What to do: read the Xid messages in the kernel's log; reset a GPU of which NVML asks for it; switch off and on
    again; if it comes back, have it replaced.
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
    # The index, and the address by which the kernel's log and the chassis identify it.
    places = (
        "GPU"
        + ("" if g.index.value is None else f" {g.index.value}")
        + (f" at {key}" if (key := pci_key(g.pci.value)) else "")
        for g in lost
    )
    yield Symptom(
        f"{', '.join(map(called, lost))} {state}",
        tuple(
            Evidence(f"NVML's return code for {place}", str(gpu.fault.value), "nvmlDeviceGetHandleByIndex")
            for place, gpu in zip(places, lost, strict=True)
        )
        + event_evidence(ctx.snapshot)
        + evidence_of(ctx.snapshot, "libcuda"),
        (
            *(resets("End every program on it, then reset it.", map(option_of, lost)) if to_reset else ()),
            Fix("Look for Xid messages of the driver in the kernel's log.", ("sudo", "dmesg")),
            Fix("Switch the machine off and on again; if it comes back, have the GPU replaced."),
        ),
        severity_for_unusable_gpu(ctx) if ctx.snapshot.driver.cuda_init.value == 0 else Severity.ERROR,
    )


_KINDS = "NVIDIA, Driver Installation Guide, Kernel Modules"
# As the driver words it: open-gpu-kernel-modules, nv.c, and the strings of nv-kernel.o of the proprietary modules.
_NEEDS_OPEN = pattern(r"requires? (?:the )?use of the (?:\S*NVRM: )?NVIDIA open kernel modules")
_NEEDS_PROPRIETARY = pattern(r"not supported by open\b|does not include the required GPU|System Processor \(GSP\)")
_REFUSED = pattern(r"NVRM: .*is not supported by the")
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
    """The driver does not support the GPU: not any more, not yet, or not with this kind of its kernel modules.

    What it means: each driver branch drives a range of generations, and of the two kinds of its kernel modules the open
    ones drive Turing and newer, the proprietary ones everything before Blackwell and Grace Hopper.
    How it is seen: the PCI bus has a GPU that the driver does not list, and its generation left support before this
    branch, came after it, or needs the other kind of modules; or the driver says so in the kernel's log. Where it is
    the only GPU, the kernel module does not even stay loaded.
    What to do: install the last branch that supports an old GPU, or a newer one for a new GPU; or the other kind of
    kernel modules of the same branch.
    """
    found = False
    for device in left_out(ctx.snapshot):
        product = product_by_pci(device.device, ctx.matrix)
        row = branches_for(product.compute_capability, ctx.matrix) if product else None
        if row is not None and _none_left(row.last, ctx.matrix) and driver_sees_gpu(ctx.snapshot):
            continue  # an old display card without any usable driver, next to GPUs that work
        symptom = _of_product(device, product, ctx) if product else _of_no_table(device, ctx)
        if symptom is not None:
            found = True
            yield symptom
    if not found and not driver_sees_gpu(ctx.snapshot):  # the log names the kind, of a GPU that is in no table
        kinds = ((_NEEDS_OPEN, True), (_NEEDS_PROPRIETARY, False))
        named = (wants_open for words, wants_open in kinds if any(map(words.search, _lines(ctx.snapshot))))
        yield from (_of_the_other_kind("the GPU", wants_open, ctx, ()) for wants_open in islice(named, 1))


def _of_product(device: PciGpu, product: Product, ctx: CheckContext) -> Symptom | None:
    """A GPU whose generation this branch does not drive, or that the other kind of kernel modules drives."""
    snapshot, matrix, driver = ctx.snapshot, ctx.matrix, ctx.snapshot.driver.version.value
    row = branches_for(product.compute_capability, matrix)
    taken = pci_key(device.pci) in {pci_key(gpu.pci.value) for gpu in snapshot.gpus}  # by this kernel module
    if driver is not None and row is not None and not taken and (needed := row.wants(branch_of(driver, matrix))):
        old, none_left = row.last is not None and branch_of(driver, matrix) > row.last, _none_left(row.last, matrix)
        evidence = _device(device, matrix.cite(product.source)) + (Evidence("needed", needed, row.source),)
        fixes = none_left or _other_branch(product.name, ctx)
        return _unsupported(ctx, driver, product.name, evidence, fixes, old=old, gone=bool(none_left))
    if ctx.needs.tegra or (is_contained(snapshot) and driver_sees_gpu(snapshot)):
        return None
    # The kind of the loaded module, or of the last load in the kernel's log.
    loads = [match[1] for line in _lines(snapshot) if (match := _LOADED.search(line))]
    by_log = ("open" if loads[-1] else "proprietary") if loads else None
    kind = snapshot.driver.flavor.value if snapshot.driver.flavor.known else by_log
    wanted_kind = kind_for(product.compute_capability, snapshot)
    if kind is None or wanted_kind in (None, kind):
        return None
    return _of_the_other_kind(product.name, wanted_kind == "open", ctx, _device(device, _KINDS))


def _unsupported(  # noqa: PLR0913 - what a finding of this check is made of
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
        _severity(ctx.snapshot),
        removed if old else Cause.GPU_TOO_NEW_FOR_DRIVER,
    )


def _none_left(last: int | None, matrix: Matrix) -> tuple[Fix, ...]:
    """What is left where the last branch for a GPU is older than any that a CuPy runs on; else empty."""
    if last is None or last >= min(row.branch for row in matrix.driver_branches):
        return ()
    return (Fix(f"Use another GPU: branch {last} was the last one for this, and no CuPy that is known runs on it."),)


def _other_branch(name: str, ctx: CheckContext) -> tuple[Fix, ...]:
    """One that drives this GPU and loses none of those that work; what works may be all that is wanted."""
    snapshot, needed = ctx.snapshot, wanted(ctx)
    if not needed.possible:
        return no_one_driver(ctx)
    leave = Fix(f"Or leave the driver as it is, where {name} is not to be used: the others go on without it.")
    words = f"Install a driver of {needed.branches}"
    other = older_driver(snapshot, family(snapshot), needed.last, words) if needed.last else Fix(f"{words}.")
    return (other, leave) if driver_sees_gpu(snapshot) else (other,)


def _of_the_other_kind(name: str, wants_open: bool, ctx: CheckContext, evidence: tuple[Evidence, ...]) -> Symptom:  # noqa: FBT001 - one of two kinds
    snapshot = ctx.snapshot
    used, needed = ("proprietary", "open") if wants_open else ("open", "proprietary")
    fix = other_kernel_modules(snapshot, wants_open=wants_open)
    driven = [gpu.compute_capability.value for gpu in snapshot.gpus if gpu.index.known or gpu.ordinal.known]
    if any(c is not None and (c < TURING if wants_open else c >= BLACKWELL) for c in driven):  # which would be lost
        fix = Fix("No kind of kernel modules drives all these GPUs: use this one in another machine.")
    said = [line for line in _lines(snapshot) if (_NEEDS_OPEN if wants_open else _NEEDS_PROPRIETARY).search(line)]
    return Symptom(
        f"The driver's {used} kernel modules cannot drive {name}: it needs the {needed} ones",
        evidence_of(snapshot, "driver.flavor", "driver.version") + evidence + logged(snapshot, said[-2:]),
        no_one_driver(ctx) or (fix,),
        _severity(snapshot),
        Cause.GPU_TOO_NEW_FOR_DRIVER if wants_open else Cause.GPU_REMOVED_FROM_DRIVER,
    )


def _of_no_table(device: PciGpu, ctx: CheckContext) -> Symptom | None:
    """A GPU that is in no table and that the driver refuses, or ignores and names the branch that drove it last."""
    snapshot, matrix, driver = ctx.snapshot, ctx.matrix, ctx.snapshot.driver.version.value
    name, refused = f"the GPU {device.device}", [line for line in _lines(snapshot) if _REFUSED.search(line)]
    if driver is not None and refused and _ID.fullmatch(device.device):
        near = product_near_pci(device.device, matrix)  # neighbouring PCI ids are of one generation
        row = branches_for(near.compute_capability, matrix) if near else None
        old = bool(row and row.last is not None and branch_of(driver, matrix) > row.last)
        cited = f"near {near.name}, by its id" if near else "newer than every known id"
        fix = Fix(f"Install {'an older' if old else 'a newer'} driver: NVIDIA's list of supported products names it.")
        return _unsupported(ctx, driver, name, _device(device, cited) + logged(snapshot, refused[-2:]), (fix,), old=old)
    named = [(line, match) for line in _lines(snapshot) if (match := _LEGACY.search(line))]
    if not named or driver is None or driver_sees_gpu(snapshot):
        return None
    branch = int(named[-1][1][1])
    none_left, evidence = _none_left(branch, matrix), logged(snapshot, [named[-1][0]])
    words = f"Install a driver of branch {branch}, the last one for this GPU"
    fixes = none_left or (older_driver(snapshot, family(snapshot), branch, words),)
    evidence, more = _device(device, "in no table") + evidence, f": it names branch {branch}"
    return _unsupported(ctx, driver, name, evidence, fixes, old=True, gone=bool(none_left), more=more)


def _device(device: PciGpu, cited: str) -> tuple[Evidence, ...]:
    return (Evidence(f"PCI device {device.pci}", f"10de:{device.device}", cited),)


def _lines(snapshot: Snapshot) -> list[str]:
    return [message.text for message in snapshot.kernel_log.value or ()]


def _severity(snapshot: Snapshot) -> Severity:
    return Severity.WARNING if driver_sees_gpu(snapshot) else Severity.ERROR


_BEFORE = ("DRV100", "GPU201", "GPU202", "GPU203")
_EXCLUSIVE = (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD)
_MPS = "nvidia-cuda-mps"  # the kernel keeps 15 characters of nvidia-cuda-mps-server
_MPS_VARIABLES = ("CUDA_MPS_PIPE_DIRECTORY",)
_RESETTABLE = ("rows_pending", "pages_pending", "ecc_uncorrected")
_FULL = 20  # one part in so many is left
_LINKS_OF_A_BRIDGE = 4


def _seen(snapshot: Snapshot) -> list[tuple[int, Gpu]]:
    """The GPUs that this process sees, with their place in the Snapshot."""
    return [(place, gpu) for place, gpu in enumerate(snapshot.gpus) if gpu.ordinal.known]


@check("GPU205", Cause.COMPUTE_MODE_EXCLUSIVE, requires=_BEFORE)
def compute_mode(ctx: CheckContext) -> Outcome:
    """The GPU's compute mode keeps this process out.

    What it means: in prohibited mode no process can compute on the GPU; in exclusive mode one process can, and it is
    there already. CUDA lists the GPU and then says that all devices are busy or unavailable. Under MPS the one process
    is MPS's server, which lets others in.
    How it is seen: NVML tells the compute mode and the processes that hold the GPU.
    What to do: wait for the process that holds it, take another GPU, or set the mode to default.
    """
    seen = _seen(ctx.snapshot) or (
        [] if probed(ctx.snapshot) else [(n, gpu) for n, gpu in enumerate(ctx.snapshot.gpus) if gpu.index.known]
    )
    closed = [(place, gpu) for place, gpu in seen if _closed(ctx.snapshot, gpu)]
    if not closed:
        return
    evidence = evidence_of(ctx.snapshot, *(f"gpus[{place}].compute_mode" for place, _ in closed))
    evidence += tuple(entry for place, gpu in closed for entry in _holders(place, gpu))
    prohibited = any(gpu.compute_mode.value is ComputeMode.PROHIBITED for _, gpu in closed)
    open_ones = [gpu for _, gpu in seen if not _closed(ctx.snapshot, gpu)]
    other = showing(open_ones[:1], ctx.snapshot.gpus)
    fixes = [Fix(f"Take a GPU that is open: {' '.join(other)}.")] if other else []
    first = closed[0][1].index.value
    fixes.append(Fix("Let everybody use it again.", ("sudo", "nvidia-smi", "-i", str(first), "-c", "DEFAULT")))
    yield Symptom(
        f"{', '.join(called(gpu) for _, gpu in closed)}: "
        + ("the compute mode prohibits every use" if prohibited else "exclusive mode, and another process holds it"),
        evidence,
        tuple(fixes),
        Severity.WARNING if open_ones else Severity.ERROR,
    )


def _closed(snapshot: Snapshot, gpu: Gpu) -> bool:
    mode = gpu.compute_mode.value
    if mode is ComputeMode.PROHIBITED:
        return True
    return mode in _EXCLUSIVE and bool(gpu.processes.value) and not _shared_by_mps(snapshot, gpu)


def _shared_by_mps(snapshot: Snapshot, gpu: Gpu) -> bool:
    """Whether the process that holds the GPU is MPS's server, as its name or the variables say."""
    if any((user.name or "").startswith(_MPS) for user in gpu.users):
        return True
    nameless = all(user.name is None for user in gpu.users)
    told = any(name in snapshot.environment for name in _MPS_VARIABLES)
    return nameless and (told or bool(snapshot.mps.daemon.value))


def _holders(place: int, gpu: Gpu) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            f"gpus[{place}].users",
            f"process {user.pid}{f' ({user.name})' if user.name else ''}"
            + (f", {user.memory >> 20} MiB" if user.memory is not None else ""),
            gpu.processes.source or "nvml",
        )
        for user in gpu.users[:4]
    )


@check("GPU206", Cause.GPU_HARDWARE_FAULT, requires=_BEFORE)
def memory_errors(ctx: CheckContext) -> Outcome:
    """The GPU's memory has errors that wait for a reset, or that can no longer be mended.

    What it means: a page to be retired or a row to be remapped stays in use until the GPU is reset; programs that meet
    it end with an ECC error. A remapping that has failed means that there is no spare row left: the GPU is to be
    replaced. Errors that were corrected are no fault.
    How it is seen: NVML's counts of uncorrected errors since the driver was loaded, of retired pages and remapped rows.
    What to do: end the programs on the GPU and reset it, or restart the machine; if errors come back, have it replaced.
    """
    for place, gpu in enumerate(ctx.snapshot.gpus):
        health, path = gpu.health, f"gpus[{place}].health"
        if health.rows_failed.value:
            yield Symptom(
                f"{called(gpu)}: a memory row could not be remapped",
                evidence_of(ctx.snapshot, f"{path}.rows_failed", f"{path}.rows_uncorrected"),
                (Fix("Have the GPU replaced; until then keep work off it."),),
            )
        elif waiting := [name for name in _RESETTABLE if getattr(health, name).value]:
            yield Symptom(
                f"{called(gpu)}: memory errors wait for a reset",
                evidence_of(ctx.snapshot, *(f"{path}.{name}" for name in waiting)),
                (
                    *resets("End every program on it, then reset it.", [option_of(gpu)]),
                    Fix("Or restart the machine; if errors come back, have the GPU replaced."),
                ),
                Severity.WARNING,
            )


@check("GPU207", Cause.GPU_THROTTLED, requires=_BEFORE)
def nvlink_down(ctx: CheckContext) -> Outcome:
    """An NVLink of a GPU is down where all should be up.

    What it means: on an NVSwitch machine every link of a GPU leads to a switch, and the bridge of a pair of GPUs that
    have four links or fewer carries all of them; one that is down costs bandwidth, and collective operations may fail.
    Elsewhere links without a bridge are down by design, and are no fault.
    How it is seen: NVML says that some links are up and others are not, while the fabric's registration is complete, or
    the GPU has few links; or that a GPU has fewer up than another one of its kind.
    What to do: look for SXid and Xid messages in the kernel's log, seat the bridge anew or reset the GPUs, have the
    board looked at.
    """
    for place, gpu in enumerate(ctx.snapshot.gpus):
        down = [link.link for link in gpu.nvlinks if not link.active]
        if not down or len(down) == len(gpu.nvlinks) or not _should_all_be_up(gpu, ctx.snapshot):
            continue
        yield Symptom(
            f"{called(gpu)}: {len(down)} of {len(gpu.nvlinks)} NVLinks are down",
            (Evidence(f"gpus[{place}].nvlinks", f"down: {', '.join(map(str, down))}", "nvml"),)
            + (evidence_of(ctx.snapshot, f"gpus[{place}].fabric.state") if gpu.fabric.state.known else ()),
            (
                Fix("Look for Xid and SXid messages of the driver in the kernel's log.", ("sudo", "dmesg")),
                Fix("Switch off and seat the NVLink bridge anew, where there is one."),
            ),
            Severity.WARNING,
        )


def _should_all_be_up(gpu: Gpu, snapshot: Snapshot) -> bool:
    """Whether a switch or a single bridge has all its links; or its twin has more of them up."""
    if gpu.fabric.state.value == "completed" or len(gpu.nvlinks) <= _LINKS_OF_A_BRIDGE:
        return True
    twins = [other for other in snapshot.gpus if other.name.value == gpu.name.value]
    return any(sum(link.active for link in other.nvlinks) > sum(link.active for link in gpu.nvlinks) for other in twins)


_COOL = Fix(
    "Cool it: look at fans, dust and the room's temperature; a board without a fan needs the air of a server's case."
)
_LOOK_AT_IT = Fix("Look at fans, dust, the room's temperature and the power cables of the GPU.")


@check("GPU210", Cause.GPU_THROTTLED, requires=_BEFORE)
def held_down(ctx: CheckContext) -> Outcome:
    """The GPU's clock is held down by heat or by its power supply.

    What it means: the GPU protects itself: it is too hot, or the board or the server signals that there is not enough
    power. Programs run on, several times slower. An idle GPU, or one at its power limit under load, is none of these.
    How it is seen: NVML's reasons for the clock: a thermal slowdown, a hardware slowdown or the power brake.
    What to do: look at fans, dust, the room's temperature and the power cables; put less load on the server.
    """
    for place, gpu in enumerate(ctx.snapshot.gpus):
        grave = [reason for reason in gpu.health.throttle_reasons.value or () if reason in SEVERE_THROTTLE_REASONS]
        if not grave:
            continue
        yield Symptom(
            f"{called(gpu)}: its clock is held down: {', '.join(grave)}",
            evidence_of(
                ctx.snapshot,
                *(f"gpus[{place}].health.{name}" for name in ("throttle_reasons", "temperature", "clock")),
            ),
            (
                Fix("See what it says of heat and power.", ("nvidia-smi", "-q", "-d", "PERFORMANCE,TEMPERATURE,POWER")),
                _COOL if any("thermal" in reason for reason in grave) else _LOOK_AT_IT,
            ),
            Severity.WARNING,
        )


@check("GPU208", Cause.GPU_BUSY, requires=(*_BEFORE, "GPU205"), of_process=True)
def memory_taken(ctx: CheckContext) -> Outcome:
    """Other processes hold nearly all memory of the GPU that programs take first.

    What it means: a program that names no device uses the first that CUDA lists. Little of that GPU's memory is left,
    so allocations fail, though nothing is broken.
    How it is seen: NVML's free memory of CUDA device 0 is less than a twentieth of the whole.
    What to do: end what holds it, or choose another GPU by CUDA_VISIBLE_DEVICES.
    """
    seen = _seen(ctx.snapshot)
    for place, gpu in seen:
        total, free = gpu.memory_total.value, gpu.memory_free.value
        if gpu.ordinal.value != 0 or gpu.mig.value or total is None or free is None or free * _FULL >= total:
            continue
        freest = max((other for _, other in seen), key=lambda other: other.memory_free.value or 0)
        fixes = [Fix("End the processes that hold it, or wait for them.", ("nvidia-smi",))]
        other = showing([freest], ctx.snapshot.gpus)
        if other and freest is not gpu and (freest.memory_free.value or 0) > free:
            fixes.append(Fix(f"Or take the GPU with the most free memory: {' '.join(other)}."))
        yield Symptom(
            f"{called(gpu)}: {free >> 20} of {total >> 20} MiB are free",
            evidence_of(ctx.snapshot, f"gpus[{place}].memory_free") + _holders(place, gpu),
            tuple(fixes),
            Severity.WARNING,
        )

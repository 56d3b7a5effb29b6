"""GPUs that the installed driver does not drive: by its branch, by the kind of its kernel modules, by its own words."""

from __future__ import annotations

from gpuenv.doctor.driver_requirements import BLACKWELL, TURING, kind_for, no_one_driver, wanted
from gpuenv.doctor.evidence import logged, readings
from gpuenv.doctor.fixes.distributions import (
    family,
    modules_of_the_other_kind,
    older_driver,
    open_modules,
    proprietary_modules,
)
from gpuenv.doctor.predicates import contained, driver_sees_gpu, left_out
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.matrix.products import branch_of, branches_for, product_by_pci, product_near_pci
from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import pci_key
from gpuenv.model.snapshot import PciGpu, Snapshot
from gpuenv.model.text import pattern

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
def gpu_unknown_to_driver(facts: Facts) -> Outcome:
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
    for device in left_out(facts.snapshot):
        if _is_nobodys(device, facts):
            continue
        symptom = (
            _by_branch(device, facts)
            or _by_kind(device, facts)
            or _by_its_words(device, facts)
            or _by_the_branch_it_names(device, facts)
        )
        if symptom is not None:
            found = True
            yield symptom
    if not found and not driver_sees_gpu(facts.snapshot):
        yield from _by_the_log_alone(facts)


def _is_nobodys(device: PciGpu, facts: Facts) -> bool:
    """Whether it is an old display card without any usable driver, next to GPUs that work."""
    product = product_by_pci(device.device, facts.matrix)
    row = branches_for(product.compute_capability, facts.matrix) if product else None
    return row is not None and _is_gone(row.last, facts.matrix) and driver_sees_gpu(facts.snapshot)


def _by_branch(device: PciGpu, facts: Facts) -> Symptom | None:
    """A GPU whose generation this branch does not drive; one that the kernel module drives is not."""
    snapshot, matrix = facts.snapshot, facts.matrix
    driver, product = snapshot.driver.version.value, product_by_pci(device.device, matrix)
    taken = pci_key(device.pci) in {pci_key(gpu.pci.value) for gpu in snapshot.gpus}
    if driver is None or product is None or taken:
        return None
    row = branches_for(product.compute_capability, matrix)
    branch = branch_of(driver, matrix)
    needed = row.wants(branch) if row else None
    if row is None or needed is None:
        return None
    old = row.last is not None and branch > row.last
    return Symptom(
        f"Driver branch {driver.branch} does not support {product.name} {'any more' if old else 'yet'}",
        readings(snapshot, "driver.version")
        + _device(device, matrix.cite(product.source))
        + (Evidence("needed", needed, row.source),),
        (_none_left(row.last),) if _is_gone(row.last, matrix) else _other_branch(product.name, facts),
        _severity(snapshot),
        _removed(row.last, matrix) if old else Cause.GPU_TOO_NEW_FOR_DRIVER,
    )


def _is_gone(last: int | None, matrix: Matrix) -> bool:
    """Whether the last branch for a GPU is older than any that a CuPy runs on."""
    return last is not None and last < min(row.branch for row in matrix.driver_branches)


def _removed(last: int | None, matrix: Matrix) -> Cause:
    return Cause.GPU_TOO_OLD_FOR_ANY_DRIVER if _is_gone(last, matrix) else Cause.GPU_REMOVED_FROM_DRIVER


def _none_left(last: int | None) -> Fix:
    return Fix(f"Use another GPU: branch {last} was the last one for this, and no CuPy that is known runs on it.")


def _other_branch(name: str, facts: Facts) -> tuple[Fix, ...]:
    """One that drives this GPU and loses none of those that work; what works may be all that is wanted."""
    snapshot, needed = facts.snapshot, wanted(facts)
    if not needed.possible:
        return no_one_driver(facts)
    leave = Fix(f"Or leave the driver as it is, where {name} is not to be used: the others go on without it.")
    words = f"Install a driver of {needed.branches}"
    other = older_driver(snapshot, family(snapshot), needed.last, words) if needed.last else Fix(f"{words}.")
    return (other, leave) if driver_sees_gpu(snapshot) else (other,)


def _by_kind(device: PciGpu, facts: Facts) -> Symptom | None:
    """A GPU that the other kind of kernel modules drives."""
    snapshot = facts.snapshot
    product = product_by_pci(device.device, facts.matrix)
    if product is None or facts.needs.tegra or (contained(snapshot) and driver_sees_gpu(snapshot)):
        return None
    kind, needed = _kind_in_use(snapshot), kind_for(product.compute_capability, snapshot)
    if kind is None or needed in (None, kind):
        return None
    return _of_the_other_kind(product.name, needed == "open", facts, _device(device, _KINDS))


def _kind_in_use(snapshot: Snapshot) -> str | None:
    """``open`` or ``proprietary``, of the loaded module or of the last load in the kernel's log."""
    if snapshot.driver.flavor.known:
        return snapshot.driver.flavor.value
    told = [match for line in snapshot.kernel_log.value or () if (match := _LOADED.search(line.text))]
    if not told:
        return None
    return "open" if told[-1][1] else "proprietary"


def _of_the_other_kind(name: str, wants_open: bool, facts: Facts, evidence: tuple[Evidence, ...]) -> Symptom:  # noqa: FBT001 - one of two kinds
    snapshot = facts.snapshot
    used, needed = ("proprietary", "open") if wants_open else ("open", "proprietary")
    said = [line for line in _lines(snapshot) if (_NEEDS_OPEN if wants_open else _NEEDS_PROPRIETARY).search(line)]
    return Symptom(
        f"The driver's {used} kernel modules cannot drive {name}: it needs the {needed} ones",
        readings(snapshot, "driver.flavor", "driver.version") + evidence + logged(snapshot, said[-2:]),
        no_one_driver(facts) or (_other_modules(snapshot, wants_open=wants_open),),
        _severity(snapshot),
        Cause.GPU_TOO_NEW_FOR_DRIVER if wants_open else Cause.GPU_REMOVED_FROM_DRIVER,
    )


def _other_modules(snapshot: Snapshot, *, wants_open: bool) -> Fix:
    """The kind that drives it, unless a GPU that works would be lost by that."""
    driven = [gpu.compute_capability.value for gpu in snapshot.gpus if gpu.index.known or gpu.ordinal.known]
    if any(c is not None and (c < TURING if wants_open else c >= BLACKWELL) for c in driven):
        return Fix("No kind of kernel modules drives all these GPUs: use this one in another machine.")
    written = modules_of_the_other_kind(snapshot, wants_open=wants_open)
    by_package = open_modules(snapshot) if wants_open else proprietary_modules(snapshot)
    return written[0] if written else by_package


def _by_its_words(device: PciGpu, facts: Facts) -> Symptom | None:
    """A GPU that is in no table and that the driver refuses; neighbouring PCI ids tell its generation."""
    snapshot, matrix = facts.snapshot, facts.matrix
    driver = snapshot.driver.version.value
    said = [line for line in _lines(snapshot) if _REFUSED.search(line)]
    if not said or driver is None or product_by_pci(device.device, matrix) is not None:
        return None
    if _ID.fullmatch(device.device) is None:
        return None  # the system did not tell it
    near = product_near_pci(device.device, matrix)
    row = branches_for(near.compute_capability, matrix) if near else None
    old = bool(row and row.last is not None and branch_of(driver, matrix) > row.last)
    return Symptom(
        f"Driver branch {driver.branch} does not support the GPU {device.device} {'any more' if old else 'yet'}",
        readings(snapshot, "driver.version")
        + _device(device, f"near {near.name}, by its id" if near else "newer than every known id")
        + logged(snapshot, said[-2:]),
        (Fix(f"Install {'an older' if old else 'a newer'} driver: NVIDIA's list of supported products names it."),),
        _severity(snapshot),
        Cause.GPU_REMOVED_FROM_DRIVER if old else Cause.GPU_TOO_NEW_FOR_DRIVER,
    )


def _by_the_branch_it_names(device: PciGpu, facts: Facts) -> Symptom | None:
    """A GPU that is in no table: the driver ignores it, and names the branch that drove its kind last."""
    snapshot, matrix = facts.snapshot, facts.matrix
    driver = snapshot.driver.version.value
    named = [(line, match) for line in _lines(snapshot) if (match := _LEGACY.search(line))]
    if not named or driver is None or driver_sees_gpu(snapshot) or product_by_pci(device.device, matrix) is not None:
        return None
    branch = int(named[-1][1][1])
    words = f"Install a driver of branch {branch}, the last one for this GPU"
    return Symptom(
        f"Driver branch {driver.branch} does not support the GPU {device.device} any more: it names branch {branch}",
        readings(snapshot, "driver.version") + _device(device, "in no table") + logged(snapshot, [named[-1][0]]),
        (_none_left(branch) if _is_gone(branch, matrix) else older_driver(snapshot, family(snapshot), branch, words),),
        _severity(snapshot),
        _removed(branch, matrix),
    )


def _by_the_log_alone(facts: Facts) -> Outcome:
    """The driver's log names the kind of modules it needs, for a GPU that is not on the bus or in no table."""
    snapshot = facts.snapshot
    for said, wants_open in ((_NEEDS_OPEN, True), (_NEEDS_PROPRIETARY, False)):
        if any(said.search(line) for line in _lines(snapshot)):
            yield _of_the_other_kind("the GPU", wants_open, facts, ())
            return


def _device(device: PciGpu, cited: str) -> tuple[Evidence, ...]:
    return (Evidence(f"PCI device {device.pci}", f"10de:{device.device}", cited),)


def _lines(snapshot: Snapshot) -> list[str]:
    return [message.text for message in snapshot.kernel_log.value or ()]


def _severity(snapshot: Snapshot) -> Severity:
    return Severity.WARNING if driver_sees_gpu(snapshot) else Severity.ERROR

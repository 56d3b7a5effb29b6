"""The driver that every GPU of a machine needs: its branches and the kind of its kernel modules.

NVIDIA, Driver Installation Guide, Kernel Modules (read 2026-11-22): Maxwell, Pascal and Volta need the proprietary
modules. NVIDIA, Transitions Fully Towards Open-Source GPU Kernel Modules (17 July 2024): Grace Hopper and Blackwell
need the open ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuenv.doctor.predicates import is_passed_through
from gpuenv.doctor.registry import CheckContext
from gpuenv.matrix.needs import NeededGpu, gpu_listed, gpu_on_bus
from gpuenv.matrix.products import branch_of, generation_for
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import nvidia_on_bus
from gpuenv.model.nvidia import pci_key
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability

TURING, _HOPPER, BLACKWELL = ComputeCapability(7, 5), ComputeCapability(9, 0), ComputeCapability(10, 0)
OPEN, PROPRIETARY = "open", "proprietary"


class DriverRequirement(NamedTuple):
    """The driver that GPUs need.

    Attributes:
        first: the first branch that drives them all; None if every known one does.
        last: the last one; None while support continues.
        kinds: the kinds of kernel modules that they need; two kinds exclude each other.
    """

    first: int | None
    last: int | None
    kinds: frozenset[str]

    @property
    def possible(self) -> bool:
        """Whether such a driver exists."""
        ordered = self.first is None or self.last is None or self.first <= self.last
        return ordered and len(self.kinds) < 2  # noqa: PLR2004 - two kinds exclude each other

    @property
    def branches(self) -> str:
        """``branch 570 or newer``."""
        if self.last is None:
            return "any branch" if self.first is None else f"branch {self.first} or newer"
        if self.first is None:
            return f"branch {self.last} or older"
        return f"branch {self.first}" + (f" to {self.last}" if self.last != self.first else "")

    @property
    def text(self) -> str:
        """The branches, and the kind of kernel modules if it matters."""
        return self.branches + "".join(f" with its {kind} kernel modules" for kind in sorted(self.kinds))

    def met_by(self, branch: int, kind: str | None) -> bool:
        """Whether a driver meets it; modules of unknown kind may."""
        is_new_enough = self.first is None or branch >= self.first
        return is_new_enough and (self.last is None or branch <= self.last) and (kind is None or self.kinds <= {kind})


def kind_for(capability: ComputeCapability, snapshot: Snapshot) -> str | None:
    """The only kind of kernel modules that drives a GPU; None if both do."""
    if capability < TURING:
        return PROPRIETARY
    grace = capability == _HOPPER and snapshot.host.arch.value == "aarch64"
    return OPEN if capability >= BLACKWELL or grace else None


def gpus_to_drive(ctx: CheckContext) -> tuple[tuple[NeededGpu, ...], tuple[NeededGpu, ...]]:
    """The GPUs that the driver lists for this process, and the others on the bus that it should drive."""
    snapshot, matrix = ctx.snapshot, ctx.matrix
    keys = {pci_key(gpu.pci.value) for gpu in snapshot.gpus}
    shown = [gpu for gpu in snapshot.gpus if gpu.index.known or gpu.ordinal.known]
    unlisted = [gpu for gpu in snapshot.gpus if gpu not in shown]
    on_bus = [
        device
        for device in nvidia_on_bus(snapshot) or ()
        if pci_key(device.pci) not in keys and not is_passed_through(device)
    ]
    others = (*(gpu_listed(gpu, matrix) for gpu in unlisted), *(gpu_on_bus(device, matrix) for device in on_bus))
    return tuple(gpu_listed(gpu, matrix) for gpu in shown), others


def driver_requirement(ctx: CheckContext) -> DriverRequirement:
    """The driver that all GPUs of a machine need."""
    shown, others = gpus_to_drive(ctx)
    return requirement_of((*shown, *others), ctx)


def requirement_of(gpus: Sequence[NeededGpu], ctx: CheckContext) -> DriverRequirement:
    """The driver that these GPUs need together; a GPU of unknown generation needs nothing."""
    capabilities = [gpu.compute_capability for gpu in gpus if gpu.compute_capability is not None]
    rows = [row for capability in capabilities if (row := generation_for(capability, ctx.matrix))]
    return DriverRequirement(
        max((row.first_branch for row in rows if row.first_branch is not None), default=None),
        min((row.last_branch for row in rows if row.last_branch is not None), default=None),
        frozenset(kind for capability in capabilities if (kind := kind_for(capability, ctx.snapshot))),
    )


def conflicting_gpus(ctx: CheckContext) -> tuple[Fix, ...]:
    """Fixes if no single driver drives every GPU: what each needs and which to keep; empty if one driver does.

    GPUs that work are kept, then the newer ones.
    """
    if driver_requirement(ctx).possible:
        return ()
    shown, others = gpus_to_drive(ctx)
    kept: list[NeededGpu] = []
    lost: list[NeededGpu] = []
    oldest = ComputeCapability(0, 0)
    for gpu in (*shown, *sorted(others, key=lambda gpu: gpu.compute_capability or oldest, reverse=True)):
        (kept if requirement_of((*kept, gpu), ctx).possible else lost).append(gpu)
    needs = "; ".join(f"{gpu.label} needs {requirement_of((gpu,), ctx).text}" for gpu in (*shown, *others))
    return (Fix(f"No single driver supports all these GPUs: {needs}."), _compromise(kept, lost, ctx))


def _compromise(kept: Sequence[NeededGpu], lost: Sequence[NeededGpu], ctx: CheckContext) -> Fix:
    needed, driver = requirement_of(kept, ctx), ctx.snapshot.driver
    version = driver.version.value
    is_installed = version is not None and needed.met_by(branch_of(version, ctx.matrix), driver.flavor.value)
    what = "Keep the installed driver" if is_installed else f"Install a driver of {needed.text}"
    driven, others = (" and ".join(gpu.label for gpu in gpus) for gpus in (kept, lost))
    return Fix(f"{what}: it drives {driven}. Use {others} in another machine: this driver does not drive it.")

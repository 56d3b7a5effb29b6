"""Which driver branches drive a GPU, which CUDA compiles for it, and which PTX a driver reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion

_SAME_PTX = {CudaVersion(12, 6): CudaVersion(12, 5)}


@dataclass(frozen=True, slots=True)
class BranchRange:
    """The first and the last driver branch of a GPU generation; None where it is open or not known."""

    first: int | None
    last: int | None
    source: str

    def wants(self, branch: int) -> str | None:
        """The branch that is needed instead, in words; None where this one will do."""
        if self.last is not None and branch > self.last:
            return f"branch {self.last} or older"
        if self.first is not None and branch < self.first:
            return f"branch {self.first} or newer"
        return None


@lru_cache(maxsize=1024)
def branches_for(capability: ComputeCapability | None, matrix: Matrix) -> BranchRange | None:
    """The driver branches of a GPU's generation; None where the matrix does not say."""
    row = next((entry for entry in matrix.generations if capability in entry.capabilities), None)
    return BranchRange(row.first_branch, row.last_branch, matrix.cite(row.source)) if row else None


def outside(compiled_for: Collection[ComputeCapability], gpus: Collection[ComputeCapability]) -> Cause:
    """Whether GPUs are too old or too new for a CUDA that compiles for these, or only CuPy does not know them."""
    if any(gpu < min(compiled_for) for gpu in gpus):
        return Cause.GPU_REMOVED_FROM_TOOLKIT
    return Cause.GPU_TOO_NEW_FOR_TOOLKIT if set(gpus) - set(compiled_for) else Cause.CUPY_TOO_OLD_FOR_GPU


def reads_ptx(driver: CudaVersion, wrote: CudaVersion) -> bool:
    """Whether a driver of one CUDA level compiles the PTX that another CUDA wrote.

    Each CUDA writes a newer PTX ISA than the one before, but for 12.5 and 12.6, which both write 8.5 (PTX ISA, Release
    Notes, table of PTX ISA versions).
    """
    return driver >= _SAME_PTX.get(wrote, wrote)


@lru_cache(maxsize=1024)
def branch_of(driver: DriverVersion, matrix: Matrix) -> int:
    """The branch of a driver: Windows counts within a branch (581.15 is of 580), so the nearest known one below."""
    known = [row.branch for row in matrix.driver_branches if row.branch <= driver.branch]
    newest = max((row.branch for row in matrix.driver_branches), default=0)
    return max(known, default=driver.branch) if driver.branch <= newest else driver.branch


# The newest major compute capability of CUDA majors that were not measured: a cubin runs on its own major alone.
_NEWEST_OF_OLD = {8: 6, 9: 7}
OF_OLD = "NVIDIA, Volta Compatibility Guide and Turing Compatibility Guide, Building Applications (read 2026-11-22)"


def newest_of_old(cuda: CudaVersion) -> int | None:
    """The newest major compute capability that an old CUDA knows; None for one that was measured, or is older still."""
    return _NEWEST_OF_OLD.get(cuda.major)

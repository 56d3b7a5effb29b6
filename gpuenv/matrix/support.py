"""Which driver branches drive a GPU. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.matrix.records import Matrix
from gpuenv.model.versions import ComputeCapability


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


def branches_for(capability: ComputeCapability | None, matrix: Matrix) -> BranchRange | None:
    """The driver branches of a GPU's generation; the first is that of the first toolkit that knew it."""
    row = next((entry for entry in matrix.generations if capability in entry.capabilities), None)
    if row is None:
        return None
    minor = next((entry for entry in matrix.cuda_minors if entry.cuda == row.first_cuda), None)
    return BranchRange(minor.linux.branch if minor and minor.linux else None, row.last_branch, matrix.cite(row.source))

"""CuPy for AMD GPUs: the lines that could be tried where no NVIDIA GPU is, each with what nobody has proven. Pure."""

from __future__ import annotations

from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.constraints import Rejected, libc, not_yanked, numpy, platform, python
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.records import Matrix, RocmLine, WheelLine
from gpuenv.model.identity import AMD
from gpuenv.model.resolution import Assumption, Experimental
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import CudaVersion

_CONSTRAINTS = (not_yanked, platform, libc, python, numpy)


def experimental(snapshot: Snapshot, needs: Needs, matrix: Matrix) -> tuple[Experimental, ...]:
    """The newest release of each ROCm line that the platform and the interpreter allow, the newest ROCm first."""
    amd = [gpu for gpu in snapshot.pci_gpus or () if gpu.vendor == AMD]
    if not amd or needs.gpus:
        return ()
    names = ", ".join(dict.fromkeys(gpu.name or f"AMD {gpu.device}" for gpu in amd))
    lines = sorted(matrix.rocm_lines, key=lambda line: tuple(map(int, line.rocm.split("."))), reverse=True)
    found = ((line, _newest(line, needs, matrix)) for line in lines)
    return tuple(
        Experimental(
            wheel.candidate,
            (
                Assumption("ROCm", f"{line.rocm} on the host"),
                Assumption("the gfx target", f"of {names}, one that the wheel has code for"),
            ),
        )
        for line, wheel in found
        if wheel is not None
    )


def _newest(line: RocmLine, needs: Needs, matrix: Matrix) -> WheelCandidate | None:
    as_line = WheelLine(line.name, 0, CudaVersion(0, 0), line.source, line.releases)
    for release in line.releases:
        wheel = WheelCandidate(as_line, release, None)
        if not any(isinstance(constraint(wheel, needs, matrix), Rejected) for constraint in _CONSTRAINTS):
            return wheel
    return None

"""CuPy for AMD GPUs: the lines that could be tried where no NVIDIA GPU is, and what stands against the others. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.installable import INSTALLABLE, Rejected
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.packages import Platform, RocmLine, WheelLine
from gpuenv.matrix.records import Matrix
from gpuenv.model.identity import AMD
from gpuenv.model.pattern import pattern
from gpuenv.model.resolution import Assumption, ConstraintName, Experimental, Rejection
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import CudaVersion

_HIP = pattern(r"libamdhip64\.so\.(\d+)")


@dataclass(frozen=True, slots=True)
class _Host:
    """What of AMD is on a machine: names of GPUs, their targets as far as they are known, and ROCm's release."""

    names: str
    targets: tuple[str, ...]
    all_known: bool
    rocm: str | None


def experimental(
    snapshot: Snapshot, needs: Needs, matrix: Matrix
) -> tuple[tuple[Experimental, ...], tuple[Rejection, ...]]:
    """The newest release of each ROCm line that nothing stands against, the newest ROCm first; and the rejections."""
    host = _host(snapshot)
    if host is None or needs.gpus:
        return (), ()
    found: list[Experimental] = []
    rejected: list[Rejection] = []
    for line in sorted(matrix.rocm_lines, key=lambda line: tuple(map(int, line.rocm.split("."))), reverse=True):
        for wheel in _wheels(line):
            if told := list(_installable(wheel, needs, matrix)):
                rejected += told
                continue
            if told := list(_runs(wheel, line, host, needs, matrix)):
                rejected += told  # nor does an older release, of which less was measured
            else:
                found.append(Experimental(wheel.candidate, tuple(_assumed(line, wheel.platform(needs), host))))
            break
    return tuple(found), tuple(rejected)


def _host(snapshot: Snapshot) -> _Host | None:
    on_bus = [gpu for gpu in snapshot.pci_gpus or () if gpu.vendor == AMD]
    if not on_bus and not snapshot.amd_gpus:
        return None
    nodes = snapshot.amd_gpus
    named = [f"{gpu.name or 'an AMD GPU'} ({gpu.gfx})" for gpu in nodes if gpu.gfx]
    named = named or [gpu.name or f"AMD {gpu.device}" for gpu in on_bus] or ["an AMD GPU"]
    targets = tuple(dict.fromkeys(gpu.gfx for gpu in nodes if gpu.gfx))
    all_known = bool(nodes) and len(nodes) >= len(on_bus) and all(gpu.gfx for gpu in nodes)
    return _Host(", ".join(dict.fromkeys(named)), targets, all_known, snapshot.rocm.value)


def _wheels(line: RocmLine) -> Iterator[WheelCandidate]:
    as_line = WheelLine(line.name, 0, CudaVersion(0, 0), line.source, line.releases)
    return (WheelCandidate(as_line, release, None) for release in line.releases)


def _installable(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Iterator[Rejection]:
    for name, constraint in INSTALLABLE:
        verdict = constraint(wheel, needs, matrix)
        if isinstance(verdict, Rejected):
            yield Rejection(wheel.candidate, name, verdict.needed, verdict.found, verdict.source)


def _runs(wheel: WheelCandidate, line: RocmLine, host: _Host, needs: Needs, matrix: Matrix) -> Iterator[Rejection]:
    """ROCm's major is that of the HIP runtime that is needed, and the wheel has code for every GPU."""
    row, source = wheel.platform(needs), matrix.cite(wheel.release.source)
    wanted = _rocm_major(line, row)
    if host.rocm is not None and host.rocm.split(".")[0] != wanted:
        yield Rejection(wheel.candidate, ConstraintName.ROCM_VERSION, f"ROCm {wanted}", f"ROCm {host.rocm}", source)
    code = row.gfx if row is not None else None
    lacking = [target for target in host.targets if code and target not in code]
    if code and lacking:
        needed, name = f"one of {', '.join(code)}", ConstraintName.WHEEL_HAS_CODE_FOR_GPU
        yield Rejection(wheel.candidate, name, needed, ", ".join(lacking), source)


def _rocm_major(line: RocmLine, row: Platform | None) -> str:
    """The major of the HIP runtime that the wheel needs by its soname; else that of the ROCm it was built for."""
    told = _HIP.fullmatch(row.hip or "") if row is not None else None
    return told[1] if told else line.rocm.split(".")[0]


def _assumed(line: RocmLine, row: Platform | None, host: _Host) -> Iterator[Assumption]:
    """What nobody has proven."""
    if host.rocm is None or host.rocm.split(".")[:2] != line.rocm.split("."):
        yield Assumption("ROCm", f"{line.rocm} on the host")
    if not host.all_known or row is None or row.gfx is None:
        yield Assumption("the gfx target", f"of {host.names}, one that the wheel has code for")
    else:
        yield Assumption("upstream's support", f"experimental, as it says, for {host.names}")

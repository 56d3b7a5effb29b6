"""Evidence apart from the text: from facts of the machine, and from how they fit each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuenv.explain.explanation_types import Hit
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.products import branch_of
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import cuda_major_of, is_rocm
from gpuenv.model.snapshot import Container, Snapshot
from gpuenv.model.strings import parse_integer
from gpuenv.model.versions import ComputeCapability, CudaVersion

EVIDENCE = (
    *("windows", "darwin", "wsl", "aarch64", "musl", "jetson", "host", "container", "driver-none", "gpu-none"),
    *("nouveau", "mig", "hidden", "visible-set", "compat", "ld-library-path", "rocm", "cpu-torch", "python-inside"),
    *("python-outside", "cuda-major-same", "cuda-major-differs", "torch-cuda-differs", "cuda-13", "driver-older"),
    "cuda-of-another-differs",
    *("torch-there", "cupy-there", "toolkit-there", "driver-newer", "gpu-newer-than-driver", "gpu-older-than-driver"),
    *("gpu-known", "gpu-older", "gpu-newer", "torch-gpu-newer", "amd", "wheel-of-other-python", "wheel-of-this-python"),
)
# CUDA C++ Programming Guide, CUDA Environment Variables: what comes before the first that is none of these is visible.
_NAMES_A_DEVICE = re.compile(r"\d+|GPU-\S*|MIG-\S*")
_OF_TEGRA = re.compile(r"\b(?:Jetson|Tegra|Xavier|Orin)\b", re.IGNORECASE)
_LAST_BY_MINOR = 10  # the names of libcudart and its like hold the minor version, which must be there exactly
_OF_TORCH = re.compile(r"\+cu(\d{2})(\d)")
# The first CUDA that compiles for a generation, where the matrix begins later: CUDA Toolkit Release Notes, "New
# Features" of 8.0 (Pascal), 9.0 (Volta), 10.0 (Turing), 11.0 (GA100), 11.1 (GA10x),
# 11.8 (Ada, Hopper) and 12.8 (Blackwell).
_FIRST_CUDA = (
    (ComputeCapability(10, 0), CudaVersion(12, 8)),
    (ComputeCapability(8, 9), CudaVersion(11, 8)),
    (ComputeCapability(8, 6), CudaVersion(11, 1)),
    (ComputeCapability(8, 0), CudaVersion(11, 0)),
    (ComputeCapability(7, 5), CudaVersion(10, 0)),
    (ComputeCapability(7, 0), CudaVersion(9, 0)),
    (ComputeCapability(6, 0), CudaVersion(8, 0)),
)
# The CUDA that no longer compiles for a capability below: release notes of 11.0 (3.0) and 12.0 (Kepler), "Deprecated
# Features"; from 13.0 on it is in the matrix.
_LAST_OLDER = ((CudaVersion(12, 0), ComputeCapability(5, 0)), (CudaVersion(11, 0), ComputeCapability(3, 5)))


def machine_evidence(snapshot: Snapshot, matrix: Matrix, hits: Sequence[Hit]) -> frozenset[str]:
    """Evidence from the machine and the target, and from how the CUDA in use fits them."""
    needs = needs_of(snapshot, matrix)
    return frozenset(
        (
            *_host(snapshot, needs),
            *_devices(snapshot),
            *_target(snapshot, matrix),
            *_wheel_python(snapshot, hits),
            *_compatibility(snapshot, needs, matrix, hits),
        )
    )


def _host(snapshot: Snapshot, needs: Needs) -> Iterator[str]:
    host = snapshot.host
    if host.os.value in ("windows", "darwin"):
        yield host.os.value
    if host.wsl.value:
        yield "wsl"
    if host.arch.value == "aarch64":
        yield "aarch64"
    if host.libc.value is not None and host.libc.value.family == "musl":
        yield "musl"
    if needs.tegra or any(_OF_TEGRA.search(gpu.name.value or "") for gpu in snapshot.gpus):
        yield "jetson"
    if host.container.value is not None:
        yield "host" if host.container.value is Container.NONE else "container"


def _devices(snapshot: Snapshot) -> Iterator[str]:
    driver, variables = snapshot.driver, snapshot.environment
    if "driver.version" in snapshot.assumed and not driver.version.known:
        yield "driver-none"
    if not snapshot.gpus and (snapshot.gpu_count.value == 0 or snapshot.amd_gpus):
        yield "gpu-none"
    if driver.nouveau.value:
        yield "nouveau"
    if any(gpu.mig.value for gpu in snapshot.gpus):
        yield "mig"
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        first = visible.split(",")[0].strip()
        number = parse_integer(first)
        unknown = first.isdigit() and bool(snapshot.gpus) and (number is None or number >= len(snapshot.gpus))
        yield "hidden" if unknown or not _NAMES_A_DEVICE.fullmatch(first) else "visible-set"
        if visible.startswith("MIG"):
            yield "mig"
    if "/compat" in variables.get("LD_LIBRARY_PATH", ""):
        yield "compat"
    if variables.get("LD_LIBRARY_PATH"):
        yield "ld-library-path"


def _target(snapshot: Snapshot, matrix: Matrix) -> Iterator[str]:
    target = snapshot.target
    if snapshot.amd_gpus or any(is_rocm(entry.distribution) for entry in target.cupy):
        yield "rocm"
    if snapshot.amd_gpus:
        yield "amd"
    if target.cupy:
        yield "cupy-there"
    if snapshot.toolkits:
        yield "toolkit-there"
    if {"torch", "pytorch"} & target.packages.keys():
        yield "torch-there"
    if "+cpu" in target.packages.get("torch", ""):
        yield "cpu-torch"
    python = target.python.value
    if python is not None:
        majors = {
            release.cupy.partition(".")[0]
            for line in matrix.wheel_lines
            for release in line.releases
            if python.tag in release.pythons
        }
        if not majors or _lacks_wheel(snapshot, matrix):
            yield "python-outside"
        elif len(majors) > 1:  # one that only the latest major version has was missing until a short while ago
            yield "python-inside"


def _wheel_python(snapshot: Snapshot, hits: Sequence[Hit]) -> Iterator[str]:
    """Whether a refused wheel is for this Python, by its name."""
    python = snapshot.target.python.value
    tags = {tag for hit in hits if (tag := hit.value("wheel_python"))}
    if python is not None and len(tags) == 1:
        yield "wheel-of-this-python" if f"cp{python.major}{python.minor}" in tags else "wheel-of-other-python"


def _lacks_wheel(snapshot: Snapshot, matrix: Matrix) -> bool:
    """Whether the installed release of CuPy has no wheel for this Python."""
    python = snapshot.target.python.value
    meant = {(entry.distribution, entry.release) for entry in snapshot.target.cupy}
    rows = [row for line in matrix.wheel_lines for row in line.releases if (line.name, row.cupy) in meant]
    return bool(rows) and python is not None and all(python.tag not in row.pythons for row in rows)


def _compatibility(snapshot: Snapshot, needs: Needs, matrix: Matrix, hits: Sequence[Hit]) -> Iterator[str]:
    """How the GPU, the driver and the CUDA in use fit each other."""
    wheel, toolkit = _wheel_major(snapshot), _toolkit(snapshot)
    wanted, minor = _missing_cuda(hits) or (wheel, None)
    if wanted is not None and toolkit is not None:
        same = wanted == toolkit.major and minor in {None, toolkit.minor}
        of_cupy = bool(snapshot.target.cupy) or any(hit.signature.evidence == "cupy" for hit in hits)
        yield "cuda-major-same" if same else "cuda-major-differs" if of_cupy else "cuda-of-another-differs"
    torch = _OF_TORCH.search(snapshot.target.packages.get("torch", ""))
    if torch and wanted is not None and int(torch[1]) != wanted:
        yield "torch-cuda-differs"
    if wheel == 13 or (toolkit and toolkit.major == 13):  # noqa: PLR2004 - CUDA 13
        yield "cuda-13"
    used_cuda = toolkit or (_first_of(wheel, matrix) if wheel else None)
    yield from _driver_fit(needs, matrix, used_cuda)
    capabilities = [gpu.compute_capability for gpu in needs.gpus if gpu.compute_capability]
    if capabilities:
        yield "gpu-known"
    compiling = _nvrtc(snapshot) or used_cuda
    if capabilities and compiling is not None:
        is_exact = compiling is not used_cuda or toolkit is not None
        yield from _capability_fit(capabilities, compiling, matrix, exact=is_exact)
    if torch and any(_not_yet(entry, CudaVersion(int(torch[1]), int(torch[2]))) for entry in capabilities):
        yield "torch-gpu-newer"


def _first_of(major: int, matrix: Matrix) -> CudaVersion:
    """The oldest CUDA of a wheel line, where the installed minor is unknown."""
    oldest = [line.first_cuda for line in matrix.wheel_lines if line.cuda_major == major and line.last_cuda is None]
    return max(oldest, default=CudaVersion(major, 0))


def _driver_fit(needs: Needs, matrix: Matrix, used_cuda: CudaVersion | None) -> Iterator[str]:
    if needs.driver_cuda is not None and used_cuda is not None:
        yield "driver-older" if needs.driver_cuda < used_cuda else "driver-newer"
    if needs.driver is None:
        return
    branch = branch_of(needs.driver, matrix)
    for gpu in needs.gpus:
        for row in matrix.generations:
            if gpu.compute_capability not in row.capabilities:
                continue
            if row.first_branch is not None and branch < row.first_branch:
                yield "gpu-newer-than-driver"
            if row.last_branch is not None and branch > row.last_branch:
                yield "gpu-older-than-driver"


def _capability_fit(
    capabilities: Sequence[ComputeCapability], used_cuda: CudaVersion, matrix: Matrix, *, exact: bool
) -> Iterator[str]:
    """How the GPUs fit a CUDA; of a wheel line, any minor of the major may be installed."""
    rows = [row for row in matrix.cuda_minors if exact and row.cuda == used_cuda]
    rows = rows or [row for row in matrix.cuda_minors if row.cuda.major == used_cuda.major]
    known = {capability for row in rows for capability in row.capabilities}
    oldest, newest = min(known, default=None), max(known, default=None)
    for capability in capabilities:
        if (oldest is not None and capability < oldest) or _no_longer(capability, used_cuda):
            yield "gpu-older"
        elif (newest is not None and capability > newest) or _not_yet(capability, used_cuda):
            yield "gpu-newer"


def _not_yet(capability: ComputeCapability, used_cuda: CudaVersion) -> bool:
    first = next((cuda for least, cuda in _FIRST_CUDA if not capability < least), None)
    return first is not None and used_cuda < first


def _no_longer(capability: ComputeCapability, used_cuda: CudaVersion) -> bool:
    return any(not used_cuda < cuda and capability < least for cuda, least in _LAST_OLDER)


def _wheel_major(snapshot: Snapshot) -> int | None:
    packages = snapshot.target.packages
    majors = {cuda_major_of(entry.distribution, packages, entry.cuda_major) for entry in snapshot.target.cupy}
    return majors.pop() if len(majors) == 1 else None


def _toolkit(snapshot: Snapshot) -> CudaVersion | None:
    versions = {kit.toolkit.value for kit in snapshot.toolkits if kit.toolkit.value is not None}
    return versions.pop() if len(versions) == 1 else None


def _nvrtc(snapshot: Snapshot) -> CudaVersion | None:
    """The release of the NVRTC that CuPy loads."""
    release = next((entry.release for entry in snapshot.target.libraries if entry.name == "nvrtc"), None)
    return CudaVersion.parse(release) if release else None


def _missing_cuda(hits: Sequence[Hit]) -> tuple[int, int | None] | None:
    """The CUDA major in the name of a missing library; up to CUDA 10 the name has the minor too."""
    for hit in hits:
        library, soname = hit.value("library") or "", (hit.value("soname") or "").strip(".").split(".")
        major, minor = (parse_integer(number) for number in (*soname, "")[:2])
        if library in ("cudart", "cublas", "cublasLt", "nvrtc") and major is not None:
            return major, minor if major <= _LAST_BY_MINOR else None
    return None

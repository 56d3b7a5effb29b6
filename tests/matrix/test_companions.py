"""The CUDA of installed packages: by their metadata first, whatever their release."""

from __future__ import annotations

import pytest

from gpuenv.matrix.companions import cuda_package, cuda_packages
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.snapshot import Dependent, Snapshot
from gpuenv.model.versions import CudaVersion
from tests.matrix.resolutions import machine

LINUX = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
H100 = ("driver=580.95.05", "gpu=H100", "python=3.12")
# Requires-Dist of their wheels for Linux x86_64, those on CuPy and CUDA's wheels
TORCH_28 = tuple(
    f"{name}; platform_system == 'Linux' and platform_machine == 'x86_64'"
    for name in ("nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cublas-cu12==12.8.4.1")
)
TORCH_212 = (
    "cuda-toolkit[cudart,cufft,curand,cusolver,cusparse,nvjitlink,nvrtc]==13.0.2; platform_system == 'Linux'",
    "cuda-bindings<14,>=13.0.3; platform_system == 'Linux'",
)
CUDF = ("cuda-bindings<13.0,>=12.9.2", "cupy-cuda12x!=14.1.0,>=14.0.1")
JAX = tuple(
    f'{name}; extra == "with-cuda"' for name in ("nvidia-cublas-cu12>=12.1.3.1", "nvidia-cuda-nvrtc-cu12>=12.1.55")
)


@pytest.mark.parametrize(
    ("name", "version", "lines", "cuda_major", "cuda"),
    [
        ("torch", "2.8.0", TORCH_28, 12, CudaVersion(12, 8)),
        ("torch", "2.99.0", TORCH_212, 13, CudaVersion(13, 0)),
        ("cudf-cu12", "26.8.1", CUDF, 12, None),
        ("cudf-cu12", "27.2.0", (), 12, None),
        ("rmm-cu12", "26.10.0", (), 12, None),
        ("jax-cuda12-plugin", "0.9.2", JAX, 12, None),
        ("jax-cuda12-pjrt", "0.9.2", (), 12, None),
        ("a-library", "1.0", ("cupy-cuda12x>=13",), 12, None),
        ("a-library", "1.0", ("cuda-toolkit==13.*",), 13, None),
        ("a-library", "1.0", ("cuda-bindings<14,>=13.0.3",), 13, None),
        ("a-library", "1.0", ("nvidia-cuda-nvrtc>=13.0.48,<14",), 13, None),
    ],
)
def test_the_cuda_of_a_package_is_read_from_its_metadata(
    matrix: Matrix, name: str, version: str, lines: tuple[str, ...], cuda_major: int, cuda: CudaVersion | None
) -> None:
    package = cuda_package(name, version, matrix, lines, LINUX)
    assert package is not None
    assert (package.cuda_major, package.cuda) == (cuda_major, cuda)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("numba-cuda", ("cuda-bindings>=12.9.1,<14",)),  # for both CUDA 12 and 13
        ("a-library", ("cuda-bindings>=12.9.1",)),
        ("torch", TORCH_28),  # on aarch64
        ("tensorflow", ('nvidia-cublas-cu12==12.5.3.2; extra == "and-cuda"',)),
        ("nvidia-cudnn-cu12", ("nvidia-cublas-cu12",)),
        ("scipy", ()),
    ],
)
def test_other_packages_decide_nothing(matrix: Matrix, name: str, lines: tuple[str, ...]) -> None:
    assert cuda_package(name, "1.0", matrix, lines, {**LINUX, "platform_machine": "aarch64"}) is None


def test_a_package_of_which_nothing_is_known_is_an_assumption(matrix: Matrix) -> None:
    resolution = resolve(machine(matrix, *H100, "package.torch=2.99.0"), matrix)
    assert resolution.wheel is not None
    assert ("the CUDA of torch 2.99.0", f"CUDA {resolution.wheel.cuda_major}") in [
        (entry.fact, entry.value) for entry in resolution.assumptions
    ]


def _with(snapshot: Snapshot, packages: dict[str, str], dependents: tuple[Dependent, ...]) -> Snapshot:
    return snapshot._replace(target=snapshot.target._replace(packages=packages, cuda_dependents=dependents))


@pytest.mark.parametrize(
    ("name", "release", "lines"),
    [
        ("cudf-cu12", "26.8.1", CUDF),
        ("cudf-cu12", "27.2.3", CUDF),
        ("rmm-cu12", "26.10.7", ("cuda-bindings<13.0,>=12.9.2",)),
        ("jax-cuda12-plugin", "0.9.2", JAX),
        ("unheard-of", "1.0", ("nvidia-cublas-cu12>=12.4",)),
    ],
)
def test_the_line_beside_a_package_is_that_of_its_cuda(
    matrix: Matrix, name: str, release: str, lines: tuple[str, ...]
) -> None:
    dependents = tuple(Dependent(name, release, line) for line in lines)
    resolution = resolve(_with(machine(matrix, *H100), {name: release}, dependents), matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.distribution == "cupy-cuda12x"


LIBRARIES = ("cublas", "cuda-nvrtc", "cuda-runtime", "cufft", "curand", "cusolver", "cusparse")
OF_13 = {"cufft": "12.0.0.15", "curand": "10.4.0.35", "cusolver": "12.0.3.29", "cusparse": "12.6.2.49"}


def _torch(*libraries: str, version: str, suffix: str = "-cu12") -> tuple[dict[str, str], tuple[Dependent, ...]]:
    """A torch and the CUDA wheels that it pins."""
    of_their_own = {} if suffix else OF_13
    wheels = {f"nvidia-{name}{suffix}": of_their_own.get(name, version) for name in libraries}
    dependents = tuple(Dependent("torch", "2.8.0", f"{name}=={release}") for name, release in wheels.items())
    return {"torch": "2.8.0", **wheels}, dependents


def test_the_cuda_wheels_of_another_package_are_used_and_kept(matrix: Matrix) -> None:
    """What the extra would install is there: the extra would only move pins."""
    resolution = resolve(_with(machine(matrix, *H100), *_torch(*LIBRARIES, version="12.8.93")), matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.requirements == ("cupy-cuda12x==14.2.0",)
    assert resolution.wheel.needs_toolkit is None


@pytest.mark.parametrize(
    ("suffix", "version", "lacking", "requirements"),
    [
        ("-cu12", "12.8.93", ("curand",), ("cupy-cuda12x==14.2.0", "cuda-toolkit[curand]==12.8.*")),
        ("", "13.0.48", ("curand",), ("cupy-cuda13x==14.2.0", "cuda-toolkit[curand]==13.0.*")),
        ("", "13.0.48", ("cuda-runtime",), ("cupy-cuda13x==14.2.0", "cuda-toolkit[cudart]==13.0.*")),
        ("-cu12", "12.8.93", ("cuda-nvrtc",), ("cupy-cuda12x[ctk]==14.2.0",)),
    ],
)
def test_cuda_wheels_that_others_lack_are_added(
    matrix: Matrix, suffix: str, version: str, lacking: tuple[str, ...], requirements: tuple[str, ...]
) -> None:
    packages, dependents = _torch(*(set(LIBRARIES) - set(lacking)), version=version, suffix=suffix)
    resolution = resolve(_with(machine(matrix, *H100), packages, dependents), matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.requirements == requirements
    assert resolution.wheel.needs_toolkit is None


def test_cuda_wheels_that_others_lack_are_not_of_a_toolkit_for_a_newer_c_library(matrix: Matrix) -> None:
    packages, dependents = _torch(*(set(LIBRARIES) - {"curand"}), version="13.0.48", suffix="")
    snapshot = _with(machine(matrix, *H100, "os=linux", "arch=x86_64", "libc=glibc-2.17"), packages, dependents)
    resolution = resolve(snapshot, matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.requirements == ("cupy-cuda13x==14.2.0", "nvidia-curand==10.*")


def test_cuda_wheels_that_others_lack_leave_their_toolkit_alone(matrix: Matrix) -> None:
    """An environment has one cuda-toolkit."""
    packages, dependents = _torch(*(set(LIBRARIES) - {"curand"}), version="12.8.93")
    toolkit = Dependent("other", "1.0", "cuda-toolkit==12.*")
    packages, dependents = {**packages, "other": "1.0", "cuda-toolkit": "12.9.1"}, (*dependents, toolkit)
    resolution = resolve(_with(machine(matrix, *H100), packages, dependents), matrix)
    assert resolution.wheel is not None
    assert "nvidia-curand-cu12" in resolution.wheel.requirements


def test_the_extra_needs_the_toolkit_of_other_packages(matrix: Matrix) -> None:
    """An environment has one cuda-toolkit."""
    packages = {"numba-cuda": "0.20.0", "cuda-toolkit": "12.9.2"}
    needs = (Dependent("numba-cuda", "0.20.0", "cuda-toolkit==12.*"),)
    resolution = resolve(_with(machine(matrix, *H100), packages, needs), matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.distribution == "cupy-cuda12x"


def test_cuda_wheels_that_only_cupy_needs_decide_nothing(matrix: Matrix) -> None:
    packages = {"nvidia-cuda-nvrtc": "13.1.80", "cuda-toolkit": "13.1.0", "cupy-cuda13x": "14.2.0"}
    toolkit = Dependent("cuda-toolkit", "13.1.0", 'nvidia-cuda-nvrtc==13.1.80.*; extra == "nvrtc"')
    assert cuda_packages(_with(machine(matrix, *H100), packages, (toolkit,)), matrix) == ()
    torch = Dependent("torch", "2.99.0", "cuda-toolkit[nvrtc]==13.1.0")
    found = cuda_packages(_with(machine(matrix, *H100), {**packages, "torch": "2.99.0"}, (toolkit, torch)), matrix)
    assert [entry.distribution for entry in found] == ["cuda-toolkit", "nvidia-cuda-nvrtc", "torch"]


@pytest.mark.parametrize(
    ("requirement", "cuda_version"),
    [
        ("cuda-version >=12.9,<13", "cuda-version=12"),
        ("cuda-version >=12,<13.0a0", "cuda-version=12"),
        ("cuda-version 12.*", "cuda-version=12"),
        ("cuda-version =12.9", "cuda-version=12"),
        ("cuda-version 12.9 h4f385c5_3", "cuda-version=12"),
        ("cuda-version >=13.0,<14", "cuda-version=13"),
        ("cuda-version >=12", "cuda-version=13"),
        ("cuda-version", "cuda-version=13"),
        ("cuda-version 12.*|13.*", "cuda-version=13"),
    ],
)
def test_conda_packages_keep_their_cuda(matrix: Matrix, requirement: str, cuda_version: str) -> None:
    snapshot = machine(matrix, *H100)
    needs = (Dependent("gromacs", "2026.1", requirement),)
    conda = resolve(snapshot._replace(target=snapshot.target._replace(conda_needs=needs)), matrix).conda
    assert conda is not None
    assert conda.specs[1] == cuda_version


def test_condas_own_cuda_packages_change_with_cupy(matrix: Matrix) -> None:
    snapshot = machine(matrix, *H100)
    needs = (Dependent("cuda-cudart", "12.9.79", "cuda-version >=12.9,<12.10.0a0"),)
    conda = resolve(snapshot._replace(target=snapshot.target._replace(conda_needs=needs)), matrix).conda
    assert conda is not None
    assert conda.specs[1] == "cuda-version=13"


@pytest.mark.parametrize(("requirement", "cuda_version"), [(">=13.0,<14", "13"), (">=12.9,<13", "12"), (None, "13")])
def test_the_row_of_a_wheel_does_not_decide_for_the_conda_package(
    matrix: Matrix, requirement: str | None, cuda_version: str
) -> None:
    """Its CUDA is that of the wheel on the index; conda builds one for each, and one without."""
    snapshot = _with(machine(matrix, *H100), {"torch": "2.8.0", "pytorch": "2.8.0"}, ())
    needs = (Dependent("pytorch", "2.8.0", f"cuda-version {requirement}"),) if requirement else ()
    target = snapshot.target._replace(conda_packages={"pytorch": "2.8.0"}, conda_needs=needs)
    conda = resolve(snapshot._replace(target=target), matrix).conda
    assert conda is not None
    assert conda.specs[1] == f"cuda-version={cuda_version}"

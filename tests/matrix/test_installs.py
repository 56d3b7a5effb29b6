"""pip and uv plan to install exactly the chosen wheel, for every kind of target."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from gpuenv.matrix.tables import Matrix
from gpuenv.model.resolution import Candidate, CandidateKind, WheelChoice
from gpuenv.model.versions import CudaVersion, Libc
from tests.matrix.dry_runs import NoSolutionError, plan_with_pip, plan_with_uv
from tests.matrix.resolutions import choose_wheel, resolution_of

pytestmark = pytest.mark.network

_AARCH64 = "aarch64-manylinux_2_28"
_WINDOWS = ("os=windows",)

# The machine, and the platform by uv's name.
TARGETS = [
    (("driver=580.95.05", "gpu=V100"), "3.12", "x86_64-manylinux_2_28"),
    (("driver=580.95.05", "gpu=H100"), "3.12", "x86_64-manylinux_2_28"),
    (("driver=580.95.05", "gpu=H100"), "3.10", "x86_64-manylinux_2_28"),
    (("driver=580.95.05", "gpu=H100"), "3.9", "x86_64-manylinux_2_28"),
    (("driver=580.95.05", "gpu=H100", "libc=glibc-2.17"), "3.12", "x86_64-manylinux_2_17"),
    (("driver=580.95.05", "gpu=A100"), "3.14", "x86_64-manylinux_2_28"),
    (("driver=535.104.05", "gpu=A100"), "3.8", "x86_64-manylinux_2_28"),
    (("driver=535.104.05", "gpu=A100", "libc=glibc-2.17"), "3.11", "x86_64-manylinux_2_17"),
    (("driver=570.86.15", "gpu=RTX 5090", "libc=glibc-2.17"), "3.12", "x86_64-manylinux_2_17"),
    (("driver=470.256.02", "gpu=K80"), "3.12", "x86_64-manylinux_2_28"),
    (("driver=570.86.15", "gpu=RTX 5090"), "3.13", "x86_64-manylinux_2_28"),
    (("driver=575.57.08", "gpu=B300"), "3.12", "x86_64-manylinux_2_28"),
    (("driver=580.95.05", "gpu=GB200", "arch=aarch64"), "3.12", _AARCH64),
    (("driver=570.86.15", "gpu=GB200", "arch=aarch64"), "3.12", _AARCH64),
    (("driver=580.97", "gpu=RTX 4090", *_WINDOWS), "3.12", "windows"),
    (("driver=536.25", "gpu=RTX 4090", *_WINDOWS), "3.11", "windows"),
]


def _assert_plan_matches(wheel: WheelChoice, plan: dict[str, str]) -> None:
    """Asserts that the plan has the chosen release, and CUDA wheels of fitting minors only with the extra."""
    assert plan[wheel.distribution] == wheel.version
    for text in wheel.requirements:
        requirement = Requirement(text)
        assert requirement.specifier.contains(plan[requirement.name], prereleases=False), text
    cuda = {name for name in plan if re.match(r"cuda-toolkit|nvidia-(?!ml)", name)}
    assert bool(cuda) == (wheel.extra is not None)
    if wheel.extra is not None:
        toolkit = Version(plan["cuda-toolkit"])
        assert toolkit.major == wheel.cuda_major
        assert wheel.nvrtc is not None
        lowest, highest = wheel.nvrtc.lowest, wheel.nvrtc.highest
        assert (lowest.major, lowest.minor) <= toolkit.release[:2] <= (highest.major, highest.minor)


@pytest.mark.parametrize(("facts", "python", "platform"), TARGETS, ids=str)
def test_uv_installs_the_chosen_wheel(facts: tuple[str, ...], python: str, platform: str, matrix: Matrix) -> None:
    wheel = choose_wheel(matrix, *facts, f"python={python}")
    _assert_plan_matches(wheel, plan_with_uv(*wheel.requirements, python=python, platform=platform))


@pytest.mark.parametrize(
    ("facts", "python", "glibc"),
    [
        (("driver=570.86.15", "gpu=RTX 5090"), "3.12", 28),
        (("driver=580.95.05", "gpu=H100", "libc=glibc-2.17"), "3.12", 17),
        (("driver=580.95.05", "gpu=H100", "libc=glibc-2.26"), "3.12", 26),
        (("driver=570.86.15", "gpu=RTX 5090", "libc=glibc-2.27"), "3.12", 27),
        (("driver=535.104.05", "gpu=A100"), "3.8", 28),
    ],
    ids=str,
)
def test_pip_installs_the_chosen_wheel(facts: tuple[str, ...], python: str, glibc: int, matrix: Matrix) -> None:
    wheel = choose_wheel(matrix, *facts, f"python={python}")
    _assert_plan_matches(wheel, plan_with_pip(*wheel.requirements, python=python, glibc=glibc))


@pytest.mark.parametrize(
    ("libc", "platform", "rejected"),
    [
        ("glibc-2.17", "x86_64-manylinux_2_17", ("cupy-cuda13x", "14.2.0", "ctk")),
        ("musl-1.2", "x86_64-unknown-linux-musl", ("cupy-cuda13x", "14.2.0", None)),
        ("musl-1.2", "x86_64-unknown-linux-musl", ("cupy-cuda12x", "14.2.0", None)),
    ],
)
def test_a_rejected_candidate_cannot_be_installed(
    libc: str, platform: str, rejected: tuple[str, str, str | None], matrix: Matrix
) -> None:
    """CUDA 13's own wheels require glibc 2.27, and CuPy has no wheel for musl."""
    candidate = Candidate(CandidateKind.WHEEL, *rejected)
    resolution = resolution_of(matrix, "driver=580.95.05", "gpu=H100", f"libc={libc}")
    assert candidate in {entry.candidate for entry in resolution.rejected}
    with pytest.raises(NoSolutionError):
        plan_with_uv(f"{candidate.name}{'[ctk]' if candidate.extra else ''}=={candidate.version}", platform=platform)


# The traps themselves: what pip and uv do without pins. These fail if a later release of them behaves otherwise.


def test_6_uv_and_pip_silently_fall_back_without_the_extra_if_unpinned() -> None:
    for_old_glibc = plan_with_uv("cupy-cuda13x[ctk]", platform="x86_64-manylinux_2_17")
    assert for_old_glibc["cupy-cuda13x"] == "13.6.0"
    assert "cuda-toolkit" not in for_old_glibc
    with_torch = plan_with_uv("torch==2.11.0", "cupy-cuda12x[ctk]")
    assert with_torch["cupy-cuda12x"] == "13.6.0"
    assert not [name for name in with_torch if name.endswith("-cu12")]
    assert plan_with_pip("cupy-cuda13x[ctk]", glibc=17)["cupy-cuda13x"] == "13.6.0"


def test_6_uv_refuses_a_pinned_extra_that_conflicts() -> None:
    with pytest.raises(NoSolutionError, match="cuda-toolkit"):
        plan_with_uv("torch==2.11.0", "cupy-cuda12x[ctk]==14.2.0")


def test_7_the_extra_installs_the_newest_minor_and_a_newer_nvjitlink() -> None:
    plan = plan_with_uv("cupy-cuda13x[ctk]==14.2.0")
    toolkit, linker = Version(plan["cuda-toolkit"]), Version(plan["nvidia-nvjitlink"])
    assert toolkit.release[:2] == Version(plan["nvidia-cuda-nvrtc"]).release[:2]
    assert toolkit.release[:2] >= (13, 4)
    assert linker.release[:2] >= toolkit.release[:2]
    pinned = plan_with_uv("cupy-cuda13x[ctk]==14.2.0", "cuda-toolkit==13.1.*")
    assert Version(pinned["cuda-toolkit"]).release[:2] == (13, 1)


@pytest.mark.parametrize(
    ("requirements", "python", "cupy"),
    [
        (("cupy-cuda12x",), "3.9", "13.6.0"),
        (("cupy-cuda12x", "numpy<2"), "3.12", "13.6.0"),
        (("cupy-cuda12x",), "3.8", "12.3.0"),
    ],
)
def test_8_an_unpinned_requirement_is_not_always_the_newest_release(
    requirements: tuple[str, ...], python: str, cupy: str
) -> None:
    assert plan_with_uv(*requirements, python=python)["cupy-cuda12x"] == cupy


def test_13_plain_cupy_has_no_wheel() -> None:
    with pytest.raises(NoSolutionError):
        plan_with_uv("cupy==14.2.0")


def test_the_matrix_has_the_newest_toolkit(matrix: Matrix) -> None:
    """If it fails, run ``gpuenv matrix refresh``."""
    newest = Version(plan_with_uv("cuda-toolkit")["cuda-toolkit"])
    newest_known = max(row.cuda for row in matrix.cuda_minors if row.toolkit_wheels)
    assert (newest_known.major, newest_known.minor) == newest.release[:2]


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_the_cuda_packages_need_the_c_library_of_their_rows(arch: str, matrix: Matrix) -> None:
    """uv knows 2.17 and 2.28; there are no packages for aarch64 before 12.3."""
    for row in matrix.cuda_minors:
        requirement = f"cuda-toolkit[cublas,cudart,cufft,curand,cusolver,cusparse,nvrtc]=={row.cuda}.*"
        if row.toolkit_libc is None or (arch == "aarch64" and row.cuda < CudaVersion(12, 3)):
            continue
        assert plan_with_uv(requirement, platform=f"{arch}-manylinux_2_28")
        if row.toolkit_libc <= Libc("glibc", 2, 17):
            assert plan_with_uv(requirement, platform=f"{arch}-manylinux_2_17")
        else:
            with pytest.raises(NoSolutionError):
                plan_with_uv(requirement, platform=f"{arch}-manylinux_2_17")

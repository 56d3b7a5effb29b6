"""What resolve names installs as named: pip and uv are asked for their plan, for every kind of target."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from gpuenv.matrix.tables import Matrix
from gpuenv.model.resolution import Candidate, CandidateKind, WheelChoice
from tests.matrix.asking import chosen, resolved
from tests.matrix.dry_runs import RefusedError, by_pip, by_uv

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
    (("driver=470.256.02", "gpu=K80"), "3.12", "x86_64-manylinux_2_28"),
    (("driver=570.86.15", "gpu=RTX 5090"), "3.13", "x86_64-manylinux_2_28"),
    (("driver=575.57.08", "gpu=B300"), "3.12", "x86_64-manylinux_2_28"),
    (("driver=580.95.05", "gpu=GB200", "arch=aarch64"), "3.12", _AARCH64),
    (("driver=570.86.15", "gpu=GB200", "arch=aarch64"), "3.12", _AARCH64),
    (("driver=580.97", "gpu=RTX 4090", *_WINDOWS), "3.12", "windows"),
    (("driver=536.25", "gpu=RTX 4090", *_WINDOWS), "3.11", "windows"),
]


def _holds(wheel: WheelChoice, plan: dict[str, str]) -> None:
    """The plan has the release that was named, CUDA of its major and minors where the extra brings it, else none."""
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


@pytest.mark.parametrize(("given", "python", "platform"), TARGETS, ids=str)
def test_uv_installs_what_is_named(given: tuple[str, ...], python: str, platform: str, matrix: Matrix) -> None:
    wheel = chosen(matrix, *given, f"python={python}")
    _holds(wheel, by_uv(*wheel.requirements, python=python, platform=platform))


@pytest.mark.parametrize(
    ("given", "python", "glibc"),
    [
        (("driver=570.86.15", "gpu=RTX 5090"), "3.12", 28),
        (("driver=580.95.05", "gpu=H100", "libc=glibc-2.17"), "3.12", 17),
        (("driver=535.104.05", "gpu=A100"), "3.8", 28),
    ],
    ids=str,
)
def test_pip_installs_what_is_named(given: tuple[str, ...], python: str, glibc: int, matrix: Matrix) -> None:
    wheel = chosen(matrix, *given, f"python={python}")
    _holds(wheel, by_pip(*wheel.requirements, python=python, glibc=glibc))


@pytest.mark.parametrize(
    ("libc", "platform", "refused"),
    [
        ("glibc-2.17", "x86_64-manylinux_2_17", ("cupy-cuda13x", "14.2.0", "ctk")),
        ("musl-1.2", "x86_64-unknown-linux-musl", ("cupy-cuda13x", "14.2.0", None)),
        ("musl-1.2", "x86_64-unknown-linux-musl", ("cupy-cuda12x", "14.2.0", None)),
    ],
)
def test_what_is_refused_cannot_be_installed_either(
    libc: str, platform: str, refused: tuple[str, str, str | None], matrix: Matrix
) -> None:
    """CUDA 13's own wheels want glibc 2.27, and CuPy has no wheel for musl."""
    candidate = Candidate(CandidateKind.WHEEL, *refused)
    resolution = resolved(matrix, "driver=580.95.05", "gpu=H100", f"libc={libc}")
    assert candidate in {entry.candidate for entry in resolution.rejected}
    with pytest.raises(RefusedError):
        by_uv(f"{candidate.name}{'[ctk]' if candidate.extra else ''}=={candidate.version}", platform=platform)


# The traps themselves: what a resolver does where nothing is pinned. Should one of them mend its ways, this tells.


def test_6_without_a_pin_uv_and_pip_step_back_from_the_extra_in_silence() -> None:
    by_libc = by_uv("cupy-cuda13x[ctk]", platform="x86_64-manylinux_2_17")
    assert by_libc["cupy-cuda13x"] == "13.6.0"
    assert "cuda-toolkit" not in by_libc
    by_torch = by_uv("torch==2.11.0", "cupy-cuda12x[ctk]")
    assert by_torch["cupy-cuda12x"] == "13.6.0"
    assert not [name for name in by_torch if name.endswith("-cu12")]
    assert by_pip("cupy-cuda13x[ctk]", glibc=17)["cupy-cuda13x"] == "13.6.0"


def test_6_with_the_pin_they_refuse() -> None:
    with pytest.raises(RefusedError, match="cuda-toolkit"):
        by_uv("torch==2.11.0", "cupy-cuda12x[ctk]==14.2.0")


def test_7_the_extra_takes_the_newest_minor_and_a_newer_nvjitlink() -> None:
    plan = by_uv("cupy-cuda13x[ctk]==14.2.0")
    toolkit, linker = Version(plan["cuda-toolkit"]), Version(plan["nvidia-nvjitlink"])
    assert toolkit.release[:2] == Version(plan["nvidia-cuda-nvrtc"]).release[:2]
    assert toolkit.release[:2] >= (13, 4)
    assert linker.release[:2] >= toolkit.release[:2]
    assert Version(by_uv("cupy-cuda13x[ctk]==14.2.0", "cuda-toolkit==13.1.*")["cuda-toolkit"]).release[:2] == (13, 1)


@pytest.mark.parametrize(
    ("requirements", "python", "cupy"),
    [
        (("cupy-cuda12x",), "3.9", "13.6.0"),
        (("cupy-cuda12x", "numpy<2"), "3.12", "13.6.0"),
        (("cupy-cuda12x",), "3.8", "12.3.0"),
    ],
)
def test_8_unpinned_is_not_newest(requirements: tuple[str, ...], python: str, cupy: str) -> None:
    assert by_uv(*requirements, python=python)["cupy-cuda12x"] == cupy


def test_13_plain_cupy_has_no_wheel() -> None:
    with pytest.raises(RefusedError):
        by_uv("cupy==14.2.0")


def test_the_matrix_knows_the_newest_toolkit(matrix: Matrix) -> None:
    """Else it is time for ``gpuenv matrix refresh``."""
    newest = Version(by_uv("cuda-toolkit")["cuda-toolkit"])
    known = max(row.cuda for row in matrix.cuda_minors if row.toolkit_wheels)
    assert (known.major, known.minor) == newest.release[:2]

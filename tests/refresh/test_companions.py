"""New releases of a companion, another package than CuPy that requires CUDA wheels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.refresh.companions import companion_measurement, newer_companions
from gpuenv.refresh.package_index import Index, IndexFile, PipIndex, UvIndex
from gpuenv.refresh.row_edits import RefreshContext
from tests.refresh.index_clients import index_client
from tests.refresh.local_index import LocalIndex, Wheel, make_wheel
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterator

LINUX, MAC = "manylinux_2_28_x86_64", "macosx_14_0_arm64"
TOOLKIT = "Requires-Dist: cuda-toolkit==13.9.1"


@dataclass(frozen=True, slots=True)
class NoProgress:
    """Shows no progress."""

    def start_queries(self, count: int, subject: str) -> None: ...
    def answered(self) -> None: ...
    def start(self, pieces: int, size: int | None) -> None: ...
    def measure(self, name: str, size: int | None) -> None: ...
    def end(self) -> None: ...


def _releases() -> Iterator[Wheel]:
    """Yields wheels like PyTorch's: one for each Python and platform; only those for Linux require CUDA."""
    for release, pythons in (("97.0.0", ("cp311", "cp314")), ("98.0.0", ("cp311", "cp314")), ("99.0.0", ("cp314",))):
        for python in pythons:
            for platform, lines in ((MAC, ()), ("manylinux_2_28_aarch64", ()), (LINUX, (TOOLKIT,)), ("win_amd64", ())):
                yield make_wheel("torch", release, f"{python}-{python}-{platform}", {}, *lines)


@pytest.fixture
def package_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    local_index = LocalIndex({wheel.file: wheel for wheel in _releases()})
    with index_client(request.param, local_index, tmp_path) as index:
        yield index


@pytest.mark.parametrize("package_index", [UvIndex, PipIndex], indirect=True)
def test_every_newer_companion_is_found_for_any_python(package_index: Index) -> None:
    assert newer_companions("torch", MATRIX, package_index) == ["97.0.0", "98.0.0", "99.0.0"]
    rows = tuple(row._replace(versions=">=2.15") if row.distribution == "torch" else row for row in MATRIX.companions)
    assert newer_companions("torch", replace(MATRIX, companions=rows), package_index) == []


@pytest.mark.parametrize("package_index", [UvIndex], indirect=True)
def test_requirements_of_a_companion_are_read_from_its_linux_wheel(package_index: Index, tmp_path: Path) -> None:
    work = RefreshContext(package_index, {}, tmp_path, tmp_path / "tmp", "2026-11-22", NoProgress(), None, None, ())
    for version, python in (("98.0.0", "cp311"), ("99.0.0", "cp314")):
        row = companion_measurement("torch", version, work).run()
        assert row.source["file"] == f"torch-{version}-{python}-{python}-{LINUX}.whl"
        assert (row.row["cuda_major"], row.row["cuda"], row.row["pins"]) == (13, "13.9", ["cuda-toolkit==13.9.1"])


@pytest.mark.parametrize(
    ("tag", "platform"),
    [
        ("manylinux1_x86_64", "linux-x86_64"),
        ("manylinux2014_aarch64", "linux-aarch64"),
        ("manylinux_2_12_x86_64.manylinux2010_x86_64", "linux-x86_64"),
        ("linux_x86_64", "linux-x86_64"),
        ("win_amd64", "windows-x86_64"),
        ("win_arm64", "windows-arm64"),
        ("win32", None),
        ("macosx_10_9_x86_64", None),
        ("macosx_11_0_arm64", None),
        ("musllinux_1_2_x86_64", None),
        ("manylinux2014_ppc64le", None),
        ("any", None),
    ],
)
def test_the_platform_of_a_wheel_is_read_from_its_tag(tag: str, platform: str | None) -> None:
    assert IndexFile(f"torch-1.0-cp311-cp311-{tag}.whl", "").platform == platform

"""CUDA wheels of another major than CuPy's: what is told of them, and that what is proposed cures and harms nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.snapshot import Library, Snapshot
from tests.doctor.installed_target import LIBRARIES, SITE, changed, found, healthy

__all__ = ["healthy"]

PLACE = f"{SITE}/nvidia/cu13/lib"
ALL = {
    "nvidia-cublas": "13.1.0.3",
    "nvidia-cuda-nvrtc": "13.0.88",
    "nvidia-cuda-runtime": "13.0.96",
    "nvidia-cufft": "12.0.0.61",
    "nvidia-cusparse": "12.6.3.3",
}


def astray(library: Library, soname: str, folder: str = PLACE) -> Library:
    """A library of CuPy's for which cuda-pathfinder takes that of another major."""
    path = f"{folder}/{soname}"
    return replace(library, path=path, finder_path=path)


NVRTC, CUBLAS = astray(LIBRARIES[0], "libnvrtc.so.13"), astray(LIBRARIES[1], "libcublas.so.13")


def beside(healthy: Snapshot, packages: dict[str, str], *first: Library) -> Snapshot:
    """The healthy target with further packages, and with these libraries in place of its first ones."""
    there = {**healthy.target.packages, **packages}
    return changed(healthy, packages=there, libraries=(*first, *LIBRARIES[len(first) :]))


def test_every_wheel_of_the_other_major_is_to_be_removed(matrix: Matrix, healthy: Snapshot) -> None:
    """One that stays is still loaded first, whatever its own version counts by."""
    finding = found(matrix, beside(healthy, {**ALL, "nvidia-cublas-cu12": "12.9.2.10"}, NVRTC, CUBLAS))["LIB603"]
    assert finding.cause is Cause.LIBRARY_PATH_CONFLICT
    command = finding.fix[0].command or ()
    assert [word for word in command if word.startswith("nvidia-")] == list(ALL)


def test_one_library_without_its_nvrtc_is_removed_too(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, beside(healthy, {"nvidia-cublas": "13.1.0.3"}, LIBRARIES[0], CUBLAS))["LIB603"]
    assert "nvidia-cublas" in (finding.fix[0].command or ())
    assert any(entry.fact == "target.packages.nvidia-cublas" for entry in finding.evidence)


def test_what_a_framework_needs_is_not_removed(matrix: Matrix, healthy: Snapshot) -> None:
    """CuPy follows it, or one of them moves out."""
    finding = found(matrix, beside(healthy, {**ALL, "torch": "2.11.0"}, NVRTC, CUBLAS))["LIB603"]
    assert finding.cause is Cause.TORCH_CUPY_CONFLICT
    *kept, alone = finding.fix
    assert not any("nvidia-" in " ".join(fix.command or ()) for fix in kept)
    assert any("install cupy-cuda13x" in " ".join(fix.command or ()) for fix in kept)
    assert "torch" in kept[-1].text
    assert not alone.safe
    assert {"torch", *ALL} <= {*(alone.command or ())}, "the framework goes with what it needs"


def test_a_framework_for_which_the_driver_is_too_old_goes_first(matrix: Matrix, healthy: Snapshot) -> None:
    older = assume(beside(healthy, {**ALL, "torch": "2.11.0"}, NVRTC, CUBLAS), ["driver=550.54.15"], matrix)
    fixes = found(matrix, older)["LIB603"].fix
    assert {"torch", *ALL} <= {*(fixes[0].command or ())}
    assert not fixes[0].safe
    assert fixes[1].text.startswith("Or ")


def test_a_framework_of_cupys_own_major_has_not_brought_them(matrix: Matrix, healthy: Snapshot) -> None:
    finding = found(matrix, beside(healthy, {"torch": "2.9.0", "nvidia-cuda-nvrtc": "13.0.88"}, NVRTC))["LIB603"]
    assert finding.cause is Cause.LIBRARY_PATH_CONFLICT
    assert "nvidia-cuda-nvrtc" in (finding.fix[0].command or ())


@pytest.mark.parametrize("packages", [{}, ALL])
def test_the_first_cure_is_no_alternative(matrix: Matrix, healthy: Snapshot, packages: dict[str, str]) -> None:
    """A toolkit that comes first may be of no package."""
    libraries = [astray(library, "libnvrtc.so.13", "/usr/local/cuda-13.0/lib64") for library in LIBRARIES[:1]]
    finding = found(matrix, beside(healthy, packages, *libraries))["LIB603"]
    assert not finding.fix[0].text.startswith(("Or ", "Then "))


def test_a_title_names_each_library_and_a_folder_once(matrix: Matrix, healthy: Snapshot) -> None:
    title = found(matrix, beside(healthy, ALL, NVRTC, CUBLAS))["LIB603"].title
    assert "libnvrtc.so.12, libcublas.so.12" in title
    assert title.count(PLACE) == 1

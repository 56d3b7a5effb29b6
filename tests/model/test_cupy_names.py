"""Names of CuPy's distributions, including those of its first releases."""

from __future__ import annotations

import pytest

from gpuenv.model.cupy import cuda_major, cuda_major_of, cuda_minor, is_cupy, line_of_build
from gpuenv.model.versions import CudaVersion


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("cupy-cuda13x", 13),
        ("cupy-cuda12x", 12),
        ("cupy-cuda115", 11),
        ("cupy-cuda102", 10),
        ("cupy-cuda92", 9),
        ("cupy-cuda80", 8),
        ("cupy-rocm-5-0", None),
        ("cupy", None),
    ],
)
def test_a_distribution_of_cupy_names_its_cuda_major(name: str, major: int | None) -> None:
    assert is_cupy(name)
    assert cuda_major(name) == major


@pytest.mark.parametrize("name", ["cupy-xarray", "cupy-cuda", "cupy-cuda1", "cupy-cuda12", "cupy-cuda1234", "cupyx"])
def test_another_distribution_with_a_similar_name_is_not_cupy(name: str) -> None:
    assert not is_cupy(name)


@pytest.mark.parametrize(
    ("name", "cuda"),
    [
        ("cupy-cuda80", CudaVersion(8, 0)),
        ("cupy-cuda102", CudaVersion(10, 2)),
        ("cupy-cuda117", CudaVersion(11, 7)),
        ("cupy-cuda118", None),
        ("cupy-cuda120", None),
        ("cupy-cuda11x", None),
        ("cupy", None),
    ],
)
def test_wheel_lines_for_one_cuda_minor_end_with_11_7(name: str, cuda: CudaVersion | None) -> None:
    assert cuda_minor(name) == cuda


@pytest.mark.parametrize(
    ("release", "cuda", "name"),
    [
        ("10.6.0", CudaVersion(11, 4), "cupy-cuda114"),
        ("11.0.0a1", CudaVersion(11, 4), "cupy-cuda11x"),
        ("12.3.0", CudaVersion(11, 1), "cupy-cuda111"),
        ("14.2.0", CudaVersion(12, 9), "cupy-cuda12x"),
        ("1!14.2", CudaVersion(12, 9), "cupy-cuda12x"),
        ("unknown", CudaVersion(12, 9), None),
        ("14.2.0", CudaVersion(0, 0), None),
    ],
)
def test_the_wheel_line_of_a_build_follows_from_its_cuda_version(
    release: str, cuda: CudaVersion, name: str | None
) -> None:
    assert line_of_build(release, cuda) == name


@pytest.mark.parametrize(
    ("name", "packages", "linked", "major"),
    [
        ("cupy", {"cuda-version": "13.0"}, 12, 12),
        ("cupy", {"cuda-version": "13.0", "cudatoolkit": "11.8.0"}, None, 13),
        ("cupy-core", {"cudatoolkit": "11.8.0"}, None, 11),
        ("cupy", {}, None, None),
        ("cupy-cuda12x", {"cuda-version": "13.0"}, None, 12),
    ],
)
def test_a_linked_library_outranks_other_packages(
    name: str, packages: dict[str, str], linked: int | None, major: int | None
) -> None:
    assert cuda_major_of(name, packages, linked) == major

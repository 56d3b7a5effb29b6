"""CuPy's distributions by name, those of its first releases too."""

from __future__ import annotations

import pytest

from gpuenv.model.lines import cuda_major, is_cupy


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
def test_a_distribution_of_cupy(name: str, major: int | None) -> None:
    assert is_cupy(name)
    assert cuda_major(name) == major


@pytest.mark.parametrize("name", ["cupy-xarray", "cupy-cuda", "cupy-cuda1", "cupy-cuda12", "cupy-cuda1234", "cupyx"])
def test_what_is_built_on_cupy_is_not_cupy(name: str) -> None:
    assert not is_cupy(name)

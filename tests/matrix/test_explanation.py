"""The explanation says why the answer is not the newest release, and what else cannot use the GPU."""

from __future__ import annotations

import pytest

from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.reading import known
from gpuenv.report.text import wheel_lines
from tests.matrix.resolutions import machine, resolution_of

A100 = ("driver=580.95.05", "gpu=A100")
OLD_DRIVER = ("driver=550.54.15", "gpu=A100")
_NEEDS_580 = "needs driver >= 580.65.06, found driver 550.54.15 (CUDA 12.4)."
_TORCH = "Not cupy-cuda12x 14.2.0: needs torch built for CUDA 12 or absent, found torch 2.15.0 built for CUDA 13.2."
_OLD_GPU = "Not cupy-cuda13x 14.2.0: needs compute capability >= 7.5 (NVRTC 13, CuPy 14.2.0), "
_PYTHONS = "3.10, 3.11, 3.12, 3.13, 3.14, 3.14t"


def _explained(matrix: Matrix, *facts: str) -> list[str]:
    """The lines about releases that are not chosen and packages that cannot use the GPU."""
    lines = resolution_of(matrix, *facts).explanation.splitlines()
    return [line for line in lines if line.startswith("Not ") or "cannot use this GPU" in line]


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        (A100, []),
        ((*A100, "package.torch=2.15.0"), []),
        (
            (*OLD_DRIVER, "package.torch=2.15.0"),
            [
                f"Not cupy-cuda13x 14.2.0: {_NEEDS_580}",
                _TORCH,
                f"torch 2.15.0, built for CUDA 13, cannot use this GPU: {_NEEDS_580}",
            ],
        ),
        (
            (*OLD_DRIVER, "package.cudf-cu13=26.10.2", "package.rmm-cu13=26.10.0", "python=3.10"),
            [
                f"Not cupy-cuda13x 14.2.0: {_NEEDS_580}",
                (
                    "Not cupy-cuda12x 14.2.0: needs cudf-cu13 built for CUDA 12 or absent, "
                    "found cudf-cu13 26.10.2 built for CUDA 13."
                ),
                (
                    "Not cupy-cuda11x 13.6.0: needs cudf-cu13 that allows CuPy 13.6.0, "
                    "found cudf-cu13 26.10.2 that requires CuPy !=14.1.0,>=14.0.1."
                ),
                (
                    "Not cupy-cuda102 12.3.0: needs compute capability <= 7.5 (NVRTC 10, CuPy 12.3.0), "
                    "found NVIDIA A100 (8.0); needs cudf-cu13 that allows CuPy 12.3.0, "
                    "found cudf-cu13 26.10.2 that requires CuPy !=14.1.0,>=14.0.1."
                ),
                f"cudf-cu13 26.10.2, rmm-cu13 26.10.0, built for CUDA 13, cannot use this GPU: {_NEEDS_580}",
            ],
        ),
        (
            ("driver=580.95.05", "gpu=V100", "package.torch=2.15.0"),
            [
                f"{_OLD_GPU}found NVIDIA V100 (7.0).",
                _TORCH,
                (
                    "torch 2.15.0, built for CUDA 13, cannot use this GPU: needs compute capability >= 7.5, "
                    "found NVIDIA V100 (7.0)."
                ),
            ],
        ),
        (
            (*A100, "package.torch=2.6.0"),
            [
                (
                    "Not cupy-cuda13x 14.2.0: needs torch built for CUDA 13 or absent, "
                    "found torch 2.6.0 built for CUDA 12.4."
                )
            ],
        ),
        ((*A100, "python=3.9"), [f"Not cupy-cuda13x 14.2.0: needs Python {_PYTHONS}, found 3.9."]),
        (
            (*OLD_DRIVER, "python=3.9"),
            [
                f"Not cupy-cuda13x 14.2.0: needs Python {_PYTHONS}, found 3.9; {_NEEDS_580}",
                f"Not cupy-cuda12x 14.2.0: needs Python {_PYTHONS}, found 3.9.",
            ],
        ),
        ((*A100, "numpy=1.26.4"), ["Not cupy-cuda13x 14.2.0: needs NumPy <2.6,>=2.0, found 1.26.4."]),
        (
            ("driver=470.82.01", "gpu=A100"),
            [
                "Not cupy-cuda13x 14.2.0: needs driver >= 580.65.06, found driver 470.82.01 (CUDA 11.4).",
                "Not cupy-cuda12x 14.2.0: needs driver >= 525.60.13, found driver 470.82.01 (CUDA 11.4).",
            ],
        ),
        (
            (*A100, "libc=glibc-2.17"),
            ["Not cupy-cuda13x[ctk] 14.2.0: needs at least glibc-2.27 for [ctk], found glibc-2.17."],
        ),
        (
            (*A100, "libc=musl-1.2"),
            [
                "Not cupy-cuda13x 14.2.0: needs at least glibc-2.17, found musl-1.2.",
                "Not cupy-cuda12x 14.2.0: needs at least glibc-2.17, found musl-1.2.",
                "Not cupy-cuda11x 13.6.0: needs at least glibc-2.17, found musl-1.2.",
                (
                    "Not cupy-cuda102 12.3.0: needs at least glibc-2.17, found musl-1.2; "
                    "needs compute capability <= 7.5 (NVRTC 10, CuPy 12.3.0), found NVIDIA A100 (8.0)."
                ),
            ],
        ),
        (
            ("os=windows", "driver=551.23", "gpu=RTX 4090", "package.jax-cuda13-plugin=0.12.0.1"),
            [
                "Not cupy-cuda13x 14.2.0: needs driver >= 580, found driver 551.23 (CUDA 12.4).",
                (
                    "Not cupy-cuda12x 14.2.0: needs jax-cuda13-plugin built for CUDA 12 or absent, "
                    "found jax-cuda13-plugin 0.12.0.1 built for CUDA 13."
                ),
                (
                    "jax-cuda13-plugin 0.12.0.1, built for CUDA 13, cannot use this GPU: needs driver >= 580, "
                    "found driver 551.23 (CUDA 12.4)."
                ),
            ],
        ),
        (
            ("arch=aarch64", "driver=580.95.05", "gpu=GTX 980", "gpu=H100"),
            [f"{_OLD_GPU}found GeForce GTX 980 (5.2)."],
        ),
    ],
)
def test_explains_what_is_not_the_newest_release(matrix: Matrix, facts: tuple[str, ...], lines: list[str]) -> None:
    assert _explained(matrix, *facts) == lines


def test_a_c_library_without_wheels_of_numpy_is_named_with_the_pythons_that_have_them(matrix: Matrix) -> None:
    facts = (*A100, "python=3.14", "libc=glibc-2.17")
    newest, second, *_ = _explained(matrix, *facts, "numpy=none")
    reason = "needs at least glibc-2.27 for NumPy's wheels for Python 3.14, found glibc-2.17."
    assert (newest, second) == (f"Not cupy-cuda13x 14.2.0: {reason}", f"Not cupy-cuda12x 14.2.0: {reason}")
    resolution = resolution_of(matrix, *facts, "numpy=none")
    assert resolution.next_better is not None
    assert [(change.fact, change.needed) for change in resolution.next_better.changes] == [
        ("target.python", "3.10, 3.11, 3.12, 3.13")
    ]
    assert resolution_of(matrix, *facts, "numpy=2.5.5").wheel is not None
    assert resolution_of(matrix, *A100, "python=3.14", "libc=glibc-2.27", "numpy=none").wheel is not None


def test_a_library_that_no_framework_may_need_is_not_reported(matrix: Matrix) -> None:
    assert not resolution_of(matrix, *OLD_DRIVER, "package.nvidia-cublas=13.1.0.3").unusable


def test_a_forward_compatible_libcuda_runs_the_package(matrix: Matrix) -> None:
    snapshot = machine(matrix, *OLD_DRIVER, "driver-cuda=13.2", "package.torch=2.15.0")
    library = known("/usr/local/cuda/compat/libcuda.so.1", "libcuda")
    carried = snapshot._replace(driver=snapshot.driver._replace(cuda_library=library))
    assert [entry.package for entry in resolve(snapshot, matrix).unusable] == ["torch 2.15.0"]
    assert not resolve(carried, matrix).unusable


@pytest.mark.parametrize("facts", [("driver=none", "gpu=A100"), ("driver=550.54.15", "gpu=none"), ("gpu=A100",)])
def test_a_missing_driver_or_gpu_is_not_blamed_on_the_packages(matrix: Matrix, facts: tuple[str, ...]) -> None:
    assert not resolution_of(matrix, *facts, "package.torch=2.15.0").unusable


def test_the_doctor_explains_an_older_release_only(matrix: Matrix) -> None:
    def shown(*facts: str) -> list[str]:
        return [line.text.strip() for line in wheel_lines(resolution_of(matrix, *facts))]

    old = shown(*OLD_DRIVER, "package.torch=2.15.0")
    assert f"Not cupy-cuda13x 14.2.0: {_NEEDS_580}" in old
    assert f"torch 2.15.0, built for CUDA 13, cannot use this GPU: {_NEEDS_580}" in old
    assert not [line for line in shown(*OLD_DRIVER) if line.startswith("Not ")]

"""NVIDIA's monthly framework images: the CUDA of those in the matrix, and of no others."""

from __future__ import annotations

import pytest

from gpuenv.image.dockerfile.base_images import base_of
from tests.support.matrix import MATRIX


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("nvcr.io/nvidia/pytorch:25.12-py3", "13.1"),
        ("nvcr.io/nvidia/pytorch:25.04-py3", "12.9"),
        ("nvcr.io/nvidia/pytorch:20.02-py3", "10.2"),
        ("nvcr.io/nvidia/tritonserver:23.12-py3", "12.3"),
        ("nvcr.io/nvidia/mxnet:24.06-py3", "12.4"),
        ("nvcr.io/nvidia/pytorch:24.06-py3", "12.5"),
        ("nvcr.io/nvidia/tensorflow:22.01-tf2-py3", "11.6"),
        ("nvcr.io/nvidia/tensorflow:24.06-tf2-py3", None),
        ("nvcr.io/nvidia/pytorch:99.01-py3", None),
        ("nvcr.io/nvidia/tritonserver:23.12-py3-min", None),
        ("nvcr.io/nvidia/pytorch:25.12-py3-igpu", None),
        ("example.org/pytorch:25.12-py3", None),
    ],
)
def test_the_month_of_an_image_shows_its_cuda(text: str, cuda: str | None) -> None:
    base = base_of(text, MATRIX)
    assert (str(base.cuda) if base.cuda else None) == cuda
    assert base.unknown == (cuda is None and not base.tegra)


def test_pytorch_has_the_cuda_of_triton_in_every_documented_month() -> None:
    """The rows of months with only a document of Triton rely on this; their source counts the months."""
    read = [row for row in MATRIX.ngc_releases if row.source != "triton-libtorch"]
    pytorch, triton = (
        {row.release: row.cuda for row in read if image in row.images} for image in ("pytorch", "tritonserver")
    )
    both = pytorch.keys() & triton.keys()
    assert {release for release in both if pytorch[release] != triton[release]} == set()
    assert f"in each of the {len(both)} months" in str(MATRIX.sources["triton-libtorch"].note)
    taken = [row for row in MATRIX.ngc_releases if row.source == "triton-libtorch"]
    assert taken
    assert all(row.cuda == triton[row.release] for row in taken)

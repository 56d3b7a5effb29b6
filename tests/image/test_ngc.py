"""NVIDIA's framework images, whose tags are months: the CUDA of those that the matrix has, and of no others."""

from __future__ import annotations

import pytest

from gpuenv.image.dockerfile.base_images import base_of
from tests.support.matrix import MATRIX


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("nvcr.io/nvidia/pytorch:25.12-py3", "13.1"),
        ("nvcr.io/nvidia/tritonserver:23.12-py3", "12.3"),
        ("nvcr.io/nvidia/mxnet:24.06-py3", "12.4"),
        ("nvcr.io/nvidia/pytorch:24.06-py3", None),
        ("nvcr.io/nvidia/pytorch:99.01-py3", None),
        ("nvcr.io/nvidia/tritonserver:23.12-py3-min", None),
        ("nvcr.io/nvidia/pytorch:25.12-py3-igpu", None),
        ("example.org/pytorch:25.12-py3", None),
    ],
)
def test_the_month_names_the_cuda_where_it_was_read(text: str, cuda: str | None) -> None:
    base = base_of(text, MATRIX)
    assert (str(base.cuda) if base.cuda else None) == cuda
    assert base.unknown == (cuda is None and not base.tegra)


@pytest.mark.parametrize("row", MATRIX.ngc_releases, ids=lambda row: f"{row.image}:{row.release}")
def test_a_row_says_what_its_source_says(row: object) -> None:
    release, cuda, source = (getattr(row, name) for name in ("release", "cuda", "source"))
    cited = MATRIX.sources[source]
    assert release in str(cited.title)
    assert f"CUDA {cuda}." in str(cited.section)

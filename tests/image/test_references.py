"""What is named as an image and is none, or is one although it looks odd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.image.inspect.image_names import parse_name
from tests.image.test_fetch import get

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("./image.tar", "no such file"),
        ("/srv/image.tar", "no such file"),
        ("images/app.tar.gz", "no such file"),
        ("docker-archive:app.tar", "no such file"),
        ("docker://python:3.12", "here it is python:3.12"),
        ("oci:./layout", "here it is ./layout"),
        ("https://hub.docker.com/r/nvidia/cuda", "address of a page"),
        ("nvidia/cuda:${TAG}", "nothing has replaced"),
        ("nvidia/cuda@sha256:12", "behind @"),
        ("Ubuntu:22.04", "expected lower case: ubuntu:22.04"),
        ("sha256:" + "1" * 64, "is the ID of an image"),
        ("1" * 64, "is the ID of an image"),
    ],
)
def test_what_was_meant_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ImageError) as caught:
        get(text, tmp_path)
    assert said in str(caught.value)
    assert caught.value.is_input


@pytest.mark.parametrize("text", ["dir:1", "oci:latest", "sif:2", "app:1.tar", "tar:latest"])
def test_an_odd_name_is_a_name(text: str) -> None:
    assert str(parse_name(text)) == text

"""Arguments that are no references of images, and unusual ones that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.image.reference import parse_reference
from tests.image.test_fetch import get

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("./image.tar", "no such file"),
        ("/srv/image.tar", "no such file"),
        ("images/app.tar.gz", "no such file"),
        ("docker-archive:app.tar", "no such file"),
        ("docker://python:3.12", "here it is python:3.12"),
        ("oci:./layout", "here it is ./layout"),
        ("https://hub.docker.com/r/nvidia/cuda", "address of a page"),
        ("nvidia/cuda:${TAG}", "was not replaced"),
        ("nvidia/cuda@sha256:12", "expected a digest after @"),
        ("Ubuntu:22.04", "expected lower case: ubuntu:22.04"),
        ("sha256:" + "1" * 64, "is the ID of an image"),
        ("1" * 64, "is the ID of an image"),
    ],
)
def test_an_error_says_what_was_meant(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError) as caught:
        get(text, tmp_path)
    assert message in str(caught.value)
    assert caught.value.is_input


@pytest.mark.parametrize("text", ["dir:1", "oci:latest", "sif:2", "app:1.tar", "tar:latest"])
def test_an_unusual_name_is_valid(text: str) -> None:
    assert str(parse_reference(text)) == text

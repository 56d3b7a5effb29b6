"""References to images: valid, unusual and invalid ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.image.reference import ImageReferenceError, parse_reference
from tests.image.test_fetch import get

if TYPE_CHECKING:
    from pathlib import Path


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("python:3.12-slim-bookworm", ("python", "3.12-slim-bookworm", None)),
        ("nvidia/cuda:12.9.1-devel-ubuntu24.04", ("nvidia/cuda", "12.9.1-devel-ubuntu24.04", None)),
        ("127.0.0.1:5055/a/b", ("127.0.0.1:5055/a/b", None, None)),
        (f"nvcr.io/nvidia/cuda:1@{DIGEST}", ("nvcr.io/nvidia/cuda", "1", DIGEST)),
        ("[::1]:5000/x:y", ("[::1]:5000/x", "y", None)),
    ],
)
def test_a_reference_is_parsed(text: str, parts: tuple[str, str | None, str | None]) -> None:
    parsed = parse_reference(text)
    assert (parsed.familiar, parsed.tag, parsed.digest) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UPPER:1",
        "-x",
        "a:b:c",
        "x" * 300,
        "a/../b",
        "a/B",
        "a:b c",
        "a:-b",
        "a\nRUN id",
        "a@sha256:12",
        "a:$(id)",
        'a"',
        "-t",
        f"a:{'x' * 129}",
        "a//b",
        "a\n",
    ],
)
def test_an_invalid_reference_is_refused(text: str) -> None:
    with pytest.raises(ImageReferenceError):
        parse_reference(text)


@given(st.text(max_size=40))
def test_a_reference_is_one_argument_of_a_dockerfile(text: str) -> None:
    try:
        parse_reference(text)
    except ImageReferenceError:
        return
    assert text.split() == [text]
    assert not set(text) & set("$\"'\\#")


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
def test_an_invalid_reference_is_refused_with_a_hint(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError) as caught:
        get(text, tmp_path)
    assert message in str(caught.value)
    assert caught.value.is_input


@pytest.mark.parametrize("text", ["dir:1", "oci:latest", "sif:2", "app:1.tar", "tar:latest"])
def test_an_unusual_name_is_valid(text: str) -> None:
    assert str(parse_reference(text)) == text

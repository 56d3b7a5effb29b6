"""What check-image says of several compose files that are one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.judge_compose import judge_compose
from gpuenv.image.dockerfile.judge_file import DockerfileOptions
from gpuenv.image.inspect.image_facts import ImageError
from tests.image.composing import IMAGE, RESERVED, told
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path


def test_an_override_beside_it_is_taken_unasked(tmp_path: Path) -> None:
    text = f"services:\n  a:\n{IMAGE}"
    assert told(tmp_path, text, {"compose.gpu.yaml": f"services:\n  a:\n{RESERVED}\n"}) == [
        ("CMP921", "compose.yaml", 2)
    ]
    assert told(tmp_path, text, {"compose.override.yaml": f"services:\n  a:\n{RESERVED}\n"}) == []


MERGES = [
    # what the second file adds, and what is then found
    ("environment: [FOO=1]\n    devices: [/dev/fuse]", []),
    ("environment:\n    devices:\n    image:", []),
    ("environment: [NVIDIA_VISIBLE_DEVICES]\n    devices: !reset []", [("CMP923", "a.yaml", 4)]),
    ("environment: {FOO: 1}\n    volumes: ['./x:/x']", []),
    ("environment: [NVIDIA_VISIBLE_DEVICES=void]", [("CMP924", "b.yaml", 3)]),
    ("environment: !override [FOO=1]\n    devices: !override [/dev/fuse]", [("CMP923", "a.yaml", 4)]),
    ("environment: {NVIDIA_VISIBLE_DEVICES: !reset null}\n    devices: !reset []", [("CMP923", "a.yaml", 4)]),
    ("runtime: runc\n    devices: !override [/dev/fuse]", [("CMP921", "a.yaml", 2)]),
    ("gpus: [{capabilities: [compute, gpu], count: 0}]", [("CMP922", "b.yaml", 3)]),
    ("build: {args: {X: y}, dockerfile: Gone}", [("CMP926", "b.yaml", 3)]),
]


@pytest.mark.parametrize(("more", "found"), MERGES)
def test_files_are_merged_as_compose_does_it(
    tmp_path: Path, more: str, found: list[tuple[str, str, int | None]]
) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    asks = "    environment: [NVIDIA_VISIBLE_DEVICES=all]\n    devices: ['nvidia.com/gpu=all']\n"
    first.write_text(f"services:\n  a:\n    image: python:3.12-slim\n    runtime: nvidia\n{asks}")
    second.write_text(f"services:\n  a:\n    {more}\n")
    judged = judge_compose(first, DockerfileOptions(), MATRIX, [second])
    assert [(each.code, (each.file or "").rsplit("/", 1)[-1], each.line) for each in judged.findings] == found
    assert judged.files == (str(first), str(second))


def test_requests_of_two_files_are_all_kept_with_their_places(tmp_path: Path) -> None:
    text = f"services:\n  a:\n{IMAGE}\n{RESERVED.replace('count: all', 'count: 0')}"
    more = {"compose.override.yaml": f"# two\nservices:\n  a:\n{RESERVED.replace('[gpu]', '[compute]')}\n"}
    assert told(tmp_path, text, more) == [("CMP922", "compose.yaml", 8), ("CMP922", "compose.override.yaml", 8)]


def test_a_line_of_a_file_that_is_extended_is_told_there(tmp_path: Path) -> None:
    text = "services:\n  a:\n    extends: {file: b.yaml, service: b}\n    environment: [X=y]"
    other = {"b.yaml": f"services:\n  b:\n    gpus: all\n{IMAGE}\n    environment: [CUDA_VISIBLE_DEVICES=]\n"}
    assert told(tmp_path, text, other) == [("CMP924", "b.yaml", 5)]


def test_a_dockerfile_in_a_second_file_has_its_lines_there(tmp_path: Path) -> None:
    lines = ("FROM python:3.12-slim", "RUN pip install cupy-cuda12x==14.2.0")
    inline = "\n".join(["    build:", "      dockerfile_inline: |", *(f"        {line}" for line in lines)])
    text = "services:\n  a:\n    build: .\n    gpus: all"
    other = {"compose.override.yaml": f"services:\n  a:\n{inline}\n"}
    assert told(tmp_path, text, other) == [("DKF904", "compose.override.yaml", 6)]


@pytest.mark.parametrize("text", ["", "- a\n", "apiVersion: v1\nkind: Pod\n", "jobs: {}\n", "a: [\n"])
def test_a_second_file_that_is_no_compose_file_is_said(tmp_path: Path, text: str) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(f"services:\n  a:\n{IMAGE}\n    gpus: all\n")
    second.write_text(text)
    with pytest.raises(ImageError, match=r"b\.yaml: line \d+: ") as caught:
        judge_compose(first, DockerfileOptions(), MATRIX, [second])
    assert caught.value.is_input
    second.write_text("volumes: {v: {}}\nx-more: 1\n")
    assert judge_compose(first, DockerfileOptions(), MATRIX, [second]).findings == ()

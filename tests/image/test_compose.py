"""What check-image says of compose files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.judge_compose import judge_compose
from gpuenv.image.dockerfile.judge_file import DockerfileOptions
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.model.finding import Severity
from tests.image.composing import BY_CDI, DOCKERFILE, IMAGE, RESERVED, SWARM, told
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "body",
    [
        f"{IMAGE}\n    gpus: all",
        f"{IMAGE}\n    gpus:\n      - driver: nvidia\n        count: 2",
        f"{IMAGE}\n{RESERVED}",
        f"{IMAGE}\n{RESERVED.replace('[gpu]', '[gpu, compute, utility]')}",
        f"{IMAGE}\n    runtime: nvidia",
        f"{IMAGE}\n    devices:\n      - nvidia.com/gpu=all",
        "    image: postgres:17",
        "    build: .",
        "    image: python:3.12-slim\n    runtime: nvidia\n    environment:\n      NVIDIA_VISIBLE_DEVICES: all",
        f"{IMAGE}\n{BY_CDI}",
        f"{IMAGE}\n{SWARM}",
        f"{IMAGE}\n    devices: [/dev/nvidia0]\n    volumes:\n      - nvidia_driver_384.47:/usr/local/nvidia:ro",
        f"{IMAGE}\n    extends:\n      file: elsewhere.yaml\n      service: gpu",
    ],
)
def test_a_service_that_is_right_is_left_alone(tmp_path: Path, body: str) -> None:
    assert told(tmp_path, f"services:\n  a:\n{body}") == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (IMAGE, [("CMP921", 2)]),
        ("    image: cupy/cupy:v14.2.0", [("CMP921", 2)]),
        ("    image: pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", [("CMP921", 2)]),
        ("    image: x/y:1\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=all", [("CMP921", 2)]),
        (f"{IMAGE}\n    devices:\n      - /dev/nvidia0:/dev/nvidia0", [("CMP921", 5)]),
        (f"{IMAGE}\n{RESERVED.replace('capabilities: [gpu]', '')}", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED.replace('[gpu]', '[compute]')}", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED.replace('[gpu]', '[gpu, utility]')}", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED.replace('[gpu]', '[nvidia-compute]')}", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED.replace('nvidia', 'other').replace('[gpu]', '[tpu]')}", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED.replace('count: all', 'count: 0')}", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED}\n              device_ids: ['0']", [("CMP922", 8)]),
        (f"{IMAGE}\n{RESERVED.replace('reservations', 'limits')}", [("CMP922", 7)]),
        ("    image: python:3.12-slim\n    runtime: nvidia", [("CMP923", 4)]),
        (f"{IMAGE}\n    gpus: all\n    environment:\n      CUDA_VISIBLE_DEVICES: ''", [("CMP924", 6)]),
        (f"{IMAGE}\n    gpus: all\n    environment:\n      - NVIDIA_DRIVER_CAPABILITIES=utility", [("CMP924", 6)]),
        (f"{IMAGE}\n    gpus: all\n    environment:\n      - LD_LIBRARY_PATH=/usr/local/cuda/compat", [("CMP924", 6)]),
        ("    image: nvidia/cuda\n    gpus: all", [("CMP925", 3)]),
        ("    image: nvidia/cuda:${TAG:-latest}\n    gpus: all", [("CMP925", 3)]),
    ],
)
def test_what_is_wrong_is_found_in_its_line(tmp_path: Path, body: str, expected: list[tuple[str, int]]) -> None:
    found = told(tmp_path, f"services:\n  a:\n{body}")
    assert found == [(code, "compose.yaml", line) for code, line in expected]


@pytest.mark.parametrize(
    ("capabilities", "severity"),
    [
        ("[nvidia-compute]", Severity.ERROR),  # Docker Engine: could not select device driver
        ("[compute]", Severity.WARNING),
        ("[gpu, utility]", Severity.WARNING),
    ],
)
def test_how_bad_other_capabilities_are(tmp_path: Path, capabilities: str, severity: Severity) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(f"services:\n  a:\n{IMAGE}\n{RESERVED.replace('[gpu]', capabilities)}\n")
    assert [each.severity for each in judge_compose(path, DockerfileOptions(), MATRIX).findings] == [severity]


def test_an_extended_service_keeps_what_its_base_has_at_every_depth(tmp_path: Path) -> None:
    base = f"  base:\n{IMAGE}\n    environment: {{CUDA_VISIBLE_DEVICES: ''}}\n{RESERVED}"
    own = "  a:\n    extends: {service: base}\n    environment: {X: y}\n    deploy: {replicas: 2}"
    assert told(tmp_path, f"services:\n{base}\n{own}") == [
        ("CMP924", "compose.yaml", 4),
        ("CMP924", "compose.yaml", 4),
    ]


def test_a_dockerfile_in_a_compose_file_is_judged_by_its_lines(tmp_path: Path) -> None:
    inline = "FROM python:3.12-slim\n        RUN pip install cupy-cuda12x==14.2.0"
    build = f"    build:\n      dockerfile_inline: |\n        {inline}"
    text = f"services:\n  a:\n    gpus: all\n{build}\n  b:\n    extends: a"
    assert told(tmp_path, text) == [("DKF904", "compose.yaml", 7)]
    assert told(tmp_path, text.replace("python:3.12-slim", "nvidia/cuda:12.9.1-devel-ubuntu24.04")) == []


def test_the_dockerfile_behind_a_service_is_judged_too(tmp_path: Path) -> None:
    text = "services:\n  a:\n    build:\n      context: app\n      dockerfile: Dockerfile.gpu\n      args: [V=14.2.0]"
    bad = "FROM python:3.12-slim\nARG V\nRUN pip install cupy-cuda12x==$V"
    assert told(tmp_path, text, {"app/Dockerfile.gpu": bad}) == [
        ("CMP921", "compose.yaml", 2),
        ("DKF904", "Dockerfile.gpu", 3),
    ]
    assert told(tmp_path, text + "\n    gpus: all", {"app/Dockerfile.gpu": DOCKERFILE}) == []


def test_anchors_merges_and_extensions_are_understood(tmp_path: Path) -> None:
    text = f"""x-gpu: &gpu
  gpus: all
x-more: &more {{restart: always}}
services:
  a:
    <<: [*gpu, *more]
{IMAGE}
  b:
    extends: a
  c:
    extends: {{service: a}}
    gpus: !reset null"""
    assert told(tmp_path, text) == [("CMP921", "compose.yaml", 10)]


def test_a_file_of_variables_beside_it_is_read(tmp_path: Path) -> None:
    text = "services:\n  a:\n    image: nvidia/cuda:${TAG}\n    gpus: all"
    assert told(tmp_path, text, {".env": "# x\nTAG=latest\n"}) == [("CMP925", "compose.yaml", 3)]
    assert told(tmp_path, text, {".env": "TAG='12.9.1-base-ubuntu24.04'\n"}) == []


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b", "expected services"),
        ("", "expected services"),
        ("services:\n  a: {image: x\n", "line"),
        (BOMB, "aliases make this more than"),
        ("services: &s\n  a: *s", "a value that contains itself"),
        ("services:\n  a: {}\n  a: {}", "line 3: the key a stands here a second time"),
        ("services:\n  [1]: x", "a key that is not text"),
        ("services: " + "[" * 100, "nested"),
        ("x" * (1 << 21), "larger than"),
        ("services:\n  a: {image: x}\nvolume: {}", "line 3: 'volume' stands at the top"),
        ('services:\n  a:\n    image: "\\xff', "line"),
    ],
)
def test_what_is_no_compose_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        told(tmp_path, text)
    assert caught.value.is_input


def test_what_is_extended_from_another_file_is_read_there(tmp_path: Path) -> None:
    text = f"services:\n  a:\n{IMAGE}\n    extends:\n      file: more/common.yaml\n      service: b"
    asks = f"services:\n  b:\n    extends: c\n  c:\n{RESERVED}\n"
    assert told(tmp_path, text, {"more/common.yaml": asks}) == []
    silent = {"more/common.yaml": "services:\n  b:\n    restart: always\n"}
    assert told(tmp_path, text, silent) == [("CMP921", "compose.yaml", 2)]


WRONG = "FROM nvidia/cuda:12.9.1-devel-ubuntu24.04\nRUN pip install cupy-cuda11x==13.6.0\n"
BUILT = {"more/Dockerfile": WRONG, "more/other.yaml": "services:\n  c:\n    gpus: all\n    build: .\n"}


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("services:\n  a:\n    extends: {file: more/other.yaml, service: c}", ""),
        ("services:\n  a:\n    extends: {file: more/b.yaml, service: b}", "extends: {file: other.yaml, service: c}"),
        ("services:\n  a:\n    extends: {file: more/b.yaml, service: b}", "{build: {context: .}, gpus: all}"),
        ("include: [more/other.yaml]", ""),
        ("include: [{path: [more/other.yaml]}]\nservices:\n  a:\n    image: postgres:17", ""),
        ("include: [more/d.yaml]", ""),
        ("include: [{path: more/deep/e.yaml, project_directory: more}]", ""),
        ("include: [compose.yaml, more/d.yaml]", ""),
    ],
)
def test_what_another_file_builds_is_told_from_its_own_folder(tmp_path: Path, text: str, other: str) -> None:
    files = {
        **BUILT,
        "more/b.yaml": f"services:\n  b: {{{other}}}" if other.startswith("extends") else f"services:\n  b: {other}",
        "more/d.yaml": "include: [other.yaml]",
        "more/deep/e.yaml": BUILT["more/other.yaml"],
    }
    assert told(tmp_path, text, files) == [("DKF902", "Dockerfile", 2)]


def test_an_included_service_is_judged_with_its_own_lines(tmp_path: Path) -> None:
    other = {"more/other.yaml": f"# one\nservices:\n  c:\n{IMAGE}\n"}
    assert told(tmp_path, "include:\n- more/other.yaml", other) == [("CMP921", "other.yaml", 3)]
    assert told(tmp_path, f"include:\n- more/other.yaml\nservices:\n  c:\n{IMAGE}\n{RESERVED}", other) == []
    assert told(tmp_path, "include:\n- absent.yaml") == []


def test_every_file_that_was_read_is_told(tmp_path: Path) -> None:
    for name, text in {"compose.yaml": "include:\n- other.yaml", "other.yaml": f"services:\n  c:\n{IMAGE}"}.items():
        (tmp_path / name).write_text(text)
    judged = judge_compose(tmp_path / "compose.yaml", DockerfileOptions(), MATRIX)
    assert [file.rsplit("/", 1)[-1] for file in judged.files] == ["compose.yaml", "other.yaml"]


def test_more_services_than_are_judged_are_refused(tmp_path: Path) -> None:
    text = "services:\n" + "".join(f"  a{number}: {{image: 'postgres:17'}}\n" for number in range(201))
    with pytest.raises(ImageError, match="more than 200 services"):
        told(tmp_path, text)


@pytest.mark.parametrize("value", ["{} # the tag", "'{}' # the tag", '"{}"', "{}", "{}\t# the tag"])
def test_a_comment_in_the_file_of_variables_is_none_of_the_value(tmp_path: Path, value: str) -> None:
    text = "services:\n  a:\n    image: nvidia/cuda:${TAG}"
    variables = {".env": f"TAG={value.format('12.9.1-base-ubuntu24.04')}\nOTHER=a#b\n"}
    assert told(tmp_path, text, variables) == [("CMP921", "compose.yaml", 2)]

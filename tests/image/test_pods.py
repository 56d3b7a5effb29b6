"""What check-image says of Kubernetes manifests and of dev containers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.judge_any import judge_any
from gpuenv.image.dockerfile.judge_file import DockerfileOptions
from gpuenv.image.inspect.image_facts import ImageError
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CUDA = "nvidia/cuda:12.9.1-base-ubuntu24.04"
POD = f"""apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
  - name: main
    image: {CUDA}
"""
C, Y = "CMP921", "a.yaml"
LIMITED = POD + "    resources:\n      limits:\n        nvidia.com/gpu: 1\n"
DEPLOYMENT = f"""# a comment
apiVersion: v1
kind: Service
metadata: {{name: s}}
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      initContainers:
      - name: prepare
        image: {CUDA}
      ephemeralContainers:
      - {{name: look, image: "busybox:1.37"}}
      containers:
      - name: web
        image: nginx:1.27
      - name: gpu
        image: {CUDA}
"""
DOCKERFILE = 'FROM python:3.12-slim\nRUN pip install "cupy-cuda12x[ctk]==14.2.0"\n'


def told(folder: Path, name: str, text: str, files: Mapping[str, str] | None = None) -> tuple[str, list[object]]:
    for place, content in {name: text, **(files or {})}.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(content)
    kind, found = judge_any([folder / name], DockerfileOptions(), MATRIX)
    return kind, [(each.code, (each.file or "").rsplit("/", 1)[-1], each.line) for each in found.findings]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LIMITED, []),
        (LIMITED.replace("nvidia.com/gpu: 1", "nvidia.com/mig-1g.10gb: 1"), []),
        (LIMITED.replace("nvidia.com/gpu", "aliyun.com/gpu-mem"), []),
        (LIMITED.replace("nvidia.com/gpu", "volcano.sh/vgpu-number"), []),
        (LIMITED.replace("nvidia.com/gpu", "cpu"), [("CMP921", "a.yaml", 6)]),
        (LIMITED.replace("nvidia.com/gpu", "rdma/hca"), [("CMP921", "a.yaml", 6)]),
        (POD.replace(CUDA, "nginx:1.27"), []),
        (POD.replace("spec:", "spec:\n  runtimeClassName: nvidia"), []),
        (POD, [("CMP921", "a.yaml", 6)]),
        (LIMITED.replace("limits", "requests"), [("CMP922", "a.yaml", 10)]),
        (LIMITED.replace("gpu: 1", 'gpu: "0"'), [("CMP922", "a.yaml", 10)]),
        (LIMITED + "    env:\n    - name: CUDA_VISIBLE_DEVICES\n      value: '-1'\n", [("CMP924", "a.yaml", 12)]),
        (LIMITED.replace(CUDA, "nvidia/cuda"), [("CMP925", "a.yaml", 7)]),
        (DEPLOYMENT, [("CMP921", "a.yaml", 19), ("CMP921", "a.yaml", 12)]),
        (DEPLOYMENT.replace("busybox:1.37", CUDA).replace("initContainers", "others"), [(C, Y, 19), (C, Y, 15)]),
        (POD.replace("containers", "initContainers"), [("CMP921", "a.yaml", 6)]),
        ("---\n# nothing\n" * 5000 + POD, [("CMP921", "a.yaml", 10006)]),
    ],
)
def test_the_containers_of_a_manifest_are_judged(tmp_path: Path, text: str, found: list[object]) -> None:
    kind, findings = told(tmp_path, "a.yaml", text)
    assert kind == "kubernetes"
    assert findings == found


@pytest.mark.parametrize("text", ["---\n" * 60_000 + POD, f"{LIMITED}---\n" * 1_000])
def test_a_manifest_of_many_documents_takes_no_long_time(tmp_path: Path, text: str) -> None:
    began = time.process_time()
    told(tmp_path, "a.yaml", text)
    assert time.process_time() - began < 20  # seconds; minutes where each document is read with all above it


def test_more_documents_than_anybody_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="line 16001: more than 2000 documents"):
        told(tmp_path, "a.yaml", f"{POD}---\n" * 3_000)


def test_what_is_wrong_in_a_later_document_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"a\.yaml: line 11: "):
        told(tmp_path, "a.yaml", f"{POD}---\n{POD.replace('kind: Pod', 'kind: [Pod')}")


def test_a_template_of_helm_is_no_manifest_yet(tmp_path: Path) -> None:
    text = POD.replace(CUDA, "{{ .Values.image }}").replace("metadata: {name: a}", "{{- if .Values.gpu }}")
    with pytest.raises(ImageError, match="helm template"):
        told(tmp_path, "a.yaml", text)


def test_values_of_json_are_taken_as_json_has_them(tmp_path: Path) -> None:
    whale = json.dumps(
        {"name": "\U0001f433 a,]", "image": CUDA, "x": {"y": [1, 2.5, None, True, {"image": 1}]}}, indent=1
    )
    place = ".devcontainer/devcontainer.json"
    assert told(tmp_path, place, whale) == ("devcontainer", [("CMP921", "devcontainer.json", 3)])
    twice = f'{{\n"image": "nginx:1.27",\n"image":\n"{CUDA}", "half": "\\ud83d"}}'
    assert told(tmp_path, place, twice)[1] == [("CMP921", "devcontainer.json", 3)]
    true = f'{{"image": "{CUDA}", "hostRequirements": {{"gpu": true}}, "a": "\t//no comment"}}'
    assert told(tmp_path, place, true)[1] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"image": x}', "line 2: "),
        ("[1]", "line 1: expected an object"),
        ('{"a": ' * 100_000, "line|nested"),
        ('{\n"a": "b" /* open', "line 2"),
    ],
)
def test_what_is_no_json_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=rf"devcontainer\.json: .*(?:{message})"):
        told(tmp_path, "devcontainer.json", text)


SERVICES = f"services:\n  x:\n    image: {CUDA}\n  y:\n    image: {CUDA}\n"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ('"service": "x"', [2, 4]),
        ('"service": "x", "runServices": []', [2]),
        ('"service": "x", "runServices": ["y"]', [2, 4]),
        ('"service": "y", "runServices": ["y"]', [4]),
    ],
)
def test_only_the_services_that_a_dev_container_starts_are_judged(tmp_path: Path, body: str, lines: list[int]) -> None:
    files = {
        "docker-compose.yml": SERVICES,
        "docker-compose.override.yml": "services:\n  x:\n    environment:\n      CUDA_VISIBLE_DEVICES: ''\n",
    }
    text = f'{{"dockerComposeFile": "docker-compose.yml", {body}}}'
    assert told(tmp_path, "devcontainer.json", text, files)[1] == [("CMP921", "docker-compose.yml", n) for n in lines]


def test_a_service_that_is_not_there_is_said(tmp_path: Path) -> None:
    text = '{"dockerComposeFile": "a.yml", "service": "z", "runServices": []}'
    with pytest.raises(ImageError, match=r"a\.yml: line 1: .*\bz\b.*\bx, y"):
        told(tmp_path, "devcontainer.json", text, {"a.yml": SERVICES})


GPUS = '  "runArgs": ["--gpus", "all"],'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{{\n{GPUS}\n  "image": "{CUDA}"\n}}', []),
        (f'{{\n  "image": "{CUDA}", // CUDA\n  "runArgs": ["--gpus=all",],\n}}', []),
        (f'{{\n  "image": "{CUDA}",\n  "hostRequirements": {{"gpu": "optional"}}\n}}', []),
        (f'{{\n  // none asked for\n  "image": "{CUDA}"\n}}', [("CMP921", "devcontainer.json", 3)]),
        (f'{{\n{GPUS}\n  "build": {{"dockerfile": "../docker/Good", "context": ".."}}\n}}', []),
        (
            f'{{\n{GPUS}\n  "build": {{"dockerfile": "../docker/Dockerfile", "context": ".."}}\n}}',
            [("DKF904", "Dockerfile", 2)],
        ),
        (f'{{\n{GPUS}\n  "build": {{"dockerfile": "Bad", "context": ".."}}\n}}', [("DKF906", "Bad", 2)]),
        (
            f'{{\n{GPUS}\n  "build": {{"dockerfile": "Gone", "context": ".."}}\n}}',
            [("CMP926", "devcontainer.json", 3)],
        ),
        ('{\n  "build": {\n    "dockerfile": "../docker/Dockerfile"\n  }\n}', [("CMP921", "devcontainer.json", 2)]),
        (f'{{\n{GPUS}\n  "dockerFile": "Bad"\n}}', [("DKF906", "Bad", 2)]),
        ('{\n  "dockerComposeFile": ["../a.yml", "../b.yml"],\n  "service": "x"\n}', []),
        ('{\n  "dockerComposeFile": "../a.yml",\n  "service": "x"\n}', [("CMP921", "a.yml", 2)]),
    ],
)
def test_a_dev_container_is_judged(tmp_path: Path, text: str, found: list[tuple[str, str, int]]) -> None:
    files = {
        "docker/Good": DOCKERFILE,
        "docker/Dockerfile": DOCKERFILE.replace("[ctk]", ""),
        ".devcontainer/Bad": "FROM python:3.12-slim\nRUN pip install cupy==14.2.0\n",
        "a.yml": f"services:\n  x:\n    image: {CUDA}\n",
        "b.yml": "services:\n  x:\n    gpus: all\n",
    }
    kind, findings = told(tmp_path, ".devcontainer/devcontainer.json", text, files)
    assert kind == "devcontainer"
    assert {*found} <= {*findings}
    assert found or not findings


def test_a_dockerfile_is_found_from_wherever_one_stands(tmp_path: Path) -> None:
    folder = tmp_path / ".devcontainer"
    folder.mkdir()
    (folder / "Bad").write_text("FROM python:3.12-slim\nRUN pip install cupy==14.2.0\n")
    (folder / "devcontainer.json").write_text('{"build": {"dockerfile": "Bad", "context": ".."}}')
    program = [sys.executable, "-m", "gpuenv", "check-image", "--dockerfile", ".devcontainer/devcontainer.json"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "DKF906" in done.stdout, done.stderr
    assert done.returncode == 1


def test_several_compose_files_are_merged_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(f"services:\n  x:\n    image: {CUDA}\n    gpus: all\n")
    (tmp_path / "b.yml").write_text("services:\n  x:\n    environment:\n      CUDA_VISIBLE_DEVICES: ''\n")
    paths = [tmp_path / "a.yml", tmp_path / "b.yml"]
    kind, judged = judge_any(paths, DockerfileOptions(), MATRIX)
    assert (kind, [entry.code for entry in judged.findings]) == ("compose", ["CMP924"])
    assert judged.files == tuple(map(str, paths))
    with pytest.raises(ImageError, match="only compose files"):
        judge_any([*paths, tmp_path / "Dockerfile"], DockerfileOptions(), MATRIX)


def test_every_container_of_a_long_manifest_is_judged(tmp_path: Path) -> None:
    quiet = "".join(f"  - {{name: a{number}, image: 'postgres:17'}}\n" for number in range(300))
    text = POD.replace("  - name: main", f"{quiet}  - name: main")
    assert told(tmp_path, Y, text) == ("kubernetes", [(C, Y, 306)])

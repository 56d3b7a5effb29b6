"""Findings in compose files, Kubernetes manifests and dev containers, with their lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.judge import DockerfileOptions, judge_files
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.model.finding import Severity
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CUDA = "cupy/cupy:v14.2.0"
IMAGE = f"    image: {CUDA}"
DOCKERFILE = 'FROM python:3.12-slim\nRUN pip install "cupy-cuda12x[ctk]==14.2.0"\n'
RESERVED = """    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              count: all
              capabilities: [gpu]"""
BY_CDI = RESERVED.replace("driver: nvidia", "driver: cdi").replace("count: all", "device_ids: [nvidia.com/gpu=0]")
SWARM = """    deploy:
      resources:
        reservations:
          generic_resources:
            - discrete_resource_spec: {kind: gpu, value: 1}"""
Found = list[tuple[str, str, int | None]]


def found_in(folder: Path, name: str, text: str, files: Mapping[str, str] | None = None) -> Found:
    for place, content in {name: text, **(files or {})}.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(f"{content}\n")
    found = judge_files([folder / name], DockerfileOptions(), MATRIX).findings
    return [(each.code, (each.file or "").rsplit("/", 1)[-1], each.line) for each in found]


def compose(folder: Path, text: str, files: Mapping[str, str] | None = None) -> Found:
    return found_in(folder, "compose.yaml", text, files)


@pytest.mark.parametrize(
    "body",
    [
        f"{IMAGE}\n    gpus: all",
        f"{IMAGE}\n    gpus:\n      - driver: nvidia\n        count: 2",
        f"{IMAGE}\n{RESERVED}",
        f"{IMAGE}\n{RESERVED.replace('[gpu]', '[gpu, compute, utility]')}",
        f"{IMAGE}\n    runtime: nvidia",
        f"{IMAGE}\n    devices:\n      - nvidia.com/gpu=all",
        f"{IMAGE}\n    deploy: {{}}",
        f"{IMAGE}\n    command: serve --cpu",
        f"{IMAGE}\n    environment: [DEVICE=cpu]",
        f"{IMAGE}\n    environment: {{CUDA_VISIBLE_DEVICES: ''}}\n    deploy: {{}}",
        "    image: postgres:17",
        "    image: x/y:1\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=all",
        "    image: python:3.12-slim\n    runtime: nvidia\n    environment:\n      NVIDIA_VISIBLE_DEVICES: all",
        f"{IMAGE}\n{BY_CDI}",
        f"{IMAGE}\n{SWARM}",
        f"{IMAGE}\n    devices: [/dev/nvidia0]\n    volumes:\n      - nvidia_driver_384.47:/usr/local/nvidia:ro",
        f"{IMAGE}\n    extends:\n      file: elsewhere.yaml\n      service: gpu",
        f"{IMAGE}\n{RESERVED.replace('nvidia', 'other').replace('[gpu]', '[tpu]')}",
    ],
)
def test_a_correct_service_has_no_findings(tmp_path: Path, body: str) -> None:
    assert compose(tmp_path, f"services:\n  a:\n{body}") == []


def test_a_service_next_to_one_with_gpus_may_need_none(tmp_path: Path) -> None:
    assert compose(tmp_path, f"services:\n  web:\n{IMAGE}\n  worker:\n{IMAGE}\n    gpus: all") == []


@pytest.mark.parametrize(
    ("body", "code", "line", "severity"),
    [
        (IMAGE, "CMP921", 2, Severity.WARNING),
        ("    image: nvidia/cuda:12.9.1-base-ubuntu24.04", None, 0, None),
        ("    image: pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", None, 0, None),
        (f"{IMAGE}\n    devices:\n      - /dev/nvidia0:/dev/nvidia0", "CMP921", 2, Severity.WARNING),
        (f"{IMAGE}\n{RESERVED.replace('capabilities: [gpu]', '')}", "CMP922", 8, Severity.ERROR),
        (f"{IMAGE}\n{RESERVED.replace('[gpu]', '[compute, utility]')}", None, 0, None),
        (f"{IMAGE}\n{RESERVED.replace('[gpu]', '[gpu, utility]')}", "CMP922", 8, Severity.WARNING),
        # Docker Engine: could not select device driver
        (f"{IMAGE}\n{RESERVED.replace('[gpu]', '[nvidia-compute]')}", "CMP922", 8, Severity.ERROR),
        (f"{IMAGE}\n{RESERVED}\n              device_ids: ['0']", "CMP922", 8, Severity.ERROR),
        (f"{IMAGE}\n{RESERVED.replace('reservations', 'limits')}", "CMP922", 7, Severity.ERROR),
        ("    image: python:3.12-slim\n    runtime: nvidia", "CMP923", 4, Severity.WARNING),
        (f"{IMAGE}\n    gpus: all\n    environment:\n      CUDA_VISIBLE_DEVICES: ''", "CMP924", 6, Severity.ERROR),
        (
            f"{IMAGE}\n    gpus: all\n    environment:\n      - NVIDIA_DRIVER_CAPABILITIES=utility",
            "CMP924",
            6,
            Severity.WARNING,
        ),
        ("    image: nvidia/cuda\n    gpus: all", "CMP925", 3, Severity.ERROR),
        ("    image: nvidia/cuda:${TAG:-latest}\n    gpus: all", "CMP925", 3, Severity.ERROR),
        ("    image: nvidia/cuda:${TAG}\n    gpus: all", None, 0, None),
        ("    build: ./nothing-here", "CMP926", 3, Severity.NOTE),
        ("    build: https://git.example/app.git", "CMP926", 3, Severity.NOTE),
        ("    build:\n      context: .\n      dockerfile: ${NAME}", "CMP926", 3, Severity.NOTE),
    ],
)
def test_an_error_of_a_service_is_found_in_its_line(
    tmp_path: Path, body: str, code: str | None, line: int, severity: Severity | None
) -> None:
    (tmp_path / "compose.yaml").write_text(f"services:\n  a:\n{body}\n")
    found = judge_files([tmp_path / "compose.yaml"], DockerfileOptions(), MATRIX).findings
    assert [(each.code, each.line, each.severity) for each in found] == ([(code, line, severity)] if code else [])


def test_a_dockerfile_in_a_compose_file_has_its_lines(tmp_path: Path) -> None:
    inline = "FROM python:3.12-slim\n        RUN pip install cupy-cuda12x==14.2.0"
    build = f"    build:\n      dockerfile_inline: |\n        {inline}"
    text = f"services:\n  a:\n    gpus: all\n{build}"
    assert compose(tmp_path, text) == [("DKF904", "compose.yaml", 7)]
    assert compose(tmp_path, text.replace("python:3.12-slim", "nvidia/cuda:12.9.1-devel-ubuntu24.04")) == []


def test_the_dockerfile_of_a_service_is_checked_too(tmp_path: Path) -> None:
    text = "services:\n  a:\n    build:\n      context: app\n      dockerfile: Dockerfile.gpu\n      args: [V=14.2.0]"
    bad = "FROM python:3.12-slim\nARG V\nRUN pip install cupy-cuda12x==$V"
    assert compose(tmp_path, text, {"app/Dockerfile.gpu": bad}) == [
        ("CMP921", "compose.yaml", 2),
        ("DKF904", "Dockerfile.gpu", 3),
    ]
    assert compose(tmp_path, text + "\n    gpus: all", {"app/Dockerfile.gpu": DOCKERFILE}) == []


def test_an_image_that_another_service_builds_is_that_of_its_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    build = "  api:\n    build: .\n    image: own/app:1\n"
    worker = "  worker:\n    image: own/app:1\n    gpus: all\n"
    (tmp_path / "compose.yaml").write_text(f"services:\n{worker}{build}")
    judged = judge_files([tmp_path / "compose.yaml"], DockerfileOptions(), MATRIX)
    assert not judged.findings
    assert [(each.service, each.base.text, len(each.cupy)) for each in judged.targets] == [
        ("worker", "python:3.12-slim", 1),
        ("api", "python:3.12-slim", 1),
    ]


def test_anchors_and_merge_keys_are_read(tmp_path: Path) -> None:
    text = f"x-gpu: &gpu\n  gpus: all\nservices:\n  a:\n    <<: *gpu\n{IMAGE}"
    assert compose(tmp_path, text) == []
    assert compose(tmp_path, text.replace("    <<: *gpu\n", "")) == [("CMP921", "compose.yaml", 4)]


def test_the_override_file_is_merged(tmp_path: Path) -> None:
    text = f"services:\n  a:\n{IMAGE}"
    other = {"compose.gpu.yaml": f"services:\n  a:\n{RESERVED}\n"}
    assert compose(tmp_path, text, other) == [("CMP921", "compose.yaml", 2)]
    assert compose(tmp_path, text, {"compose.override.yaml": f"services:\n  a:\n{RESERVED}\n"}) == []


def test_an_option_for_a_dockerfile_is_refused_for_another_file(tmp_path: Path) -> None:
    compose_file, pod, container = (tmp_path / name for name in ("compose.yaml", "pod.yaml", "devcontainer.json"))
    compose_file.write_text("services:\n  a:\n    image: python:$V\n")
    pod.write_text("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: a, image: python}\n")
    container.write_text('{"image": "python"}')
    target, argument = DockerfileOptions(tmp_path, "b"), DockerfileOptions(arguments={"V": "3.12"})
    for file in (compose_file, pod, container):
        with pytest.raises(
            ImageError, match=r"--context and --target do not apply to (compose|kubernetes|devcontainer)"
        ):
            judge_files([file], target, MATRIX)
    for file in (pod, container):
        with pytest.raises(ImageError, match="--build-arg does not apply"):
            judge_files([file], argument, MATRIX)
    assert judge_files([compose_file], argument, MATRIX).findings == ()
    container.write_text('{"dockerComposeFile": "compose.yaml", "service": "a"}')
    assert judge_files([container], argument, MATRIX).findings == ()
    with pytest.raises(ImageError, match="--context and --target do not"):
        judge_files([container], target, MATRIX)


def test_named_compose_files_are_merged_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(f"services:\n  x:\n    image: {CUDA}\n    gpus: all\n")
    (tmp_path / "b.yml").write_text("services:\n  x:\n    environment:\n      CUDA_VISIBLE_DEVICES: ''\n")
    paths = [tmp_path / "a.yml", tmp_path / "b.yml"]
    judged = judge_files(paths, DockerfileOptions(), MATRIX)
    assert (judged.kind, [each.code for each in judged.findings]) == ("compose", ["CMP924"])
    assert judged.files == tuple(map(str, paths))
    with pytest.raises(ImageError, match="only compose files"):
        judge_files([*paths, tmp_path / "Dockerfile"], DockerfileOptions(), MATRIX)


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
        ("services:\n  a: {}\n  a: {}", "line 3: the key a occurs a second time"),
        ("services:\n  [1]: x", "a key that is not text"),
        ("services: " + "[" * 100, "nested"),
        ("x" * (1 << 21), "larger than"),
        ("services:\n" + "".join(f"  a{n}: {{image: 'postgres:17'}}\n" for n in range(201)), "more than 200 services"),
    ],
)
def test_an_invalid_compose_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        compose(tmp_path, text)
    assert caught.value.is_input


POD = f"""apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
  - name: main
    image: {CUDA}
"""
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
      - {{name: prepare, image: "nvidia/cuda"}}
      containers:
      - name: web
        image: nginx:1.27
      - name: gpu
        image: {CUDA}
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LIMITED, []),
        (POD, []),  # a runtime class or the default runtime may give it one
        (LIMITED.replace("nvidia.com/gpu: 1", "nvidia.com/mig-1g.10gb: 1"), []),
        (POD + "    env:\n    - {name: NVIDIA_VISIBLE_DEVICES, value: void}\n", []),
        (LIMITED.replace("limits", "requests"), [("CMP922", "a.yaml", 10)]),
        (LIMITED.replace("gpu: 1", 'gpu: "0"'), []),
        (LIMITED.replace(CUDA, "nvidia/cuda"), [("CMP925", "a.yaml", 7)]),
        (DEPLOYMENT, [("CMP925", "a.yaml", 12)]),
        ("---\n# nothing\n" * 5000 + LIMITED.replace("limits", "requests"), [("CMP922", "a.yaml", 10010)]),
        ("---\n" * 60_000 + POD, []),
        (f"{LIMITED}---\n" * 300, []),
    ],
)
def test_the_containers_of_a_manifest_are_checked(tmp_path: Path, text: str, found: Found) -> None:
    began = time.process_time()
    assert found_in(tmp_path, "a.yaml", text) == found
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{POD}---\n" * 3_000, "line 16000: more than 2000 documents"),
        (f"{POD}---\n{POD.replace('kind: Pod', 'kind: [Pod')}", r"a\.yaml: line 11: "),
        (POD.replace(CUDA, "{{ .Values.image }}").replace("metadata: {name: a}", "{{- if .x }}"), "helm template"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        found_in(tmp_path, "a.yaml", text)


GPUS = '  "runArgs": ["--gpus", "all"],'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f'{{\n{GPUS}\n  "image": "{CUDA}"\n}}', []),
        (f'{{\n  "image": "{CUDA}", // CUDA\n  "runArgs": ["--gpus=all",],\n}}', []),
        (f'{{\n\t"image": "{CUDA}",\n\t"hostRequirements": {{"gpu": "optional"}}\n}}', []),
        (f'{{\n  /* none\n  */ "image": "{CUDA}", "x": [1, 2.5, null, true]\n}}', [("CMP921", "devcontainer.json", 3)]),
        (f'{{\n{GPUS}\n  "build": {{"dockerfile": "../docker/Good", "context": ".."}}\n}}', []),
        (
            f'{{\n{GPUS}\n  "build": {{"dockerfile": "../docker/Dockerfile", "context": ".."}}\n}}',
            [("DKF904", "Dockerfile", 2)],
        ),
        (f'{{\n{GPUS}\n  "build": {{"dockerfile": "Gone", "context": ".."}}\n}}', [("CMP926", "devcontainer.json", 3)]),
        ('{\n  "build": {\n    "dockerfile": "../docker/Good"\n  }\n}', [("CMP921", "devcontainer.json", 2)]),
        (f'{{\n{GPUS}\n  "dockerFile": "Bad"\n}}', [("DKF906", "Bad", 2)]),
        ('{\n  "dockerComposeFile": ["../a.yml", "../b.yml"],\n  "service": "x"\n}', []),
        ('{\n  "dockerComposeFile": "../a.yml",\n  "service": "x"\n}', [("CMP921", "a.yml", 2)]),
        ('{\n  "dockerComposeFile": "../a.yml",\n  "service": "x", "runServices": []\n}', [("CMP921", "a.yml", 2)]),
    ],
)
def test_a_dev_container_is_checked(tmp_path: Path, text: str, found: Found) -> None:
    files = {
        "docker/Good": DOCKERFILE,
        "docker/Dockerfile": DOCKERFILE.replace("[ctk]", ""),
        ".devcontainer/Bad": "FROM python:3.12-slim\nRUN pip install cupy==14.2.0\n",
        "a.yml": f"services:\n  x:\n    image: {CUDA}\n",
        "b.yml": "services:\n  x:\n    gpus: all\n",
    }
    assert found_in(tmp_path, ".devcontainer/devcontainer.json", text, files) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "line"), ("[]", "expected an object"), ('{"a": ' * 100, "nested|line"), ('{\n"a": "b" /* open', "line")],
)
def test_a_malformed_dev_container_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=rf"devcontainer\.json: .*(?:{message})"):
        found_in(tmp_path, "devcontainer.json", text)


def test_a_missing_service_is_reported(tmp_path: Path) -> None:
    text = '{"dockerComposeFile": "a.yml", "service": "z", "runServices": []}'
    with pytest.raises(ImageError, match=r"a\.yml: line 1: there is no service z: x"):
        found_in(tmp_path, "devcontainer.json", text, {"a.yml": f"services:\n  x:\n{IMAGE}\n"})

"""Compose files that are judged, and their usual parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.judge_compose import judge_compose
from gpuenv.image.dockerfile.judge_file import DockerfileOptions
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

IMAGE = "    image: nvidia/cuda:12.9.1-base-ubuntu24.04"
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


def told(folder: Path, text: str, files: Mapping[str, str] | None = None) -> list[tuple[str, str, int | None]]:
    path = folder / "compose.yaml"
    path.write_text(text + "\n")
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    found = judge_compose(path, DockerfileOptions(), MATRIX)
    return [(each.code, (each.file or "").rsplit("/", 1)[-1], each.line) for each in found.findings]

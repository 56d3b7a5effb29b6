"""The containers of Kubernetes manifests, with the lines of what they say.

Kubernetes, "Schedule GPUs" (read 2026-11-22): GPUs are requested below limits; requests alone are not enough. "Runtime
Class": runtimeClassName names the container runtime of a pod. A pod's specification is found wherever a manifest has
one: in a Pod, in the template of a Deployment or a Job, in a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.plain_data import text_of
from gpuenv.image.dockerfile.service import POD, DeviceRequest, Service
from gpuenv.image.dockerfile.stages import Setting

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Document, Plain

_MARKS = re.compile(r"^(?:apiVersion|kind):\s*\S", re.MULTILINE)
_BETWEEN = re.compile(r"^---(?:\s.*)?$")
_GPU = "nvidia.com/"
# Every list of containers that a pod may have: Kubernetes API reference, PodSpec v1 core (read 2026-11-22).
_KINDS = ("containers", "initContainers", "ephemeralContainers")
_MOST_DOCUMENTS = 2_000
_LINE = re.compile(r"\bline (\d+)")
_TEMPLATE = re.compile(r"\{\{.*\}\}")


class ManifestError(ValueError):
    """A file that is no manifest; the message has the line."""


def is_manifest(text: str) -> bool:
    """Whether a text is of Kubernetes: its objects say which version of which kind they are."""
    return {match[0].split(":")[0] for match in _MARKS.finditer(text)} == {"apiVersion", "kind"}


def containers_of(text: str, file: str) -> tuple[Service, ...]:
    """Every container of the pods in a manifest, which may have several documents.

    Args:
        text: the file.
        file: its name, for the findings.

    Raises:
        ManifestError: with the line.
    """
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - only for such a file

    found: list[Service] = []
    for number, (above, part) in enumerate(_documents(text)):
        if number >= _MOST_DOCUMENTS:
            raise ManifestError(f"line {above + 1}: more than {_MOST_DOCUMENTS} documents; judge them in parts")
        try:
            document = parse_shared(part)
        except YamlError as error:
            message = _LINE.sub(lambda match: f"line {int(match[1]) + above}", str(error))  # noqa: B023 - called at once
            hint = ": it is a template; judge what helm template prints" if _TEMPLATE.search(part) else ""
            raise ManifestError(f"{message}{hint}") from error
        found += _of(document, above, file)
    return tuple(found)


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Each document that has anything in it, with the number of lines above it."""
    above, lines = 0, list[str]()
    for number, line in enumerate((*text.splitlines(), "---")):
        if not _BETWEEN.match(line):
            lines.append(line)
            continue
        if any(entry.strip() and not entry.startswith("#") for entry in lines):
            yield above, "\n".join(lines)
        above, lines = number + 1, []


def _of(document: Document, above: int, file: str) -> Iterator[Service]:
    lines = {path: line + above for path, line in document.lines.items()}
    for path, pod in _pods(document.value, ""):
        for kind in _KINDS:
            containers = pod.get(kind)
            for number, body in enumerate(containers if isinstance(containers, list) else ()):
                if isinstance(body, dict):
                    yield _Container(lines, f"{path}{kind}[{number}]", file).service(body, pod)


def _pods(value: Plain, path: str) -> Iterator[tuple[str, dict[str, Plain]]]:
    """The specifications of pods, wherever they stand."""
    if isinstance(value, dict):
        if any(isinstance(value.get(kind), list) for kind in _KINDS):
            yield path, value
        for key, inner in value.items():
            yield from _pods(inner, f"{path}{key}.")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _pods(inner, f"{path.removesuffix('.')}[{number}].")


class _Container:
    """Reads a container of a document."""

    def __init__(self, lines: Mapping[str, int], path: str, file: str) -> None:
        self._lines, self._path, self._file = lines, path, file

    def line(self, path: str = "") -> int:
        """The line of a part, or of the container."""
        whole = f"{self._path}.{path}" if path else self._path
        return self._lines.get(whole) or self._lines.get(self._path) or 1

    def service(self, body: Mapping[str, Plain], pod: Mapping[str, Plain]) -> Service:
        """The container."""
        resources = body.get("resources")
        limits = _named(resources, "limits")
        requested = (name for name in _named(resources, "requests") if name.startswith(_GPU) and name not in limits)
        misplaced = [(name, f"resources.requests.{name}") for name in requested]
        claims = resources.get("claims") if isinstance(resources, dict) else None
        runtime = pod.get("runtimeClassName")
        return Service(
            file=self._file,
            name=str(body.get("name") or "without a name"),
            line=self.line(),
            image=text_of(body.get("image")),
            image_line=self.line("image"),
            source=None,
            environment=dict(self._environment(body.get("env"))),
            requests=tuple(
                DeviceRequest(None, ("gpu",), count, None, self.line(f"resources.limits.{name}"))
                for name, count in limits.items()
                if _is_gpu(name)
            ),
            misplaced=tuple((path, self.line(path)) for _, path in misplaced),
            runtime="nvidia" if isinstance(runtime, str) and runtime.startswith("nvidia") else None,
            runtime_line=self.line(),
            devices=(),
            swarm_gpus=bool(claims),
            kind=POD,
        )

    def _environment(self, value: Plain) -> Iterator[tuple[str, Setting]]:
        for number, entry in enumerate(value if isinstance(value, list) else ()):
            name = entry.get("name") if isinstance(entry, dict) else None
            value_text = entry.get("value") if isinstance(entry, dict) else None
            if isinstance(name, str) and isinstance(value_text, str):
                line = self.line(f"env[{number}]")
                yield name, Setting(value_text, line, line)


def _is_gpu(name: str) -> bool:
    """Whether a resource is NVIDIA's, or one of those by which others hand out shares of its GPUs.

    As public manifests have them (read 2026-11-22): aliyun.com/gpu-mem, volcano.sh/vgpu-number.
    """
    return name.startswith(_GPU) or ("/" in name and "gpu" in name.lower())


def _named(resources: Plain, part: str) -> dict[str, str]:
    """The resources that a part of the resources names, with their counts."""
    named = resources.get(part) if isinstance(resources, dict) else None
    return {name: str(count) for name, count in named.items()} if isinstance(named, dict) else {}

"""The containers of Kubernetes manifests: their images, and the GPUs that they request.

Kubernetes, "Schedule GPUs" (read 2026-11-22): GPUs are requested below limits; requests alone are refused. A pod's
specification is found wherever a manifest has one: in a Pod, in the template of a Deployment or a Job, in a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuenv.image.dockerfile.services import POD, DeviceRequest, Service, ServiceFileError, text_at, value_at
from gpuenv.matrix.strict_yaml import Plain, YamlError, parse_shared

_MARKS = re.compile(r"^(apiVersion|kind):\s*\S", re.MULTILINE)
_CONTENT = re.compile(r"^\s*[^\s#]", re.MULTILINE)
_BETWEEN = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
# Every list of containers that a pod may have: Kubernetes API reference, PodSpec v1 core (read 2026-11-22).
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_MOST = 2000  # documents
_LINE = re.compile(r"\bline (\d+)")


def is_manifest(text: str) -> bool:
    """Whether a text is of Kubernetes: its objects say which version of which kind they are."""
    return set(_MARKS.findall(text)) == {"apiVersion", "kind"}


def containers_of(text: str, file: str) -> list[Service]:
    """Every container of the pods in a manifest, which may have several documents.

    Raises:
        ServiceFileError: with the line.
    """
    found: list[Service] = []
    above = count = 0
    for part in _BETWEEN.split(text):
        below, above = above, above + part.count("\n")
        if not _CONTENT.search(part):
            continue
        count += 1
        if count > _MOST:
            raise ServiceFileError(f"{file}: line {below + 1}: more than {_MOST} documents; check them in parts")
        try:
            document = parse_shared(part)
        except YamlError as error:
            message = _LINE.sub(lambda match: f"line {int(match[1]) + below}", str(error))  # noqa: B023 - called at once
            hint = ": it is a template; check what helm template prints" if "{{" in part else ""
            raise ServiceFileError(f"{file}: {message}{hint}") from error
        lines = {key: line + below for key, line in document.lines.items()}
        found += (_service(body, path, lines, file) for path, body in _containers(document.value, ""))
    return found


def _containers(value: Plain, path: str) -> Iterator[tuple[str, dict[str, Plain]]]:
    """The containers, wherever they stand, with their paths."""
    entries = value.items() if isinstance(value, dict) else ()
    for key, inner in entries:
        below = f"{path}.{key}" if path else key
        if key in _CONTAINERS and isinstance(inner, list):
            yield from ((f"{below}[{n}]", body) for n, body in enumerate(inner) if isinstance(body, dict))
        else:
            yield from _containers(inner, below)
    for number, inner in enumerate(value if isinstance(value, list) else ()):
        yield from _containers(inner, f"{path}[{number}]")


def _service(body: dict[str, Plain], path: str, lines: dict[str, int], file: str) -> Service:
    def line(part: str) -> int:
        return lines.get(f"{path}.{part}") or lines.get(path) or 1

    limits, requests = value_at(body, "resources", "limits"), value_at(body, "resources", "requests")
    asked = {name: str(count) for name, count in limits.items() if _is_gpu(name)} if isinstance(limits, dict) else {}
    refused = [name for name in requests if _is_gpu(name) and name not in asked] if isinstance(requests, dict) else []
    return Service(
        file=file,
        name=text_at(body, "name") or "without a name",
        line=line("name"),
        image=text_at(body, "image"),
        image_line=line("image"),
        requests=tuple(
            DeviceRequest(None, ("gpu",), count, None, line(f"resources.limits.{name}"))
            for name, count in asked.items()
        ),
        misplaced=tuple((f"resources.requests.{name}", line(f"resources.requests.{name}")) for name in refused),
        partial=True,  # a runtime class or a device plugin may give GPUs unasked
        kind=POD,
    )


def _is_gpu(name: str) -> bool:
    return name.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))

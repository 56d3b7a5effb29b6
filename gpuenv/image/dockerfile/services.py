"""Services: what compose files, Kubernetes manifests and dev containers run, each with its image and its GPUs.

Compose: the Compose Specification (compose-spec/compose-spec, read 2026-11-21): 05-services.md, environment, gpus;
deploy.md, devices; build.md; 13-merge.md. Includes and ``extends`` are not followed; such a service is partial.

Kubernetes: "Schedule GPUs" (read 2026-11-22): GPUs are requested below limits; requests alone are refused. A manifest
has pod specifications at any depth: in a Pod, in the template of a Deployment or a Job, in a list.

Dev containers: the Development Container Specification (devcontainers/spec, docs/specs/devcontainerjson-reference.md
and devcontainer-reference.md, read 2026-11-22): image; build.dockerfile and build.context, from the file's own folder;
dockerComposeFile and service; runArgs, the arguments of docker run; hostRequirements.gpu; containerEnv. The file is
JSON with comments and trailing commas, which is YAML without the comments.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.requirements import SourceLocation
from gpuenv.image.dockerfile.stages import Setting
from gpuenv.image.dockerfile.variables import substitute

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain

_RESERVED = "deploy.resources.reservations.devices"
# Common wrong places for devices, which compose refuses: schema/compose-spec.json admits no further keys there.
_MISPLACED = ("deploy.resources.limits.devices", "deploy.resources.devices", "deploy.reservations.devices")
_DRIVER_VOLUME = re.compile(r"nvidia_driver_|:/usr/local/nvidia\b|^/usr/local/nvidia\b|libcuda\.so")
_CPU = re.compile(r"(?:^|[^a-z0-9])cpu(?![a-z0-9_])")
_MAX_SERVICES, _MAX_DOCUMENTS = 200, 2000
_MANIFEST_KEYS = re.compile(r"^(apiVersion|kind):\s*\S", re.MULTILINE)
_CONTENT = re.compile(r"^\s*[^\s#]", re.MULTILINE)
_SEPARATOR = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
# The lists of containers of a pod: Kubernetes API reference, PodSpec v1 core (read 2026-11-22).
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_LINE = re.compile(r"\bline (\d+)")
DEVCONTAINER_NAMES = ("devcontainer.json", ".devcontainer.json")
# A string, which is kept, or a comment. An unterminated one ends with the text.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|\t', re.DOTALL)


class ServiceFileError(ValueError):
    """A file without readable services; the message has the line."""


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """The kind of a service: its name in messages, and the fix that requests a GPU."""

    noun: str
    gpu_fix: str


COMPOSE = ServiceKind("Service", 'Add "gpus: all", or deploy.resources.reservations.devices with capabilities: [gpu].')
POD = ServiceKind("Container", 'Add "nvidia.com/gpu: 1" to its resources.limits.')
DEVCONTAINER = ServiceKind("Dev container", 'Add "--gpus=all" to runArgs, or "gpu": true to hostRequirements.')


@dataclass(frozen=True, slots=True)
class BuildSource:
    """The Dockerfile and the build context of a service's image.

    Attributes:
        context: the build context, relative to the folder of the file.
        dockerfile: the path of the Dockerfile, relative to the folder of the file.
        arguments: values for its ARGs.
        inline: the text of the Dockerfile, if the compose file contains it.
    """

    context: str
    dockerfile: str
    target: str | None
    arguments: Mapping[str, str]
    line: int
    inline: str | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is at an address, or depends on a variable without a value."""
        is_address = "://" in self.context or self.context.startswith("git@")
        return is_address or "$" in self.context + self.dockerfile

    @property
    def path(self) -> str:
        """The normal form of the Dockerfile's path."""
        return posixpath.normpath(self.dockerfile)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request for GPUs; None is not given."""

    driver: str | None
    capabilities: tuple[str, ...] | None
    count: str | None
    device_ids: tuple[str, ...] | None
    line: int


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a compose file, a container of a pod, or a dev container.

    Attributes:
        image: the image; null if the file only builds one.
        misplaced: requests under keys that have no effect, as path and line.
        runtime: the container runtime, with its line.
        has_devices: whether it gets GPUs as devices, volumes or Swarm resources.
        is_for_cpu: whether its name, command or variables name the CPU.
        partial: whether another file, or the cluster, has a part of it.
    """

    file: str
    name: str
    line: int
    image: str | None = None
    image_line: int = 1
    source: BuildSource | None = None
    environment: Mapping[str, Setting] = field(default_factory=dict)
    requests: tuple[DeviceRequest, ...] = ()
    misplaced: tuple[tuple[str, int], ...] = ()
    runtime: tuple[str, int] | None = None
    has_devices: bool = False
    is_for_cpu: bool = False
    partial: bool = False
    kind: ServiceKind = COMPOSE

    def location(self, line: int) -> SourceLocation:
        """The location of a line of the service."""
        return SourceLocation(self.file, line)

    @property
    def label(self) -> str:
        """``Service web``."""
        return f"{self.kind.noun} {self.name}"

    @property
    def requests_gpu(self) -> bool:
        """Whether it requests a GPU in any way."""
        return bool(self.requests) or self.has_devices or (self.runtime is not None and self.runtime[0] == "nvidia")


def services_of(
    files: Sequence[tuple[str, str]], variables: Mapping[str, str], only: Sequence[str] = ()
) -> list[Service]:
    """The services of compose files, given by name and text; a later one is merged over the earlier ones.

    ``variables`` are values for ``${NAME}``; ``only`` names the services to read, all if empty.

    Raises:
        ServiceFileError: with file and line.
    """
    services: dict[str, _ComposeService] = {}
    partly = False
    for name, text in files:
        body, lines = _parse_yaml(text, name)
        if not isinstance(body, dict) or not {"services", "include"} & set(body):
            raise ServiceFileError(f"{name}: line 1: no compose file: expected services")
        partly = partly or "include" in body
        listed = body.get("services")
        for key, value in listed.items() if isinstance(listed, dict) else ():
            reader = _ComposeService(name, key, value if isinstance(value, dict) else {}, lines, variables)
            services[key] = services[key].merged(reader) if key in services else reader
    absent = [name for name in only if name not in services]
    if absent and not partly:
        raise ServiceFileError(f"{files[0][0]}: line 1: there is no service {absent[0]}: {', '.join(services)}")
    if len(services) > _MAX_SERVICES:
        raise ServiceFileError(f"{files[0][0]}: line 1: more than {_MAX_SERVICES} services; check them in parts")
    return [reader.service() for name, reader in services.items() if not only or name in only]


class _ComposeService:
    """A service as parsed, perhaps merged from several files."""

    def __init__(
        self, file: str, name: str, body: dict[str, Plain], lines: Mapping[str, int], variables: Mapping[str, str]
    ) -> None:
        self._file, self._name, self._body, self._lines, self._variables = file, name, body, lines, variables

    def merged(self, later: _ComposeService) -> _ComposeService:
        """The service with another one merged over it; lines refer to the first file."""
        return _ComposeService(self._file, self._name, _merge(self._body, later._body), self._lines, self._variables)

    def _line(self, path: str = "") -> int:
        """The line of a path, or of the nearest one above it."""
        whole = f"services.{self._name}.{path}".rstrip(".")
        while whole not in self._lines and "." in whole:
            whole = whole[: max(whole.rfind("."), whole.rfind("["))]
        return self._lines.get(whole, 1)

    def _text(self, value: Plain) -> str | None:
        return substitute(value.replace("$$", "$"), self._variables.get) if isinstance(value, str) else None

    def service(self) -> Service:
        """The service."""
        body = self._body
        runtime = self._text(body.get("runtime"))
        environment = body.get("environment")
        devices = [self._text(each) or "" for each in _list(body.get("devices")) if isinstance(each, str)]
        nodes = any(device.startswith("/dev/nvidia") for device in devices)
        volumes = [text for each in _list(body.get("volumes")) for text in _texts(each)]
        by_cdi = any(device.startswith("nvidia.com/gpu=") for device in devices)
        swarm = _value_at(body, "deploy", "resources", "reservations", "generic_resources") is not None
        words = {self._name, *_texts(body.get("command")), *_texts(body.get("entrypoint")), *_texts(environment)}
        return Service(
            file=self._file,
            name=self._name,
            line=self._line(),
            image=self._text(body.get("image")),
            image_line=self._line("image"),
            source=self._source(body.get("build")),
            environment={
                name: Setting(self._text(value) or "", line, line)
                for name, value, path in _pairs_of(environment)
                for line in (self._line(f"environment{path}"),)
            },
            requests=tuple(self._requests()),
            misplaced=tuple(
                (path, self._line(path)) for path in _MISPLACED if _value_at(body, *path.split(".")) is not None
            ),
            runtime=(runtime, self._line("runtime")) if runtime else None,
            has_devices=by_cdi or swarm or (nodes and any(map(_DRIVER_VOLUME.search, volumes))),
            is_for_cpu=any(_CPU.search(word.lower()) for word in words) or not body.get("deploy", True),
            partial="extends" in body,
        )

    def _source(self, value: Plain) -> BuildSource | None:
        if isinstance(value, str):
            value = {"context": value}
        if not isinstance(value, dict):
            return None
        context = self._text(value.get("context")) or "."
        return BuildSource(
            context=context,
            dockerfile=posixpath.join(context, self._text(value.get("dockerfile")) or "Dockerfile"),
            target=self._text(value.get("target")),
            arguments={name: self._text(text) or "" for name, text, _ in _pairs_of(value.get("args"))},
            line=self._line("build.dockerfile_inline" if "dockerfile_inline" in value else "build"),
            inline=self._text(value.get("dockerfile_inline")),
        )

    def _requests(self) -> Iterator[DeviceRequest]:
        gpus = self._body.get("gpus")
        if isinstance(gpus, str):
            yield DeviceRequest(None, ("gpu",), gpus, None, self._line("gpus"))
        for number, entry in enumerate(_list(gpus)):
            if isinstance(entry, dict):
                yield self._request({"capabilities": ["gpu"], **entry}, f"gpus[{number}]")
        for number, entry in enumerate(_list(_value_at(self._body, *_RESERVED.split(".")))):
            if isinstance(entry, dict):
                yield self._request(entry, f"{_RESERVED}[{number}]")

    def _request(self, entry: Mapping[str, Plain], path: str) -> DeviceRequest:
        given, ids = entry.get("capabilities"), entry.get("device_ids")
        return DeviceRequest(
            driver=self._text(entry.get("driver")),
            capabilities=None if given is None else tuple(_texts(given)),
            count=self._text(entry.get("count")),
            device_ids=None if ids is None else tuple(_texts(ids)),
            line=self._line(path),
        )


def _merge(former: dict[str, Plain], later: Mapping[str, Plain]) -> dict[str, Plain]:
    """Mappings are merged, sequences appended, all else replaced."""
    found = dict(former)
    for key, value in later.items():
        before = former.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            found[key] = _merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            found[key] = [*before, *value]
        else:
            found[key] = value
    return found


def _list(value: Plain) -> list[Plain]:
    return value if isinstance(value, list) else []


def _texts(value: Plain) -> list[str]:
    """A text, or the texts of a list or a mapping."""
    if isinstance(value, str):
        return [value]
    entries = list(value.values()) if isinstance(value, dict) else _list(value)
    return [entry for entry in entries if isinstance(entry, str)]


def is_manifest(text: str) -> bool:
    """Whether a text is a Kubernetes manifest: it has the keys apiVersion and kind."""
    return set(_MANIFEST_KEYS.findall(text)) == {"apiVersion", "kind"}


def containers_of(text: str, file: str) -> list[Service]:
    """The containers of all pods in a manifest, which may have several documents.

    Raises:
        ServiceFileError: with the line.
    """
    found: list[Service] = []
    above = count = 0
    for part in _SEPARATOR.split(text):
        below, above = above, above + part.count("\n")
        if not _CONTENT.search(part):
            continue
        count += 1
        if count > _MAX_DOCUMENTS:
            raise ServiceFileError(
                f"{file}: line {below + 1}: more than {_MAX_DOCUMENTS} documents; check them in parts"
            )
        hint = ": it is a template; check what helm template prints" if "{{" in part else ""
        value, lines = _parse_yaml(part, file, below, hint)
        found += (_container_service(body, path, lines, file) for path, body in _containers(value, ""))
    return found


def _containers(value: Plain, path: str) -> Iterator[tuple[str, dict[str, Plain]]]:
    """The containers at any depth, with their paths."""
    entries = value.items() if isinstance(value, dict) else ()
    for key, inner in entries:
        below = f"{path}.{key}" if path else key
        if key in _CONTAINERS and isinstance(inner, list):
            yield from ((f"{below}[{n}]", body) for n, body in enumerate(inner) if isinstance(body, dict))
        else:
            yield from _containers(inner, below)
    for number, inner in enumerate(_list(value)):
        yield from _containers(inner, f"{path}[{number}]")


def _container_service(body: dict[str, Plain], path: str, lines: dict[str, int], file: str) -> Service:
    def line(part: str) -> int:
        return lines.get(f"{path}.{part}") or lines.get(path) or 1

    limits, requests = _value_at(body, "resources", "limits"), _value_at(body, "resources", "requests")
    limited = {name: str(count) for name, count in limits.items() if _is_gpu(name)} if isinstance(limits, dict) else {}
    refused = [name for name in requests if _is_gpu(name) and name not in limited] if isinstance(requests, dict) else []
    return Service(
        file=file,
        name=_text_at(body, "name") or "without a name",
        line=line("name"),
        image=_text_at(body, "image"),
        image_line=line("image"),
        requests=tuple(
            DeviceRequest(None, ("gpu",), count, None, line(f"resources.limits.{name}"))
            for name, count in limited.items()
        ),
        misplaced=tuple((f"resources.requests.{name}", line(f"resources.requests.{name}")) for name in refused),
        partial=True,  # a runtime class or a device plugin may give GPUs without a request
        kind=POD,
    )


def _is_gpu(name: str) -> bool:
    return name.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))


@dataclass(frozen=True, slots=True)
class Devcontainer:
    """A dev container: a container of its own, or services of compose files; all of them, if none is named."""

    service: Service | None
    compose: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


def devcontainer_of(text: str, file: str) -> Devcontainer:
    """Reads a devcontainer.json.

    Raises:
        ServiceFileError: with the line.
    """
    bare = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " " + "\n" * found[0].count("\n"), text)
    body, lines = _parse_yaml(bare, file)
    if not isinstance(body, dict):
        raise ServiceFileError(f"{file}: line 1: expected an object")
    compose = body.get("dockerComposeFile")
    if compose is None:
        return Devcontainer(_devcontainer_service(body, lines, file))
    names = _texts(compose if isinstance(compose, list) else [compose])
    if not names:
        raise ServiceFileError(f"{file}: line 1: dockerComposeFile names no file")
    more = body.get("runServices")
    wanted = _texts([body.get("service"), *more]) if isinstance(more, list) else []
    return Devcontainer(None, tuple(names), tuple(dict.fromkeys(wanted)))


def _devcontainer_service(body: dict[str, Plain], lines: dict[str, int], file: str) -> Service:
    arguments = " ".join(_texts(_list(body.get("runArgs"))))
    line = lines.get("runArgs", 1)
    gpus = re.findall(r"--gpus[= ]\"?([^\s\"]+)", arguments)
    requests = [DeviceRequest(None, ("gpu",), value, None, line) for value in gpus]
    if _value_at(body, "hostRequirements", "gpu") not in (None, "false", False):
        requests.append(DeviceRequest(None, ("gpu",), None, None, lines.get("hostRequirements.gpu", 1)))
    runtime = re.search(r"--runtime[= ](\S+)", arguments)
    return Service(
        file=file,
        name=_text_at(body, "name") or "of this file",
        line=lines.get("image") or lines.get("build") or 1,
        image=_text_at(body, "image"),
        image_line=lines.get("image", 1),
        source=_devcontainer_source(body, lines),
        environment={
            name: Setting(value, lines.get(f"containerEnv{path}", 1), lines.get(f"containerEnv{path}", 1))
            for name, value, path in _pairs_of(body.get("containerEnv"))
        },
        requests=tuple(requests),
        runtime=(runtime[1], line) if runtime else None,
        has_devices=re.search(r"--device[= ](?:nvidia\.com/gpu|/dev/nvidia)", arguments) is not None,
        is_for_cpu=re.search(r"\bcpu\b", _text_at(body, "name") or "", re.IGNORECASE) is not None,
        kind=DEVCONTAINER,
    )


def _devcontainer_source(body: dict[str, Plain], lines: dict[str, int]) -> BuildSource | None:
    """The Dockerfile and its context; both paths are relative to the file's folder."""
    dockerfile = _text_at(body, "build", "dockerfile") or _text_at(body, "dockerFile")
    if dockerfile is None:
        return None
    context = _text_at(body, "build", "context") or _text_at(body, "context") or posixpath.dirname(dockerfile)
    return BuildSource(
        context=context or ".",
        dockerfile=dockerfile,
        target=_text_at(body, "build", "target"),
        arguments={name: value for name, value, _ in _pairs_of(_value_at(body, "build", "args"))},
        line=lines.get("build.dockerfile") or lines.get("dockerFile") or 1,
    )


def _parse_yaml(text: str, file: str, lines_before: int = 0, hint: str = "") -> tuple[Plain, dict[str, int]]:
    """The value of a YAML text, and the line of each path; the text begins after some lines of the file."""
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - to explain a rule needs no YAML

    try:
        document = parse_shared(text)
    except YamlError as error:
        message = _LINE.sub(lambda match: f"line {int(match[1]) + lines_before}", str(error))
        raise ServiceFileError(f"{file}: {message}{hint}") from error
    return document.value, {path: line + lines_before for path, line in document.lines.items()}


def _value_at(value: Plain, *keys: str) -> Plain:
    """The value at a path of keys; None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text_at(value: Plain, *keys: str) -> str | None:
    """The text at a path of keys; None if it is missing or no text."""
    found = _value_at(value, *keys)
    return found if isinstance(found, str) else None


def _pairs_of(value: Plain) -> Iterator[tuple[str, str, str]]:
    """Names, values and paths of a mapping or of a list of ``NAME=value``; leaves out names without a value."""
    for name, text in value.items() if isinstance(value, dict) else ():
        if isinstance(text, str):
            yield name, text, f".{name}"
    for number, entry in enumerate(_list(value)):
        name, equals, text = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if equals:
            yield name, text, f"[{number}]"

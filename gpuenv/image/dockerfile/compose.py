"""The services of a compose file, with their lines.

The Compose Specification (compose-spec/compose-spec, read 2026-11-21): 05-services.md, environment, gpus; deploy.md,
devices; build.md, Build definition; 14-include.md.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.compose_merge import (
    Node,
    join_path,
    nodes_of,
    override_services,
    plain_of,
    relative_to,
    resolve_extends,
)
from gpuenv.image.dockerfile.plain_data import at
from gpuenv.image.dockerfile.service import OF_A_FILE, BuildSource, DeviceRequest, Service
from gpuenv.image.dockerfile.stages import Setting
from gpuenv.image.dockerfile.variables import substitute

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain


# What of the driver is mounted by hand: the volume of nvidia-docker 1, or its libraries one by one.
_DRIVER_VOLUME = re.compile(r"nvidia_driver_|:/usr/local/nvidia\b|^/usr/local/nvidia\b|libcuda\.so")


_MOST_SERVICES, _MOST_INCLUDED = 200, 50
# What a compose file may have at its top: the Compose Specification, schema/compose-spec.json (read 2026-11-22).
_TOP = ("version", "name", "include", "services", "models", "networks", "volumes", "secrets", "configs")


class ComposeError(ValueError):
    """A file that is no compose file; the message has the file and the line."""


@dataclass(frozen=True, slots=True)
class ComposeText:
    """A file's name, as it is shown, and what stands in it."""

    name: str
    text: str


def services_of(
    files: Sequence[ComposeText],
    variables: Mapping[str, str],
    load: Callable[[str], ComposeText | None] = lambda _: None,
    only: Sequence[str] = (),
) -> tuple[Service, ...]:
    """Every service of compose files.

    Args:
        files: the file, and those that are merged over it, in their order.
        variables: what stands for ``${NAME}``.
        load: another file, of which a service extends one, or that is included; from the first file's folder.
        only: the services that are meant, if not all.

    Raises:
        ComposeError: with the file and the line.
    """
    reading = _Files(load)
    first, *more = (reading.whole(file) for file in files)
    services = _services(first)
    including = any(node.at("include") for node in (first, *more))
    if services is None and not including:
        raise ComposeError(f"{files[0].name}: line 1: no compose file: expected services")
    services = services or {}
    for node in more:
        services = override_services(services, _services(node) or {})
    services = {**reading.included((first, *more)), **services}
    if len(services) > _MOST_SERVICES:  # each may extend a large one
        raise ComposeError(f"{files[0].name}: line 1: more than {_MOST_SERVICES} services; judge them in parts")
    absent = [name for name in only if name not in services]
    if absent and not including:
        names = ", ".join(services)
        raise ComposeError(f"{files[0].name}: line 1: there is no service {absent[0]}; its services: {names}")
    meant = ((name, body) for name, body in services.items() if not only or name in only)
    found = []
    for name, body in meant:
        if isinstance(body.value, Mapping):
            whole, known = resolve_extends(body, services, reading.others)
            service = _Reader(whole, variables).service(name, tuple(reading.names))
            found.append(service if known else replace(service, partly_elsewhere=True))
    return tuple(found)


class _Files:
    """Reads the files that come together, each with lines of its own."""

    def __init__(self, load: Callable[[str], ComposeText | None]) -> None:
        self.names: list[str] = []
        self._load = load
        self._read: dict[str, Mapping[str, Node] | None] = {}

    def whole(self, file: ComposeText) -> Node:
        """The root node of a compose file."""
        from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - only for such a file

        try:
            document = parse_shared(file.text)
        except YamlError as error:
            raise ComposeError(f"{file.name}: {error}") from error
        keys = document.value if isinstance(document.value, dict) else {}
        other = [key for key in keys if key not in _TOP and not key.startswith("x-")]
        if other and "services" in keys:
            line = document.lines.get(other[0], 1)
            raise ComposeError(f"{file.name}: line {line}: {other[0]!r} stands at the top of no compose file")
        if other or not keys:
            raise ComposeError(f"{file.name}: line 1: no compose file: expected services")
        self.names.append(file.name)
        return nodes_of(document, (len(self.names) - 1) * OF_A_FILE)

    def others(self, name: str) -> Mapping[str, Node] | None:
        """The services of a file that another one names; none where it cannot be read."""
        if name not in self._read:
            whole = self._other(name)
            services = _services(whole) if whole is not None else None
            self._read[name] = None if services is None else relative_to(services, posixpath.dirname(name))
        return self._read[name]

    def _other(self, name: str) -> Node | None:
        file = self._load(name)
        try:
            return self.whole(file) if file is not None else None
        except ComposeError:
            return None

    def included(self, files: Sequence[Node]) -> Mapping[str, Node]:
        """The services of all files that these include, and of those that they include in turn."""
        found: dict[str, Node] = {}
        left = [("", entry) for file in files for entry in _entries(file.at("include"))]
        seen: set[tuple[str, ...]] = set()
        while left and len(seen) < _MOST_INCLUDED:
            folder, entry = left.pop(0)
            paths = tuple(join_path(folder, path) for path in _paths(entry))
            if not paths or paths in seen:
                continue
            seen.add(paths)
            wholes = [whole for path in paths if (whole := self._other(path)) is not None]
            named = entry.at("project_directory")
            own = join_path(folder, named.text) if named is not None and named.text else posixpath.dirname(paths[0])
            services: Mapping[str, Node] = {}
            for whole in wholes:
                services = override_services(services, _services(whole) or {})
                left += [(own, inner) for inner in _entries(whole.at("include"))]
            found = {**relative_to(services, own), **found}
        return found


def _entries(node: Node | None) -> tuple[Node, ...]:
    """The entries of a list."""
    return node.value if node is not None and isinstance(node.value, tuple) else ()


def _paths(entry: Node) -> Iterator[str]:
    """The files that an entry of include names, in its short form or its long one."""
    path = entry if entry.text is not None else entry.at("path")
    nodes = (path,) if path is not None and path.text is not None else _entries(path)
    yield from (node.text for node in nodes if node.text is not None)


def _services(whole: Node) -> Mapping[str, Node] | None:
    """The table of services of a compose file."""
    node = whole.at("services")
    return node.value if node is not None and isinstance(node.value, Mapping) else None


class _Reader:
    """Reads a service after merging."""

    def __init__(self, node: Node, variables: Mapping[str, str]) -> None:
        self._lines: dict[str, int] = {}
        value = plain_of(node, "", self._lines)
        self._body = value if isinstance(value, dict) else {}
        self._variables = variables

    def line(self, path: str = "") -> int:
        """The line of a path, or of the nearest one above it."""
        while path and path not in self._lines:
            path = path[:-1].rpartition("[" if path.endswith("]") else ".")[0]
        return self._lines[path]

    def text(self, value: Plain) -> str | None:
        """A text with its variables replaced."""
        return substitute(value.replace("$$", "$"), self._variables.get) if isinstance(value, str) else None

    def service(self, name: str, files: tuple[str, ...]) -> Service:
        """The service."""
        body = self._body
        resources = at(body, "deploy", "resources")
        return Service(
            file=files[0],
            files=files,
            name=name,
            line=self.line(),
            image=self.text(body.get("image")),
            image_line=self.line("image"),
            source=self._source(body.get("build")),
            environment=self._environment(body.get("environment")),
            requests=(*self._gpus(body.get("gpus")), *self._requests(resources)),
            misplaced=tuple(self._misplaced(body, resources)),
            runtime=self.text(body.get("runtime")),
            runtime_line=self.line("runtime"),
            devices=tuple(self._devices(body.get("devices"))),
            swarm_gpus=at(resources, "reservations", "generic_resources") is not None,
            mounts_driver=any(map(_DRIVER_VOLUME.search, self._volumes(body.get("volumes")))),
        )

    def _source(self, value: Plain) -> BuildSource | None:
        line = self.line("build")
        if isinstance(value, str):
            return BuildSource(self.text(value) or ".", "Dockerfile", None, {}, line)
        if not isinstance(value, dict):
            return None
        return BuildSource(
            context=self.text(value.get("context")) or ".",
            dockerfile=self.text(value.get("dockerfile")) or "Dockerfile",
            target=self.text(value.get("target")),
            arguments={name: setting.value for name, setting in self._pairs(value.get("args"), "build.args")},
            line=line,
            inline=self.text(value.get("dockerfile_inline")),
            inline_line=self.line("build.dockerfile_inline"),
            named="dockerfile" in value,
        )

    def _environment(self, value: Plain) -> dict[str, Setting]:
        return dict(self._pairs(value, "environment"))

    def _pairs(self, value: Plain, path: str) -> Iterator[tuple[str, Setting]]:
        """Names and values, as a mapping or as a list of ``NAME=value``; one without a value is the caller's."""
        if isinstance(value, dict):
            for name, text in value.items():
                if text is not None:
                    line = self.line(f"{path}.{name}")
                    yield name, Setting(self.text(text) or "", line, line)
        for number, entry in enumerate(value if isinstance(value, list) else ()):
            name, equals, text = entry.partition("=") if isinstance(entry, str) else ("", "", "")
            if equals:
                line = self.line(f"{path}[{number}]")
                yield name, Setting(self.text(text) or "", line, line)

    def _gpus(self, value: Plain) -> Iterator[DeviceRequest]:
        """``gpus: all``, or a list of requests, which are for GPUs by themselves."""
        if isinstance(value, str):
            yield DeviceRequest(None, ("gpu",), value, None, self.line("gpus"))
        for number, entry in enumerate(value if isinstance(value, list) else ()):
            if isinstance(entry, dict):
                yield self._request({"capabilities": ["gpu"], **entry}, f"gpus[{number}]")

    def _requests(self, resources: Plain) -> Iterator[DeviceRequest]:
        path = "deploy.resources.reservations.devices"
        value = at(resources, "reservations", "devices")
        for number, entry in enumerate(value if isinstance(value, list) else ()):
            if isinstance(entry, dict):
                yield self._request(entry, f"{path}[{number}]")

    def _request(self, entry: Mapping[str, Plain], path: str) -> DeviceRequest:
        given = entry.get("capabilities")
        ids = entry.get("device_ids")
        return DeviceRequest(
            driver=self.text(entry.get("driver")),
            capabilities=_words(given) if given is not None else None,
            count=self.text(entry.get("count")),
            device_ids=_words(ids) if ids is not None else None,
            line=self.line(path),
        )

    def _misplaced(self, body: dict[str, Plain], resources: Plain) -> Iterator[tuple[str, int]]:
        for path, value in (
            ("deploy.resources.limits.devices", at(resources, "limits", "devices")),
            ("deploy.resources.devices", at(resources, "devices")),
            ("deploy.reservations.devices", at(body, "deploy", "reservations", "devices")),
            ("resources.reservations.devices", at(body, "resources", "reservations", "devices")),
        ):
            if value is not None:
                yield path, self.line(path)

    def _devices(self, value: Plain) -> Iterator[tuple[str, int]]:
        for number, entry in enumerate(value if isinstance(value, list) else ()):
            text = entry.get("source") if isinstance(entry, dict) else entry
            if isinstance(text, str):
                yield self.text(text) or "", self.line(f"devices[{number}]")

    def _volumes(self, value: Plain) -> Iterator[str]:
        for entry in value if isinstance(value, list) else ():
            parts = [entry] if isinstance(entry, str) else list(entry.values()) if isinstance(entry, dict) else []
            yield from (part for part in parts if isinstance(part, str))


def _words(value: Plain) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(entry for entry in entries if isinstance(entry, str))

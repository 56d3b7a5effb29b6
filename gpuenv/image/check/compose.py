"""The services of a compose file, with the lines of what they say. Pure but for the files that it is given.

The Compose Specification (compose-spec/compose-spec, read 2026-11-21): 05-services.md, environment, gpus; deploy.md,
devices; build.md, Build definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.image.check.compose_merging import Loader, chain, extended, merged
from gpuenv.image.check.service import DeviceRequest, Service, Source
from gpuenv.image.check.stages import Setting
from gpuenv.image.check.variables import replaced

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Document, Plain


# What of the driver is mounted by hand: the volume of nvidia-docker 1, or its libraries one by one.
_DRIVER_VOLUME = re.compile(r"nvidia_driver_|:/usr/local/nvidia\b|^/usr/local/nvidia\b|libcuda\.so")


class ComposeError(ValueError):
    """A file that is no compose file; the message has the line."""


def services_of(
    text: str, file: str, variables: Mapping[str, str], load: Loader = lambda _: None, overrides: Sequence[str] = ()
) -> tuple[Service, ...]:
    """Every service of a compose file.

    Args:
        text: the file.
        file: its name, for the findings.
        variables: what stands for ``${NAME}``.
        load: the services of another file that a service extends.
        overrides: the texts of the files that are merged over it, in their order.

    Raises:
        ComposeError: with the line.
    """
    document = _document(text)
    services = plain_services(document.value)
    if services is None:
        raise ComposeError("line 1: no compose file: expected services")
    for override in overrides:
        services = merged(services, plain_services(_document(override).value) or {})
    found = []
    for name, body in services.items():
        if isinstance(body, dict):
            whole, known = extended(body, services, load)
            service = _Reader(document, chain(name, services), variables).service(name, whole, file)
            found.append(service if known else replace(service, partly_elsewhere=True))
    return tuple(found)


def read_services(text: str) -> Mapping[str, Plain] | None:
    """The services of a compose file as plain values; none where it is none."""
    try:
        return plain_services(_document(text).value)
    except ComposeError:
        return None


def _document(text: str) -> Document:
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - only for such a file

    try:
        return parse_shared(text)
    except YamlError as error:
        raise ComposeError(str(error)) from error


def plain_services(value: Plain) -> dict[str, Plain] | None:
    """The table of services of a compose file."""
    services = value.get("services") if isinstance(value, dict) else None
    return services if isinstance(services, dict) else None


class _Reader:
    """Reads a service of the document; what it has not itself stands in those that it extends."""

    def __init__(self, document: Document, chain: tuple[str, ...], variables: Mapping[str, str]) -> None:
        self._lines = document.lines
        self._paths = [f"services.{name}" for name in chain]
        self._variables = variables

    def line(self, path: str = "") -> int:
        """The line of a path, or of the nearest one above it."""
        found = (self._lines.get(f"{above}.{path}") for above in self._paths if path)
        exact = next(filter(None, found), None)
        if exact is not None:
            return exact
        whole = f"{self._paths[0]}.{path}" if path else self._paths[0]
        while whole:
            if whole in self._lines:
                return self._lines[whole]
            whole = whole[:-1].rpartition("[" if whole.endswith("]") else ".")[0]
        return 1

    def text(self, value: Plain) -> str | None:
        """A text with its variables replaced."""
        return replaced(value.replace("$$", "$"), self._variables.get) if isinstance(value, str) else None

    def service(self, name: str, body: dict[str, Plain], file: str) -> Service:
        """The service."""
        resources = _at(body, "deploy", "resources")
        return Service(
            file=file,
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
            swarm_gpus=_at(resources, "reservations", "generic_resources") is not None,
            mounts_driver=any(map(_DRIVER_VOLUME.search, self._volumes(body.get("volumes")))),
        )

    def _source(self, value: Plain) -> Source | None:
        line = self.line("build")
        if isinstance(value, str):
            return Source(self.text(value) or ".", "Dockerfile", None, {}, line)
        if not isinstance(value, dict):
            return None
        return Source(
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
        value = _at(resources, "reservations", "devices")
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
            ("deploy.resources.limits.devices", _at(resources, "limits", "devices")),
            ("deploy.resources.devices", _at(resources, "devices")),
            ("deploy.reservations.devices", _at(body, "deploy", "reservations", "devices")),
            ("resources.reservations.devices", _at(body, "resources", "reservations", "devices")),
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


def _at(value: Plain, *keys: str) -> Plain:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _words(value: Plain) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(entry for entry in entries if isinstance(entry, str))

"""The services of a compose file.

The Compose Specification (compose-spec/compose-spec, read 2026-11-21): 05-services.md, environment, gpus; deploy.md,
devices; build.md; 13-merge.md. Files are read as they stand: includes and what a service extends are left out, and
such a service is partial.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.services import (
    BuildSource,
    DeviceRequest,
    Service,
    ServiceFileError,
    pairs_of,
    value_at,
)
from gpuenv.image.dockerfile.stages import Setting
from gpuenv.image.dockerfile.variables import substitute

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain

_RESERVED = "deploy.resources.reservations.devices"
# Where people put devices, and compose refuses them: schema/compose-spec.json admits no further keys there.
_MISPLACED = ("deploy.resources.limits.devices", "deploy.resources.devices", "deploy.reservations.devices")
_DRIVER_VOLUME = re.compile(r"nvidia_driver_|:/usr/local/nvidia\b|^/usr/local/nvidia\b|libcuda\.so")
_CPU = re.compile(r"(?:^|[^a-z0-9])cpu(?![a-z0-9_])")
_MOST = 200  # services


def services_of(
    files: Sequence[tuple[str, str]], variables: Mapping[str, str], only: Sequence[str] = ()
) -> list[Service]:
    """The services of compose files.

    Args:
        files: name and text of the file, and of each that is merged over it.
        variables: values for ``${NAME}``.
        only: the names of the wanted services; all, if empty.

    Raises:
        ServiceFileError: with file and line.
    """
    services: dict[str, _Reader] = {}
    partly = False
    for name, text in files:
        body, lines = _parse(name, text)
        partly = partly or "include" in body
        listed = body.get("services")
        for key, value in listed.items() if isinstance(listed, dict) else ():
            reader = _Reader(name, key, value if isinstance(value, dict) else {}, lines, variables)
            services[key] = services[key].merged(reader) if key in services else reader
    absent = [name for name in only if name not in services]
    if absent and not partly:
        raise ServiceFileError(f"{files[0][0]}: line 1: there is no service {absent[0]}: {', '.join(services)}")
    if len(services) > _MOST:
        raise ServiceFileError(f"{files[0][0]}: line 1: more than {_MOST} services; check them in parts")
    return [reader.service() for name, reader in services.items() if not only or name in only]


def _parse(name: str, text: str) -> tuple[dict[str, Plain], dict[str, int]]:
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - only for such a file

    try:
        document = parse_shared(text)
    except YamlError as error:
        raise ServiceFileError(f"{name}: {error}") from error
    body = document.value
    if not isinstance(body, dict) or not {"services", "include"} & set(body):
        raise ServiceFileError(f"{name}: line 1: no compose file: expected services")
    return body, document.lines


class _Reader:
    """Reads a service, whose parts may be merged from several files."""

    def __init__(
        self, file: str, name: str, body: dict[str, Plain], lines: Mapping[str, int], variables: Mapping[str, str]
    ) -> None:
        self._file, self._name, self._body, self._lines, self._variables = file, name, body, lines, variables

    def merged(self, later: _Reader) -> _Reader:
        """The service with another one merged over it; lines stay those of the first file."""
        return _Reader(self._file, self._name, _merge(self._body, later._body), self._lines, self._variables)

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
        by_hand = any(device.startswith("nvidia.com/gpu=") for device in devices)
        swarm = value_at(body, "deploy", "resources", "reservations", "generic_resources") is not None
        words = (self._name, *_texts(body.get("command")), *_texts(body.get("entrypoint")), *_texts(environment))
        return Service(
            file=self._file,
            name=self._name,
            line=self._line(),
            image=self._text(body.get("image")),
            image_line=self._line("image"),
            source=self._source(body.get("build")),
            environment={
                name: Setting(self._text(value) or "", line, line)
                for name, value, path in pairs_of(environment)
                for line in (self._line(f"environment{path}"),)
            },
            requests=tuple(self._requests()),
            misplaced=tuple(
                (path, self._line(path)) for path in _MISPLACED if value_at(body, *path.split(".")) is not None
            ),
            runtime=(runtime, self._line("runtime")) if runtime else None,
            has_devices=by_hand or swarm or (nodes and any(map(_DRIVER_VOLUME.search, volumes))),
            means_cpu=any(_CPU.search(word.lower()) for word in words) or not body.get("deploy", True),
            partial="extends" in body,
        )

    def _source(self, value: Plain) -> BuildSource | None:
        if not isinstance(value, (str, dict)):
            return None
        if isinstance(value, str):
            value = {"context": value}
        arguments = ((name, self._text(text) or "") for name, text, _ in pairs_of(value.get("args")))
        return BuildSource(
            context=self._text(value.get("context")) or ".",
            dockerfile=self._text(value.get("dockerfile")) or "Dockerfile",
            target=self._text(value.get("target")),
            arguments=dict(arguments),
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
        for number, entry in enumerate(_list(value_at(self._body, *_RESERVED.split(".")))):
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

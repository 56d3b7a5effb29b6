"""A dev container's devcontainer.json: what it runs, from an image, a Dockerfile or compose files.

The Development Container Specification (devcontainers/spec, docs/specs/devcontainerjson-reference.md and
devcontainer-reference.md, read 2026-11-22): image; build.dockerfile and build.context, from the file's own folder;
dockerComposeFile and service; runArgs, the arguments of docker run; hostRequirements.gpu; containerEnv. The file is
JSON with comments.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.json_with_comments import JsonError, parse_json
from gpuenv.image.dockerfile.plain_data import at, text_of
from gpuenv.image.dockerfile.service import DEVCONTAINER, BuildSource, DeviceRequest, Service
from gpuenv.image.dockerfile.stages import Setting

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain

_NAMES = ("devcontainer.json", ".devcontainer.json")
_VALUED = ("--gpus", "--runtime", "--device", "-e", "--env")


class DevcontainerError(ValueError):
    """A file that is no devcontainer.json; the message has the line."""


@dataclass(frozen=True, slots=True)
class Devcontainer:
    """What it runs.

    Attributes:
        service: a container of its own.
        compose: else the compose files, from its own folder.
        services: those of their services that it starts; all, if it names none.
    """

    service: Service | None
    compose: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


def is_devcontainer(name: str) -> bool:
    """Whether a file is one, by its name."""
    return name in _NAMES


def devcontainer_of(text: str, file: str) -> Devcontainer:
    """What a devcontainer.json says.

    Args:
        text: the file.
        file: its name, for the findings.

    Raises:
        DevcontainerError: with the line.
    """
    try:
        body, lines = parse_json(text)
    except JsonError as error:
        raise DevcontainerError(str(error)) from error
    if not isinstance(body, dict):
        raise DevcontainerError("line 1: expected an object")
    compose = body.get("dockerComposeFile")
    if compose is not None:
        named = compose if isinstance(compose, list) else [compose]
        return Devcontainer(None, tuple(name for name in named if isinstance(name, str)), _services(body))
    return Devcontainer(_service(body, lines, file))


def _services(body: Mapping[str, Plain]) -> tuple[str, ...]:
    """The services that are started: its own, and those that runServices names; all, where it names none."""
    more = body.get("runServices")
    if not isinstance(more, list):
        return ()
    return tuple(dict.fromkeys(name for name in (body.get("service"), *more) if isinstance(name, str)))


def _service(body: dict[str, Plain], lines: Mapping[str, int], file: str) -> Service:
    arguments = list(_arguments(body.get("runArgs")))
    given = [value for option, value in arguments if option == "--gpus"]
    line = lines.get("runArgs", 1)
    requests = [DeviceRequest(None, ("gpu",), value, None, line) for value in given]
    if at(body, "hostRequirements", "gpu") not in (None, "false"):
        requests.append(DeviceRequest(None, ("gpu",), None, None, lines.get("hostRequirements.gpu", 1)))
    return Service(
        file=file,
        name=text_of(body.get("name")) or "of this file",
        line=lines.get("image") or lines.get("build") or 1,
        image=text_of(body.get("image")),
        image_line=lines.get("image", 1),
        source=_source(body, lines),
        environment=dict(_environment(body, arguments, lines)),
        requests=tuple(requests),
        misplaced=(),
        runtime=next((value for option, value in arguments if option == "--runtime"), None),
        runtime_line=line,
        devices=tuple((value, line) for option, value in arguments if option == "--device"),
        swarm_gpus=False,
        kind=DEVCONTAINER,
    )


def _source(body: dict[str, Plain], lines: Mapping[str, int]) -> BuildSource | None:
    """The Dockerfile and its context; both paths start at the file's own folder."""
    dockerfile = text_of(at(body, "build", "dockerfile")) or text_of(body.get("dockerFile"))
    if dockerfile is None:
        return None
    context = (
        text_of(at(body, "build", "context")) or text_of(body.get("context")) or posixpath.dirname(dockerfile) or "."
    )
    named = at(body, "build", "args")
    return BuildSource(
        context=context,
        dockerfile=dockerfile,
        target=text_of(at(body, "build", "target")),
        arguments={name: value for name, value in named.items() if isinstance(value, str)}
        if isinstance(named, dict)
        else {},
        line=lines.get("build.dockerfile") or lines.get("dockerFile") or 1,
        beside=True,
        named=True,
    )


def _environment(
    body: dict[str, Plain], arguments: list[tuple[str, str]], lines: Mapping[str, int]
) -> Iterator[tuple[str, Setting]]:
    named = body.get("containerEnv")
    for name, value in named.items() if isinstance(named, dict) else ():
        if isinstance(value, str):
            line = lines.get(f"containerEnv.{name}", 1)
            yield name, Setting(value, line, line)
    for option, value in arguments:
        name, equals, text = value.partition("=")
        if option in ("-e", "--env") and equals:
            line = lines.get("runArgs", 1)
            yield name, Setting(text, line, line)


def _arguments(value: Plain) -> Iterator[tuple[str, str]]:
    """The options of docker run that matter here, each with its value."""
    words = [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, equals, text = word.partition("=")
        if option in _VALUED:
            yield option, text if equals else following

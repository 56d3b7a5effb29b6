"""A devcontainer.json: what it runs, from an image, a Dockerfile or compose files.

The Development Container Specification (devcontainers/spec, docs/specs/devcontainerjson-reference.md and
devcontainer-reference.md, read 2026-11-22): image; build.dockerfile and build.context, from the file's own folder;
dockerComposeFile and service; runArgs, the arguments of docker run; hostRequirements.gpu; containerEnv. The file is
JSON with comments and trailing commas, which is YAML once the comments are gone.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.services import (
    DEVCONTAINER,
    BuildSource,
    DeviceRequest,
    Service,
    ServiceFileError,
    pairs_of,
    text_at,
    value_at,
)
from gpuenv.image.dockerfile.stages import Setting

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain

NAMES = ("devcontainer.json", ".devcontainer.json")
# A string, which is kept, or a comment. Either may lack its end, and goes on to that of the text then.
_COMMENT = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|\t', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Devcontainer:
    """What it runs.

    Attributes:
        service: a container of its own.
        compose: else the compose files, from its own folder.
        services: the services of these that it starts; all, if empty.
    """

    service: Service | None
    compose: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


def devcontainer_of(text: str, file: str) -> Devcontainer:
    """What a devcontainer.json says.

    Raises:
        ServiceFileError: with the line.
    """
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - only for such a file

    bare = _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " " + "\n" * found[0].count("\n"), text)
    try:
        document = parse_shared(bare)
    except YamlError as error:
        raise ServiceFileError(f"{file}: {error}") from error
    body = document.value
    if not isinstance(body, dict):
        raise ServiceFileError(f"{file}: line 1: expected an object")
    compose = body.get("dockerComposeFile")
    if compose is None:
        return Devcontainer(_service(body, document.lines, file))
    names = tuple(name for name in (compose if isinstance(compose, list) else [compose]) if isinstance(name, str))
    if not names:
        raise ServiceFileError(f"{file}: line 1: dockerComposeFile names no file")
    more = body.get("runServices")
    wanted = (body.get("service"), *more) if isinstance(more, list) else ()
    return Devcontainer(None, names, tuple(dict.fromkeys(name for name in wanted if isinstance(name, str))))


def _service(body: dict[str, Plain], lines: dict[str, int], file: str) -> Service:
    words = body.get("runArgs")
    arguments = " ".join(word for word in words if isinstance(word, str)) if isinstance(words, list) else ""
    line = lines.get("runArgs", 1)
    gpus = re.findall(r"--gpus[= ]\"?([^\s\"]+)", arguments)
    requests = [DeviceRequest(None, ("gpu",), value, None, line) for value in gpus]
    if value_at(body, "hostRequirements", "gpu") not in (None, "false", False):
        requests.append(DeviceRequest(None, ("gpu",), None, None, lines.get("hostRequirements.gpu", 1)))
    runtime = re.search(r"--runtime[= ](\S+)", arguments)
    return Service(
        file=file,
        name=text_at(body, "name") or "of this file",
        line=lines.get("image") or lines.get("build") or 1,
        image=text_at(body, "image"),
        image_line=lines.get("image", 1),
        source=_source(body, lines),
        environment={
            name: Setting(value, lines.get(f"containerEnv{path}", 1), lines.get(f"containerEnv{path}", 1))
            for name, value, path in pairs_of(body.get("containerEnv"))
        },
        requests=tuple(requests),
        runtime=(runtime[1], line) if runtime else None,
        has_devices=re.search(r"--device[= ](?:nvidia\.com/gpu|/dev/nvidia)", arguments) is not None,
        means_cpu=re.search(r"\bcpu\b", text_at(body, "name") or "", re.IGNORECASE) is not None,
        kind=DEVCONTAINER,
    )


def _source(body: dict[str, Plain], lines: dict[str, int]) -> BuildSource | None:
    """The Dockerfile and its context; both paths start at the file's own folder."""
    dockerfile = text_at(body, "build", "dockerfile") or text_at(body, "dockerFile")
    if dockerfile is None:
        return None
    context = text_at(body, "build", "context") or text_at(body, "context") or posixpath.dirname(dockerfile)
    return BuildSource(
        context=context or ".",
        dockerfile=dockerfile,
        target=text_at(body, "build", "target"),
        arguments={name: value for name, value, _ in pairs_of(value_at(body, "build", "args"))},
        line=lines.get("build.dockerfile") or lines.get("dockerFile") or 1,
        beside=True,
    )

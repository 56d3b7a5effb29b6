"""Takes out of plain values what identifies a person or a machine; the same thing always becomes the same pseudonym."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuenv.model.pattern import pattern
from gpuenv.model.secrets import HIDDEN, SECRET_NAME, hide_secrets

_UUID = pattern(r"\b((?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_PREFIX = pattern(r"\b((?:GPU|MIG)-[0-9a-fA-F-]+)(?![\w-])")
_PSEUDONYM = pattern(r"(?:GPU|MIG)-[0-9a-f]{8}-0000-0000-0000-[0-9a-f]{12}")
# A home may lie below another folder (/nfs/home, /mnt/c/Users), and below one for a letter or a group.
_HOMES = pattern(
    r"(/home|/Users|\b[A-Za-z]:[/\\]{1,2}[Uu]sers)[/\\]{1,2}"
    r"(?:(?:\w|users?|nfs|staff|students?|people|grads?)[/\\]+(?=[^/\\:\s'\"]))?"
    # A name of Windows may have blanks.
    r"((?:(?<=[Uu]sers\\)|(?<=[Uu]sers\\\\)|(?<=/[a-z]/Users/))[^/\\:\s'\"]+(?: [^/\\:\s'\"]+){1,2}(?=[/\\])"
    r"|[^/\\:\s'\"]+)"
)
# Names of many machines and of their users give nobody away, and words of software stand in paths that decide.
_COMMON = frozenset(
    (
        "",
        "localhost",
        "root",
        "ubuntu",
        "debian",
        "centos",
        "user",
        "users",
        "admin",
        "conda",
        "runner",
        "jovyan",
        "docker",
        "shared",
    )
    + ("vscode", "jupyter", "coder", "ec2-user", "azureuser", "sagemaker-user", "opc", "public", "default", "targets")
    + ("nvidia", "cuda", "cupy", "python", "torch", "gpu")
    + ("app", "build", "data", "lib", "local", "opt", "test", "work")
)
_SHORTEST = 4  # letters of a name that is looked for behind a hyphen too
# As a shell shows who works where, before what was typed.
_PROMPT = pattern(r"(?<![\w.-])[\w.-]+@[\w.-]+(?=:[~/][^\s$#]*[$#%>])|(?<=\[)[\w.-]+@[\w.-]+(?= [^\]\s]*\][$#])")
# An address of IP beside a scheme, a user or a port; four numbers alone are mostly a release.
_ADDRESS = pattern(r"(?:(?<=//)|(?<=@))\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?=:\d{2,5}\b)")
# A host may be named like a word of ours; these fields hold such words.
_WORDS_OF_OURS = frozenset(
    ("schema", "state", "status", "source", "name", "cause", "code", "constraint", "severity", "kind", "fact", "docs")
    + ("container", "distribution", "os", "arch", "value", "found_via", "assumed", "channel")
)

# What a script builds, pushes or pulls with is of no use unless it is exact; only secrets are taken out of it.
_TO_BUILD_WITH = frozenset(("tag", "reference", "dockerfile", "org.opencontainers.image.base.name"))


@dataclass(frozen=True, slots=True)
class Identity:
    """What is to be hidden: the home folder, the user's and the host's name."""

    home: str
    user: str
    host: str


def redact(data: Any, identity: Identity) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The same values without identities, tokens and secrets."""
    return _value(data, "", identity, _found(data))


def pseudonym(uuid: str) -> str:
    """A UUID that stands for another one: recognisable by its zeros, and left alone when it is met again."""
    if _PSEUDONYM.fullmatch(uuid):
        return uuid
    import hashlib  # noqa: PLC0415 - its library takes 4 ms to load, and most reports have no UUID to hide

    digits = hashlib.sha256(uuid.lower().encode()).hexdigest()
    return f"{uuid[:4]}{digits[:8]}-0000-0000-0000-{digits[8:20]}"


@dataclass(frozen=True, slots=True)
class _Found:
    """What the whole of the data names somewhere: UUIDs, and the names of those whose homes are in it."""

    uuids: list[str]
    names: list[str]


def _found(data: Any) -> _Found:  # noqa: ANN401 - JSON
    return _Found(sorted(set(_collect(data, _uuids))), sorted(set(_collect(data, _names))))


def _uuids(text: str) -> list[str]:
    return _UUID.findall(text)


def _names(text: str) -> list[str]:
    """Whose homes a text names; what many machines call a user gives nobody away, and may be a word of ours."""
    if "/home" not in text and "sers" not in text:
        return []
    return [match[2] for match in _HOMES.finditer(text) if match[2].lower() not in _COMMON and match[2] != HIDDEN]


def _collect(data: Any, tell: Callable[[str], list[str]]) -> list[str]:  # noqa: ANN401 - JSON
    if isinstance(data, str):
        return tell(data)
    if isinstance(data, dict):
        return [found for entry in data.values() for found in _collect(entry, tell)]
    if isinstance(data, list):
        return [found for entry in data for found in _collect(entry, tell)]
    return []


def _value(data: Any, key: str, identity: Identity, found: _Found) -> Any:  # noqa: ANN401 - JSON
    if isinstance(data, dict):
        return {name: _value(entry, name, identity, found) for name, entry in data.items()}
    if isinstance(data, list):
        return [_value(entry, key, identity, found) for entry in data]
    if not isinstance(data, str):
        return data
    if key == "serial" or (key.isupper() and SECRET_NAME.search(key)):
        return HIDDEN
    if key in _TO_BUILD_WITH:
        return hide_secrets(data)
    # A path is somebody's, whatever field it stands in.
    of_ours = key in _WORDS_OF_OURS and not re.search(r"[/\\]", data)
    return _text(data, identity, found, with_host=not of_ours)


def _text(text: str, identity: Identity, found: _Found, *, with_host: bool) -> str:
    text = _UUID.sub(lambda match: pseudonym(match[1]), text)
    text = _PREFIX.sub(lambda match: _prefix(match[1], found.uuids), text)
    text = hide_secrets(text)
    if len(identity.home) > 1:
        text = re.sub(rf"(?<![\w.-]){re.escape(identity.home)}(?![\w.-])", "~", text)
    text = _HOMES.sub(rf"\1/{HIDDEN}", text)
    text = _ADDRESS.sub(HIDDEN, _PROMPT.sub(HIDDEN, text))
    for name in (identity.user, *found.names):
        text = _without_name(text, name)
    if with_host and identity.host.lower() not in _COMMON:
        text = re.sub(rf"(?<![\w.-]){re.escape(identity.host)}(?![\w-])", HIDDEN, text)
    return text


def _without_name(text: str, name: str) -> str:
    """A text without the name as a part of a path, or as the end of one: ``/tmp/nvidia-mps-name``."""
    if name.lower() in _COMMON or name not in text:
        return text
    before = r"[/\\._-]" if len(name) >= _SHORTEST else r"[/\\]"
    return re.sub(rf"(?<={before}){re.escape(name)}(?=[/\\:\s'\"]|$)", HIDDEN, text)


def _prefix(text: str, uuids: list[str]) -> str:
    """CUDA accepts the beginning of a UUID; it must still be the beginning of the pseudonym."""
    for uuid in uuids:
        if uuid.lower().startswith(text.lower()):
            return pseudonym(uuid)[: len(text)]
    return text


def redact_lines(lines: Sequence[str], identity: Identity) -> list[str]:
    """The lines of a report without identities, tokens and secrets; what one line gives away is hidden in all."""
    texts = [hide_secrets(line) for line in lines]
    found = _found(texts)
    return [_text(text, identity, found, with_host=True) for text in texts]

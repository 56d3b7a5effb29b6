"""Takes out of plain values what identifies a person or a machine; the same thing always becomes the same pseudonym."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuenv.model.codec import decode, encode
from gpuenv.model.secrets import HIDDEN, SECRET_NAME, hide_secrets
from gpuenv.model.strings import pattern, sanitize

if TYPE_CHECKING:
    from gpuenv.report.report import Report

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


class Identity(NamedTuple):
    """What is to be hidden: the home folder, the user's and the host's name."""

    home: str
    user: str
    host: str


def redact(data: Any, identity: Identity) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The same values without identities, tokens and secrets."""
    found = _found(data)
    return _mapped(data, lambda key, text: _redacted(text, key, identity, found))


def pseudonym(uuid: str) -> str:
    """A UUID that stands for another one: recognisable by its zeros, and left alone when it is met again."""
    if _PSEUDONYM.fullmatch(uuid):
        return uuid
    import hashlib  # noqa: PLC0415 - its library takes 4 ms to load, and most reports have no UUID to hide

    digits = hashlib.sha256(uuid.lower().encode()).hexdigest()
    return f"{uuid[:4]}{digits[:8]}-0000-0000-0000-{digits[8:20]}"


class _Found(NamedTuple):
    """UUIDs anywhere in the data, and the names of the users whose homes are in it."""

    uuids: list[str]
    names: list[str]


def _found(data: Any) -> _Found:  # noqa: ANN401 - JSON
    texts = list(_strings(data))
    uuids = {uuid for text in texts for uuid in _UUID.findall(text)}
    return _Found(sorted(uuids), sorted({name for text in texts for name in _names(text)}))


def _strings(data: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for entry in data.values() if isinstance(data, dict) else data:
            yield from _strings(entry)


def _names(text: str) -> list[str]:
    """Whose homes a text names; what many machines call a user gives nobody away, and may be a word of ours."""
    if "/home" not in text and "sers" not in text:
        return []
    return [match[2] for match in _HOMES.finditer(text) if match[2].lower() not in _COMMON and match[2] != HIDDEN]


def _mapped(data: Any, change: Callable[[str, str], str], key: str = "") -> Any:  # noqa: ANN401 - JSON
    """The data with every text replaced by ``change(key, text)``."""
    if isinstance(data, dict):
        return {name: _mapped(entry, change, name) for name, entry in data.items()}
    if isinstance(data, list):
        return [_mapped(entry, change, key) for entry in data]
    return change(key, data) if isinstance(data, str) else data


def _redacted(text: str, key: str, identity: Identity, found: _Found) -> str:
    if key == "serial" or (key.isupper() and SECRET_NAME.search(key)):
        return HIDDEN
    if key in _TO_BUILD_WITH:
        return hide_secrets(text)
    # A path is somebody's, whatever field it stands in.
    of_ours = key in _WORDS_OF_OURS and not re.search(r"[/\\]", text)
    return _text(text, identity, found, with_host=not of_ours)


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


def prepared(report: Report, identity: Identity | None) -> Report:
    """The same report, clean: without identities and secrets, and without characters that could command a reader.

    Every renderer but text and JSON takes a prepared report, so that each has its own format's escaping to do and no
    more. ``identity`` is hidden; None leaves names and paths but no secret.
    """
    data = encode(report)
    data = _mapped(data, lambda _, text: hide_secrets(text)) if identity is None else redact(data, identity)
    return decode(type(report), _without_controls(data))


def _without_controls(data: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    if isinstance(data, dict):
        return {sanitize(name): _without_controls(entry, name) for name, entry in data.items()}
    if isinstance(data, list):
        return [_without_controls(entry, key) for entry in data]
    if not isinstance(data, str):
        return data
    return "\n".join(map(sanitize, data.split("\n"))) if key == "explanation" else sanitize(data)

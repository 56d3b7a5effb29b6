"""Takes out of plain values what identifies a person or a machine; the same thing always becomes the same pseudonym."""

from __future__ import annotations

import re
from typing import Any

from gpuenv.model.pattern import pattern
from gpuenv.model.record import dataclass
from gpuenv.model.secrets import CREDENTIALS, SECRET_NAME

_UUID = pattern(r"\b((?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_PREFIX = pattern(r"\b((?:GPU|MIG)-[0-9a-fA-F-]+)(?![\w-])")
_PSEUDONYM = pattern(r"(?:GPU|MIG)-[0-9a-f]{8}-0000-0000-0000-[0-9a-f]{12}")
_QUERY_SECRET = pattern(
    r"([?&][\w.-]*(?:token|key|secret|password|passwd|pwd|sig|signature|credential|auth)[\w.-]*=)[^&\s]+", re.IGNORECASE
)
_NAMED_SECRET = pattern(rf"\b([A-Z][A-Z0-9_]*(?:{SECRET_NAME.pattern})[A-Z0-9_]*)(: |=)\S.*")
_HOMES = pattern(r"(?<![\w.])(/home|/Users|C:\\Users)[/\\][^/\\:\s'\"]+")
_HIDDEN = "(redacted)"
# A host may be named like a word of ours; these fields hold such words.
_WORDS_OF_OURS = frozenset(
    ("schema", "state", "status", "source", "name", "cause", "code", "constraint", "severity", "kind", "fact", "docs")
    + ("container", "distribution", "os", "arch", "value", "found_via", "assumed", "channel")
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What is to be hidden: the home folder, the user's and the host's name."""

    home: str
    user: str
    host: str


def redact(data: Any, identity: Identity) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The same values without identities, tokens and secrets."""
    uuids = sorted(set(_collect(data)))
    return _value(data, "", identity, uuids)


def pseudonym(uuid: str) -> str:
    """A UUID that stands for another one: recognisable by its zeros, and left alone when it is met again."""
    if _PSEUDONYM.fullmatch(uuid):
        return uuid
    import hashlib  # noqa: PLC0415 - its library takes 4 ms to load, and most reports have no UUID to hide

    digits = hashlib.sha256(uuid.lower().encode()).hexdigest()
    return f"{uuid[:4]}{digits[:8]}-0000-0000-0000-{digits[8:20]}"


def _collect(data: Any) -> list[str]:  # noqa: ANN401 - JSON
    if isinstance(data, str):
        return _UUID.findall(data)
    if isinstance(data, dict):
        return [found for entry in data.values() for found in _collect(entry)]
    if isinstance(data, list):
        return [found for entry in data for found in _collect(entry)]
    return []


def _value(data: Any, key: str, identity: Identity, uuids: list[str]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(data, dict):
        return {name: _value(entry, name, identity, uuids) for name, entry in data.items()}
    if isinstance(data, list):
        return [_value(entry, key, identity, uuids) for entry in data]
    if not isinstance(data, str):
        return data
    if key == "serial" or (key.isupper() and SECRET_NAME.search(key)):
        return _HIDDEN
    # A path is somebody's, whatever field it stands in.
    of_ours = key in _WORDS_OF_OURS and not re.search(r"[/\\]", data)
    return _text(data, identity, uuids, with_host=not of_ours)


def _text(text: str, identity: Identity, uuids: list[str], *, with_host: bool) -> str:
    text = _UUID.sub(lambda match: pseudonym(match[1]), text)
    text = _PREFIX.sub(lambda match: _prefix(match[1], uuids), text)
    text = hide_secrets(text)
    if len(identity.home) > 1:
        text = re.sub(rf"(?<![\w.-]){re.escape(identity.home)}(?![\w.-])", "~", text)
    text = _HOMES.sub(rf"\1/{_HIDDEN}", text)
    if identity.user and identity.user != "root":
        text = re.sub(rf"(?<=[/\\]){re.escape(identity.user)}(?=[/\\:]|$)", _HIDDEN, text)
    if with_host and identity.host and identity.host != "localhost":
        text = re.sub(rf"(?<![\w.-]){re.escape(identity.host)}(?![\w-])", _HIDDEN, text)
    return text


def _prefix(text: str, uuids: list[str]) -> str:
    """CUDA accepts the beginning of a UUID; it must still be the beginning of the pseudonym."""
    for uuid in uuids:
        if uuid.lower().startswith(text.lower()):
            return pseudonym(uuid)[: len(text)]
    return text


def redact_line(text: str, identity: Identity) -> str:
    """One line of a report without identities, tokens and secrets."""
    text = hide_secrets(text)
    return _text(text, identity, sorted(set(_UUID.findall(text))), with_host=True)


def hide_secrets(text: str) -> str:
    """A line for its own user's eyes: names and paths stay, tokens and passwords go.

    ``NAME: value`` and ``NAME=value`` lose the value where the name says that it is a secret.
    """
    text = _NAMED_SECRET.sub(rf"\1\2{_HIDDEN}", text)
    return _QUERY_SECRET.sub(rf"\1{_HIDDEN}", CREDENTIALS.sub(rf"\1{_HIDDEN}@", text))

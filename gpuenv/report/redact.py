"""Removes what identifies a person or a machine from JSON values; equal UUIDs get equal pseudonyms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from gpuenv.model.codec import decode, encode
from gpuenv.model.redaction import LineRedactor, hide_in_lines, hide_value
from gpuenv.model.secret_values import HIDDEN
from gpuenv.model.strings import pattern, sanitize

R = TypeVar("R")  # a report
_UUID = pattern(r"\b((?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_PREFIX = pattern(r"\b((?:GPU|MIG)-[0-9a-fA-F-]+)(?![\w-])")
_PSEUDONYM = pattern(r"(?:GPU|MIG)-[0-9a-f]{8}-0000-0000-0000-[0-9a-f]{12}")
# A home directory may be below another directory (/nfs/home, /mnt/c/Users), and grouped by letter or role.
_HOMES = pattern(
    r"(/home|/Users|\b[A-Za-z]:[/\\]{1,2}[Uu]sers)[/\\]{1,2}"
    r"(?:(?:\w|users?|nfs|staff|students?|people|grads?)[/\\]+(?=[^/\\:\s'\"]))?"
    # User names on Windows may contain spaces.
    r"((?:(?<=[Uu]sers\\)|(?<=[Uu]sers\\\\)|(?<=/[a-z]/Users/))[^/\\:\s'\"]+(?: [^/\\:\s'\"]+){1,2}(?=[/\\])"
    r"|[^/\\:\s'\"]+)"
)
# Common user and host names identify no one, and names of software occur in paths that matter for the diagnosis.
_COMMON = frozenset(
    ("", "localhost", "root", "ubuntu", "debian", "centos", "user", "users", "admin", "conda", "runner", "jovyan")
    + ("docker", "shared")
    + ("vscode", "jupyter", "coder", "ec2-user", "azureuser", "sagemaker-user", "opc", "public", "default", "targets")
    + ("nvidia", "cuda", "cupy", "python", "torch", "gpu")
    + ("app", "build", "data", "lib", "local", "opt", "test", "work")
)
_MIN_NAME = 4  # letters of a name that is also replaced after a hyphen or a dot, and of a host's name without domain
# user@host of a shell prompt
_PROMPT = pattern(r"(?<![\w.-])[\w.-]+@[\w.-]+(?=:[~/][^\s$#]*[$#%>])|(?<=\[)[\w.-]+@[\w.-]+(?= [^\]\s]*\][$#])")
# An IP address with a scheme, a user or a port; four numbers without one are usually a version.
_ADDRESS = pattern(r"(?:(?<=//)|(?<=@))\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?=:\d{2,5}\b)")
# Fields with gpuenv's own terms, which are kept even if the host has the same name.
_TERM_FIELDS = frozenset(
    ("schema", "state", "status", "source", "name", "cause", "code", "constraint", "severity", "kind", "fact", "docs")
    + ("container", "distribution", "os", "arch", "value", "found_via", "assumed", "channel", "id")
)

# Fields with names of secrets, not with their values.
_OWN_NAMES = frozenset(("secrets",))
# Scripts build, push, pull or open these, so that they must be exact; only secrets are removed.
_EXACT_FIELDS = frozenset(("tag", "reference", "dockerfile", "org.opencontainers.image.base.name", "docs_url"))
# Commands: no program expands ~, and no driver knows a pseudonym.
_COMMAND_FIELDS = frozenset(("command", "shell_line", "argv", "undo"))
_LONGEST_HEAD = 500  # characters of a command before a word in it


class Identity(NamedTuple):
    """What to hide: the home directory, the names of user and host, and whether the UUIDs."""

    home: str
    user: str
    hosts: tuple[str, ...]
    uuids: bool = True


def redact(data: Any, identity: Identity, *, runnable: bool = False) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """The values without identities and secrets; if ``runnable``, commands lose secrets only."""
    data = _without_secrets(data)
    identifiers = _identifiers(data)
    kept = _EXACT_FIELDS | _COMMAND_FIELDS if runnable else _EXACT_FIELDS
    return _mapped(data, lambda key, text: text if key in kept else _redacted(text, key, identity, identifiers))


def _without_secrets(data: Any) -> Any:  # noqa: ANN401 - JSON
    redactor = LineRedactor()
    hidden = _mapped(data, lambda key, text: hide_value(key, redactor.hide(text)) if key not in _OWN_NAMES else text)
    return _without_secrets_of_options(hidden)


def _without_secrets_of_options(data: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    """The data without the secrets in a command that follow an option or a program, which are other words of a list."""
    if isinstance(data, dict):
        return {name: _without_secrets_of_options(entry, name) for name, entry in data.items()}
    if not isinstance(data, list):
        return data
    if key not in _COMMAND_FIELDS or not all(isinstance(word, str) for word in data):
        return [_without_secrets_of_options(entry, key) for entry in data]
    heads = accumulate(data, lambda head, word: f"{head}{word} "[-_LONGEST_HEAD:], initial="")
    return [LineRedactor().hide(word, head) for head, word in zip(heads, data, strict=False)]


def pseudonym(uuid: str) -> str:
    """A pseudonym of a UUID, recognisable by its zeros; that of a pseudonym is itself."""
    if _PSEUDONYM.fullmatch(uuid):
        return uuid
    import hashlib  # noqa: PLC0415 - takes 4 ms to load, and most reports have no UUID to hide

    digits = hashlib.sha256(uuid.lower().encode()).hexdigest()
    return f"{uuid[:4]}{digits[:8]}-0000-0000-0000-{digits[8:20]}"


class _Identifiers(NamedTuple):
    """The UUIDs in the data, and the names of users from home directories in it."""

    uuids: list[str]
    names: list[str]


def _identifiers(data: Any) -> _Identifiers:  # noqa: ANN401 - JSON
    texts = list(_strings(data))
    uuids = {uuid for text in texts for uuid in _UUID.findall(text)}
    return _Identifiers(sorted(uuids), sorted({name for text in texts for name in _user_names(text)}))


def _strings(data: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict | list):
        for entry in data.values() if isinstance(data, dict) else data:
            yield from _strings(entry)


def _user_names(text: str) -> list[str]:
    """The user names of the home directories in a text, except common ones."""
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


def _redacted(text: str, key: str, identity: Identity, identifiers: _Identifiers) -> str:
    if key == "serial":
        return HIDDEN
    # A path may name a host or a user in any field.
    is_term = key in _TERM_FIELDS and not re.search(r"[/\\]", text)
    return _redacted_text(text, identity, identifiers, with_host=not is_term)


def _redacted_text(text: str, identity: Identity, identifiers: _Identifiers, *, with_host: bool) -> str:
    if identity.uuids:
        text = _UUID.sub(lambda match: pseudonym(match[1]), text)
        text = _PREFIX.sub(lambda match: _pseudonym_prefix(match[1], identifiers.uuids), text)
    if len(identity.home) > 1:
        text = re.sub(rf"(?<![\w.-]){re.escape(identity.home)}(?![\w.-])", "~", text)
    text = _HOMES.sub(rf"\1/{HIDDEN}", text)
    text = _ADDRESS.sub(HIDDEN, _PROMPT.sub(HIDDEN, text))
    for name in (identity.user, *identifiers.names):
        text = _without_name(text, name)
    for host in _host_forms(identity.hosts) if with_host else ():
        if host.lower() not in _COMMON:
            text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", HIDDEN, text)
    return text


@lru_cache(maxsize=8)
def _host_forms(hosts: tuple[str, ...]) -> list[str]:
    """The names of a host without and with their domains; those with one first, or else the domain would be left."""
    short = (host.partition(".")[0] for host in hosts)
    return sorted({*hosts, *(name for name in short if len(name) >= _MIN_NAME)}, key=len, reverse=True)


def _without_name(text: str, name: str) -> str:
    """The text without the name as a part of a path, or at its end: ``/tmp/nvidia-mps-name``."""
    if name.lower() in _COMMON or name not in text:
        return text
    separator = r"[/\\._-]" if len(name) >= _MIN_NAME else r"[/\\]"
    return re.sub(rf"(?<={separator}){re.escape(name)}(?=[/\\:\s'\"]|$)", HIDDEN, text)


def _pseudonym_prefix(text: str, uuids: list[str]) -> str:
    """The same prefix of the pseudonym: CUDA accepts the beginning of a UUID."""
    for uuid in uuids:
        if uuid.lower().startswith(text.lower()):
            return pseudonym(uuid)[: len(text)]
    return text


def redact_lines(lines: Sequence[str], identity: Identity) -> list[str]:
    """The lines without identities and secrets; an identifier found in one line is hidden in all."""
    texts = hide_in_lines(lines)
    identifiers = _identifiers(texts)
    return [_redacted_text(text, identity, identifiers, with_host=True) for text in texts]


def sanitize_report(report: R, identity: Identity | None) -> R:
    """The report without identities, secrets and control characters.

    Every renderer but text and JSON takes a sanitized report, so that it only does the escaping of its format.
    With ``identity`` None, names and paths are kept, but no secret.
    """
    data = encode(report)
    data = _without_secrets(data) if identity is None else redact(data, identity)
    return decode(type(report), _without_controls(data))


def _without_controls(data: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    if isinstance(data, dict):
        return {sanitize(name): _without_controls(entry, name) for name, entry in data.items()}
    if isinstance(data, list):
        return [_without_controls(entry, key) for entry in data]
    if not isinstance(data, str):
        return data
    return "\n".join(map(sanitize, data.split("\n"))) if key == "explanation" else sanitize(data)

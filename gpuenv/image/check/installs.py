"""What a command installs: the words of pip, uv, poetry, conda and the systems' package managers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gpuenv.image.check.shell import Command, Word
from gpuenv.image.check.variables import is_known

_PIP = re.compile(r"pip[\d.]*")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SYSTEM = ("apt-get", "apt", "aptitude", "yum", "dnf", "microdnf", "tdnf", "zypper", "apk")
_CONDA = ("conda", "mamba", "micromamba")
# Options of pip and uv that take a word of their own (pip install --help, uv pip install --help; November 2026).
_WITH_VALUE = frozenset(
    (
        *("-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints", "-e", "--editable"),
        *("-t", "--target", "--prefix", "--root", "-i", "--index-url", "--extra-index-url", "-f", "--find-links"),
        *("--platform", "--python-version", "--implementation", "--abi", "--no-binary", "--only-binary"),
        *("--cache-dir", "--src", "--progress-bar", "--timeout", "--retries", "--proxy", "--cert", "--client-cert"),
        *("--trusted-host", "--upgrade-strategy", "--python", "-p", "--resolution", "--torch-backend", "--group"),
        *("--extra", "--extras", "-E", "--index", "--default-index", "--index-strategy", "--config-settings", "-C"),
        *("--global-option", "--report", "--log", "--exclude-newer", "--link-mode", "--prerelease", "-P"),
        *("--keyring-provider", "--override", "--overrides", "--build-constraint", "--directory", "--project"),
        *("-n", "--name", "--channel", "--file", "--reinstall-package", "--upgrade-package", "--no-build-package"),
        *("--no-binary-package", "--refresh-package"),
    )
)
_INDEXES = ("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links")
_CUDA_INDEX = re.compile(r"/whl/(?:nightly/)?(?:cu(\d\d)(\d)|(cpu))\b")
_CONDA_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9_.-]+?)\s*(?:(==|=|>=|<=|>|<|!=|~=)(.*))?")


class Manager(str, Enum):
    """Who installs."""

    PIP = "pip"
    CONDA = "conda"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file."""

    file: str
    line: int
    end_line: int | None = None


@dataclass(frozen=True, slots=True)
class Install:
    """One thing that is installed.

    Attributes:
        manager: by whom.
        name: canonical.
        specifier: the versions; null where that is not known.
        extras: the extras that are asked for.
        place: where it is asked for.
        text: as it is written.
        from_source: whether it is built rather than taken as a wheel.
        index_major: the CUDA major that the index is for; 0 for one without CUDA.
        locked: whether a lock or a constraint says which version it is.
    """

    manager: Manager
    name: str
    specifier: SpecifierSet | None
    extras: frozenset[str]
    place: Place
    text: str
    from_source: bool = False
    index_major: int | None = None
    locked: bool = False

    @property
    def exact(self) -> str | None:
        """The very version that is asked for."""
        pins = [entry for entry in self.specifier or () if entry.operator in ("==", "===")]
        return pins[0].version if len(pins) == 1 and "*" not in pins[0].version else None

    @property
    def pinned(self) -> bool:
        """Whether a later release cannot change what is installed, beyond a range that has an end."""
        ends = ("==", "===", "~=", "<", "<=")
        return self.locked or self.specifier is None or any(entry.operator in ends for entry in self.specifier)


class FileKind(str, Enum):
    """A file that lists what is installed."""

    REQUIREMENTS = "requirements"
    CONSTRAINTS = "constraints"
    PROJECT = "project"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file that a command installs from: its path in the image, and what of it is asked for."""

    kind: FileKind
    path: str
    place: Place
    extras: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command asks for: to install, to remove, and the files that say more."""

    installs: tuple[Install, ...] = ()
    removes: frozenset[str] = frozenset()
    files: tuple[Listed, ...] = ()


@dataclass(slots=True)
class _Options:
    """The options of one call of pip."""

    positional: list[Word] = field(default_factory=list)
    values: dict[str, list[Word]] = field(default_factory=dict)

    def of(self, *names: str) -> list[Word]:
        """The values of an option by its names."""
        return [word for name in names for word in self.values.get(name, ())]


def asked(command: Command, file: str, end_line: int | None = None) -> Asked:
    """What a command installs; nothing where it is no installer."""
    words = _pip_words(command)
    if words is not None:
        return _pip(words, file, end_line)
    if command.program in _CONDA:
        return _conda(command, file, end_line)
    if command.program in _SYSTEM and {"install", "add", "in"} & set(command.texts):
        return _system(command, file, end_line)
    if command.program in ("uv", "poetry", "pdm") and command.texts:
        return _project(command, file, end_line)
    return Asked()


def _pip_words(command: Command) -> Sequence[Word] | None:
    """The words after pip or uv pip; none for another program."""
    words = command.words
    if _PIP.fullmatch(command.program):
        return words[1:]
    texts = command.texts
    if _PYTHON.fullmatch(command.program) and "-m" in texts:
        at = texts.index("-m") + 1
        return words[at + 2 :] if at < len(texts) and _PIP.fullmatch(texts[at]) else None
    if command.program == "uv" and "pip" in texts:
        return words[texts.index("pip") + 2 :]
    if command.program in (*_CONDA, "pipenv", "poetry", "pdm") and texts[:1] == ("run",):
        rest = next((n for n, word in enumerate(words) if n > 1 and _PIP.fullmatch(word.text.rsplit("/", 1)[-1])), None)
        return None if rest is None else words[rest + 1 :]
    return None


def _options(words: Sequence[Word]) -> _Options:
    found = _Options()
    position = 0
    while position < len(words):
        word = words[position]
        name, equals, value = word.text.partition("=")
        if not word.text.startswith("-") or word.text == "-":
            found.positional.append(word)
        elif equals and name.startswith("--"):
            found.values.setdefault(name, []).append(Word(value, word.line, word.known))
        elif word.text in _WITH_VALUE and position + 1 < len(words):
            position += 1
            found.values.setdefault(word.text, []).append(words[position])
        elif word.text[:2] in ("-r", "-c", "-e") and len(word.text) > len("-r"):
            found.values.setdefault(word.text[:2], []).append(Word(word.text[2:], word.line, word.known))
        else:
            found.values.setdefault(name, [])
        position += 1
    return found


def _pip(words: Sequence[Word], file: str, end_line: int | None) -> Asked:
    if not words:
        return Asked()
    verb, options = words[0].text, _options(words[1:])
    if verb in ("uninstall", "remove"):
        return Asked(removes=frozenset(canonicalize_name(word.text) for word in options.positional))
    if verb not in ("install", "sync"):
        return Asked()
    named = options.positional
    files = [
        Listed(FileKind.REQUIREMENTS, word.text, Place(file, word.line, end_line))
        for word in (*options.of("-r", "--requirement", "--requirements"), *(named if verb == "sync" else ()))
    ]
    files += [
        Listed(FileKind.CONSTRAINTS, word.text, Place(file, word.line, end_line))
        for word in options.of("-c", "--constraint", "--constraints")
    ]
    source = _from_source(options)
    index = _index_major(options)
    installs = []
    for word in (*(named if verb == "install" else ()), *options.of("-e", "--editable")):
        place = Place(file, word.line, end_line)
        if _is_folder(word.text):
            path, _, extras = word.text.partition("[")
            listed = frozenset(part.strip() for part in extras.rstrip("]").split(",") if part.strip())
            files.append(Listed(FileKind.PROJECT, path, place, listed))
            continue
        found = requirement(word.text, place, known=word.known)
        if found is not None:
            installs.append(_placed(found, source, index))
    return Asked(tuple(installs), frozenset(), tuple(files))


def _placed(install: Install, source: frozenset[str], index: int | None) -> Install:
    built = install.from_source or install.name in source or ":all:" in source
    return replace(install, from_source=built, index_major=index)


def _from_source(options: _Options) -> frozenset[str]:
    words = options.of("--no-binary", "--no-binary-package")
    return frozenset(
        part if part.startswith(":") else canonicalize_name(part) for word in words for part in word.text.split(",")
    )


def _index_major(options: _Options) -> int | None:
    for word in options.of(
        "-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links"
    ):
        match = _CUDA_INDEX.search(word.text)
        if match is not None:
            return 0 if match[3] else int(match[1])
    return None


def _is_folder(text: str) -> bool:
    return text == "." or (text.startswith((".[", "./", "/", "../")) and not text.endswith((".whl", ".tar.gz", ".zip")))


def requirement(text: str, place: Place, *, known: bool = True) -> Install | None:
    """A requirement as pip reads it; none for what is none."""
    bare = text.split(" #", maxsplit=1)[0].split(" --", maxsplit=1)[0].strip()
    if re.match(r"(?:git\+|https?://)", bare):
        named = "cupy/cupy" in bare
        return Install(Manager.PIP, "cupy", None, frozenset(), place, text, from_source=True) if named else None
    try:
        read = Requirement(bare)
    except InvalidRequirement:
        return None if known and is_known(bare) else _half_known(bare, place)
    name, extras = canonicalize_name(read.name), frozenset(read.extras)
    if read.url:
        return Install(Manager.PIP, name, None, extras, place, text, not read.url.endswith(".whl"))
    return Install(Manager.PIP, name, read.specifier, extras, place, text) if _holds_on_linux(read) else None


def _half_known(text: str, place: Place) -> Install | None:
    """A requirement whose version is a variable that nobody knows."""
    match = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?", text)
    if match is None:
        return None
    extras = frozenset(part.strip() for part in (match[2] or "").split(",") if part.strip())
    return Install(Manager.PIP, canonicalize_name(match[1]), None, extras, place, text)


def _holds_on_linux(read: Requirement) -> bool:
    """Whether a marker on the system lets it in; what it says of Python or extras is not looked at."""
    text = str(read.marker or "")
    if "platform_system" not in text and "sys_platform" not in text:
        return True
    told = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    return read.marker is None or read.marker.evaluate(dict(told))


def _conda(command: Command, file: str, end_line: int | None) -> Asked:
    texts = command.texts
    options = _options(command.words[1:])
    named = [word for word in options.positional if word.text not in ("env", "install", "create", "update", "run")]
    if "remove" in texts or "uninstall" in texts:
        return Asked(removes=frozenset(canonicalize_name(word.text) for word in named))
    if not {"install", "create", "update"} & set(texts):
        return Asked()
    files = tuple(
        Listed(FileKind.ENVIRONMENT, word.text, Place(file, word.line, end_line))
        for word in options.of("-f", "--file")
        if word.text.endswith((".yml", ".yaml"))
    )
    found = (conda_spec(word.text, Place(file, word.line, end_line)) for word in named)
    return Asked(tuple(entry for entry in found if entry is not None), frozenset(), files)


def conda_spec(text: str, place: Place) -> Install | None:
    """A package of conda: ``conda-forge::cupy=14.2``."""
    match = _CONDA_SPEC.fullmatch(text.strip().split(" ")[0])
    if match is None:
        return None
    version = (match[3] or "").split("=")[0]
    try:
        specifier = SpecifierSet(_conda_version(match[2], version))
    except ValueError:
        specifier = None
    return Install(Manager.CONDA, canonicalize_name(match[1]), specifier, frozenset(), place, text)


def _conda_version(operator: str | None, version: str) -> str:
    if not operator or not version:
        return ""
    if operator == "=":
        return f"=={version.rstrip('.*')}.*"
    return f"{operator}{version}"


def _system(command: Command, file: str, end_line: int | None) -> Asked:
    verbs = ("install", "add", "in")
    words = [word for word in command.words[1:] if not word.text.startswith("-") and word.text not in verbs]
    return Asked(
        tuple(
            Install(
                Manager.SYSTEM,
                re.split(r"[=:<>~]", word.text)[0],
                None,
                frozenset(),
                Place(file, word.line, end_line),
                word.text,
            )
            for word in words
        )
    )


def _project(command: Command, file: str, end_line: int | None) -> Asked:
    """``uv sync``, ``uv add`` and what poetry and pdm call them."""
    verb, options = command.texts[0], _options(command.words[2:])
    if verb == "add":
        found = [requirement(w.text, Place(file, w.line, end_line), known=w.known) for w in options.positional]
        return Asked(tuple(entry for entry in found if entry is not None))
    if verb not in ("sync", "install"):
        return Asked()
    extras = frozenset(part for word in options.of("--extra", "--extras", "-E") for part in word.text.split())
    every = {"*"} if "--all-extras" in options.values else set[str]()
    place = Place(file, command.words[0].line, end_line)
    return Asked(files=(Listed(FileKind.PROJECT, ".", place, extras | every),))

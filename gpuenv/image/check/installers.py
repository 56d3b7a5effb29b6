"""What a command installs: the words of pip, uv, poetry, conda and the systems' package managers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from gpuenv.image.check import pixi
from gpuenv.image.check.installs import (
    Asked,
    FileKind,
    Install,
    Listed,
    Manager,
    Place,
    conda_spec,
    requirement,
)
from gpuenv.image.check.shell import Command, Word

_PIP = re.compile(r"pip[\d.]*")
PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SYSTEM = ("apt-get", "apt", "aptitude", "yum", "dnf", "microdnf", "tdnf", "zypper", "apk")
_CONDA = ("conda", "mamba", "micromamba")
# Options that take a word of their own: pip 23.2.1, pip install --help; uv 0.13.8, uv pip install, uv add and uv sync
# --help (run 2026-11-21). Those of conda and poetry were not looked up.
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
        *("--no-binary-package", "--refresh-package", "--exists-action", "--root-user-action", "--use-feature"),
        *("--use-deprecated", "--allow-insecure-host", "--build-constraints", "-b", "--color", "--config-file"),
        *("--config-setting", "--config-settings-package", "--exclude-newer-package", "--excludes", "--fork-strategy"),
        *("--no-build-isolation-package", "--no-editable-package", "--no-sources-package", "--output-format"),
        *("--prerelease-package", "--python-platform", "--upgrade-group", "--bounds", "--branch", "--marker"),
        *("--no-install-package", "--optional", "--package", "--rev", "--script", "--tag", "--no-extra", "--no-group"),
        *("--only-group",),
    )
)
_FLAGS_OF_PIP = frozenset(("-n",))  # uv's --no-cache; conda's -n names an environment
_INDEXES = ("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links")
_CUDA_INDEX = re.compile(r"/whl/(?:nightly/)?(?:cu(\d\d)(\d)|(cpu))\b")


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
    if command.program == "pixi" and command.texts:
        return pixi.asked(command, file, end_line)
    if command.program in ("uv", "poetry", "pdm") and command.texts:
        return _project(command, file, end_line)
    return Asked()


def _pip_words(command: Command) -> Sequence[Word] | None:
    """The words after pip or uv pip; none for another program."""
    words = command.words
    if _PIP.fullmatch(command.program):
        return words[1:]
    texts = command.texts
    if PYTHON.fullmatch(command.program) and "-m" in texts:
        at = texts.index("-m") + 1
        return words[at + 2 :] if at < len(texts) and _PIP.fullmatch(texts[at]) else None
    if command.program == "uv" and "pip" in texts:
        return words[texts.index("pip") + 2 :]
    if command.program in (*_CONDA, "pipenv", "poetry", "pdm", "pixi") and texts[:1] == ("run",):
        rest = next((n for n, word in enumerate(words) if n > 1 and _PIP.fullmatch(word.text.rsplit("/", 1)[-1])), None)
        return None if rest is None else words[rest + 1 :]
    return None


def _options(words: Sequence[Word], flags: frozenset[str] = frozenset()) -> _Options:
    """The options of a call; ``flags`` are those that take no word although others' of that name do."""
    found = _Options()
    position = 0
    while position < len(words):
        word = words[position]
        name, equals, value = word.text.partition("=")
        if not word.text.startswith("-") or word.text == "-":
            found.positional.append(word)
        elif equals and name.startswith("--"):
            found.values.setdefault(name, []).append(Word(value, word.line, word.known))
        elif word.text in _WITH_VALUE - flags and position + 1 < len(words):
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
    verb, options = words[0].text, _options(words[1:], _FLAGS_OF_PIP)
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
    for word in options.of(*_INDEXES):
        match = _CUDA_INDEX.search(word.text)
        if match is not None:
            return 0 if match[3] else int(match[1])
    return None


def _is_folder(text: str) -> bool:
    return text == "." or (text.startswith((".[", "./", "/", "../")) and not text.endswith((".whl", ".tar.gz", ".zip")))


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

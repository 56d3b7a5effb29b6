"""What a command installs: arguments of pip, uv, poetry, conda and the systems' package managers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name

from gpuenv.image.dockerfile import pixi, project_commands
from gpuenv.image.dockerfile.indexes import backend_cuda, index_cuda
from gpuenv.image.dockerfile.install_requests import (
    DependencyFile,
    FileKind,
    Install,
    InstallRequest,
    Manager,
    SourceLocation,
    conda_spec,
    requirement,
)
from gpuenv.image.dockerfile.installer_options import Options, read_options
from gpuenv.image.dockerfile.projects import Selection
from gpuenv.image.dockerfile.shell import Command, ShellWord
from gpuenv.model.versions import CudaVersion

_PIP = re.compile(r"pip[\d.]*")
PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SYSTEM = ("apt-get", "apt", "aptitude", "yum", "dnf", "microdnf", "tdnf", "zypper", "apk")
_CONDA = ("conda", "mamba", "micromamba")
_FLAGS_OF_PIP = frozenset(("-n",))  # uv's --no-cache; conda's -n names an environment
_INDEXES = ("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links")


def install_request(command: Command, file: str, end_line: int | None = None) -> InstallRequest:
    """What a command installs; nothing where it is no installer."""
    words = _pip_words(command)
    if words is not None:
        return _pip(words, file, end_line)
    if command.program in _CONDA:
        return _conda(command, file, end_line)
    if command.program in _SYSTEM and {"install", "add", "in"} & set(command.texts):
        return _system(command, file, end_line)
    if command.program == "pixi" and command.texts:
        return pixi.install_request(command, file, end_line)
    return project_commands.install_request(command, file, end_line)


def environment_of(command: Command) -> str:
    """What names the environment that a command installs into: a folder of programs, or conda's name; else nothing."""
    folder = command.words[0].text.rpartition("/")[0]
    if folder and not folder.startswith(("/usr", "/bin")):
        return folder
    options = read_options(command.words[1:], _FLAGS_OF_PIP if command.program == "uv" else frozenset())
    names = ("--python", "-p") if command.program == "uv" else ("-n", "--name", "-p", "--prefix")
    named = options.of(*names) if command.program in (*_CONDA, "uv") else []
    return next((word.text for word in named if word.text != "base"), "")


def _pip_words(command: Command) -> Sequence[ShellWord] | None:
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


def _pip(words: Sequence[ShellWord], file: str, end_line: int | None) -> InstallRequest:
    options = read_options(words, _FLAGS_OF_PIP)  # some may stand before the verb
    verb, named = options.positional[0].text if options.positional else "", options.positional[1:]
    if verb in ("uninstall", "remove"):
        return InstallRequest(removes=frozenset(canonicalize_name(word.text) for word in named))
    if verb not in ("install", "sync"):
        return InstallRequest()
    source, index = _from_source(options), _index_cuda(options)
    files = [*_files(options, named if verb == "sync" else [], file, end_line, index)]
    installs = []
    for word in (*(named if verb == "install" else ()), *options.of("-e", "--editable")):
        location = SourceLocation(file, word.line, end_line)
        if _is_folder(word.text):
            path, _, extras = word.text.partition("[")
            listed = frozenset(part.strip() for part in extras.rstrip("]").split(",") if part.strip())
            files.append(DependencyFile(FileKind.PROJECT, path, location, Selection(listed), index))
            continue
        found = requirement(word.text, location, known=word.known)
        if found is not None:
            installs.append(_placed(found, source, index))
    return InstallRequest(tuple(installs), frozenset(), tuple(files))


def _files(
    options: Options, synced: Sequence[ShellWord], file: str, end_line: int | None, index: CudaVersion | None
) -> Iterator[DependencyFile]:
    """The files that a call of pip names: requirements, a project as such, constraints, groups of a project."""
    required = options.of("-r", "--requirement", "--requirements")
    for word in (*required, *synced):
        location = SourceLocation(file, word.line, end_line)
        if word.text.endswith("pyproject.toml"):
            selection = project_commands.selection_of("uv", options, defaults=False)
            yield DependencyFile(FileKind.PROJECT, word.text, location, selection, index)
        elif not word.text.startswith(("http://", "https://")):
            yield DependencyFile(FileKind.REQUIREMENTS, word.text, location, index_cuda=index)
    for word in options.of("-c", "--constraint", "--constraints"):
        yield DependencyFile(FileKind.CONSTRAINTS, word.text, SourceLocation(file, word.line, end_line))
    for word in options.of("--group"):
        folder, _, group = word.text.rpartition(":")
        selection = Selection(groups=frozenset({group}), project=False)
        yield DependencyFile(
            FileKind.PROJECT, folder or ".", SourceLocation(file, word.line, end_line), selection, index
        )


def _placed(install: Install, source: frozenset[str], index: CudaVersion | None) -> Install:
    built = install.from_source or install.name in source or ":all:" in source
    return replace(install, from_source=built, index_cuda=index)


def _from_source(options: Options) -> frozenset[str]:
    words = options.of("--no-binary", "--no-binary-package")
    return frozenset(
        part if part.startswith(":") else canonicalize_name(part) for word in words for part in word.text.split(",")
    )


def _index_cuda(options: Options) -> CudaVersion | None:
    named = [index_cuda(word.text) for word in options.of(*_INDEXES)]
    named += [backend_cuda(word.text) for word in options.of("--torch-backend")]
    return next((major for major in named if major is not None), None)


def _is_folder(text: str) -> bool:
    return text == "." or (text.startswith((".[", "./", "/", "../")) and not text.endswith((".whl", ".tar.gz", ".zip")))


def _conda(command: Command, file: str, end_line: int | None) -> InstallRequest:
    texts = command.texts
    options = read_options(command.words[1:])
    named = [word for word in options.positional if word.text not in ("env", "install", "create", "update", "run")]
    if "remove" in texts or "uninstall" in texts:
        return InstallRequest(removes=frozenset(canonicalize_name(word.text) for word in named))
    if not {"install", "create", "update"} & set(texts):
        return InstallRequest()
    location = SourceLocation(file, command.words[0].line, end_line)
    files = tuple(
        DependencyFile(_kind_of_conda(word.text), word.text, replace(location, line=word.line))
        for word in options.of("-f", "--file")
    )
    if not files and texts[:1] == ("env",):
        files = (DependencyFile(FileKind.ENVIRONMENT, "environment.yml", location),)  # the default of conda env
    found = (conda_spec(word.text, SourceLocation(file, word.line, end_line)) for word in named)
    return InstallRequest(tuple(entry for entry in found if entry is not None), frozenset(), files)


def _kind_of_conda(name: str) -> FileKind:
    return FileKind.ENVIRONMENT if name.endswith((".yml", ".yaml")) else FileKind.PACKAGES


def _system(command: Command, file: str, end_line: int | None) -> InstallRequest:
    verbs = ("install", "add", "in")
    words = [word for word in command.words[1:] if not word.text.startswith("-") and word.text not in verbs]
    return InstallRequest(
        tuple(
            Install(
                Manager.SYSTEM,
                re.split(r"[=:<>~]", word.text)[0],
                None,
                frozenset(),
                SourceLocation(file, word.line, end_line),
                word.text,
            )
            for word in words
        )
    )

"""The packages that a command installs: arguments of pip, uv, conda and the package managers of distributions.

The options are those of pip 23.2.1 and uv 0.13.9 (pip install, uv pip install and uv sync --help, run 2026-11-22).
The installs of other programs (poetry, pdm, pixi, make, a script) are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name

from gpuenv.image.dockerfile.requirements import (
    DependencyFile,
    FileKind,
    Install,
    InstallRequest,
    Manager,
    SourceLocation,
    index_cuda,
    parse_conda_spec,
    parse_requirement,
)
from gpuenv.image.dockerfile.shell import SHELLS, Command, ShellWord
from gpuenv.model.versions import CudaVersion

_PIP = re.compile(r"pip[\d.]*")
PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SYSTEM_MANAGERS = ("apt-get", "apt", "yum", "dnf", "microdnf", "tdnf", "zypper", "apk")
_CONDA = ("conda", "mamba", "micromamba")
_PIP_COMMANDS = ("install", "sync", "uninstall", "remove")
_INDEXES = ("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links")
# Options whose next word is their value. Others that take one are left out: their values are no names of packages that
# any rule knows.
_WITH_VALUE = {
    *_INDEXES,
    *("-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints", "-e", "--editable"),
    *("--torch-backend", "--group", "--extra", "--no-binary", "--only-binary", "--no-binary-package", "--python"),
    *("-p", "--prefix", "-n", "--name", "-t", "--target", "--file", "--channel", "--directory", "--project"),
    *("--root", "--no-install-package", "--only-group", "--no-group"),
}
_ENVIRONMENT_OPTIONS = ("-t", "--target", "--prefix", "--root", "-p", "--python", "-n", "--name")
_ENVIRONMENT_FOLDER = re.compile(r".*/(?:envs/[^/]+|[^/]*env)/bin/?")
_BUNDLED = re.compile(r"-[IUqvy]+([rce].*)")  # -qr requirements.txt
# Installers of programs unrelated to CUDA.
_HARMLESS = re.compile(
    r"(?:mini|ana)conda|(?:mini|mamba)forge|micro\.?mamba|get-pip|\brustup|nodesource|astral\.sh|install-poetry|pixi\.sh"
    r"|oh-my-zsh|nvm|activate\b|\.bashrc|profile|cargo/env|keyring",
    re.IGNORECASE,
)
_PROJECT_MANAGERS = ("poetry", "pdm", "pipenv", "pixi", "hatch", "rye")
# Programs with unknown installs.
_UNKNOWN_INSTALLERS = ("make", "cmake", "ninja", "bazel", "spack", "dpkg", "rpm", "xargs", "source", ".", "eval")


@dataclass(slots=True)
class Arguments:
    """The arguments of an installer: words, and the values of options by name."""

    words: list[ShellWord] = field(default_factory=list)
    values: dict[str, list[ShellWord]] = field(default_factory=dict)

    def of(self, *names: str) -> list[ShellWord]:
        """The values of an option, by its names."""
        return [word for name in names for word in self.values.get(name, ())]


def install_request(command: Command, location: SourceLocation) -> InstallRequest:
    """The installs and removals of a command at a location; empty if it is no installer."""
    words = _pip_arguments(command)
    if words is not None:
        return _pip(read_arguments(words, flags=("-n",)), location)  # uv's --no-cache
    texts = command.texts
    if command.program == "uv" and texts[:1] in (("sync",), ("add",)):
        return _uv_project(read_arguments(command.words[1:], flags=("-n",)), location)
    if command.program in _CONDA and texts[:1] != ("run",):
        return _conda(command, location)
    if command.program in _SYSTEM_MANAGERS and {"install", "add", "in"} & set(texts):
        return _system(command, location)
    return InstallRequest(unknown=_may_install(command))


def environment_of(command: Command) -> str:
    """The environment of a command; empty for the usual one.

    Its options name it, the folder of its program, the active environment, or, for pip, the search path.
    """
    arguments = read_arguments(command.words[1:], flags=("-n",) if command.program == "uv" else ())
    named = [word.text for word in arguments.of(*_ENVIRONMENT_OPTIONS)]
    folder = command.words[0].text.rpartition("/")[0]
    has_environment = command.program not in (*_CONDA, "uv")
    if not named and folder and not folder.startswith(("/usr", "/bin")) and has_environment:
        named = [folder]
    if not named:
        named = [command.lookup("VIRTUAL_ENV") or command.lookup("CONDA_DEFAULT_ENV") or ""]
    if not named[0] and has_environment:
        named = list(filter(_ENVIRONMENT_FOLDER.fullmatch, (command.lookup("PATH") or "").split(":")))[:1]
    names = (re.sub(r".*/envs/(?=[^/]+$)", "", name.rstrip("/").removesuffix("/bin")) for name in named)
    return " ".join(name for name in names if name != "base")


def _may_install(command: Command) -> bool:
    """Whether a program may install packages: a script, a runfile, a build, a shell that reads its input."""
    name = command.program
    if _HARMLESS.search(" ".join((command.words[0].text, *command.texts, command.reads))):
        return False
    if name in SHELLS or name in _UNKNOWN_INSTALLERS:
        return name not in SHELLS or "--version" not in command.texts
    if name in _PROJECT_MANAGERS:
        return bool({"install", "add", "sync", "update"} & set(command.texts))
    if PYTHON.fullmatch(name):
        return any(text.endswith(".py") for text in command.texts[:2])
    return name.endswith((".sh", ".run", ".py", ".bash")) or command.words[0].text.startswith(("./", "$"))


def _pip_arguments(command: Command) -> Sequence[ShellWord] | None:
    """The words after ``pip`` or ``uv pip``; None for another program."""
    words, texts = command.words, command.texts
    if _PIP.fullmatch(command.program):
        return words[1:]
    program = command.program
    at = next((n for n, text in enumerate(texts) if text.startswith("-m")), None) if PYTHON.fullmatch(program) else None
    if at is not None:
        at += texts[at] == "-m"  # python -m pip, or python -mpip
        program = texts[at].removeprefix("-m") if at < len(texts) else ""
        if program != "uv":
            return words[at + 2 :] if _PIP.fullmatch(program) else None
    if program == "uv" and "pip" in texts:
        return words[texts.index("pip") + 2 :]
    if texts[:1] == ("run",):  # conda run -n NAME pip install, poetry run pip install
        at = next((n for n, word in enumerate(words) if n > 1 and _PIP.fullmatch(word.text.rsplit("/", 1)[-1])), -1)
        return words[at + 1 :] if at > 0 else None
    return None


def read_arguments(words: Sequence[ShellWord], flags: Sequence[str] = ()) -> Arguments:
    """Parses the arguments of an installer; ``flags`` are options that take no value in this program."""
    found = Arguments()
    valued = _WITH_VALUE.difference(flags)
    position = 0
    while position < len(words):
        word = words[position]
        bundled = _BUNDLED.fullmatch(word.text)
        text = f"-{bundled[1]}" if bundled else word.text
        name, equals, value = text.partition("=")
        if not text.startswith("-") or text == "-":
            found.words.append(word)
        elif equals and name.startswith("--"):
            found.values.setdefault(name, []).append(replace(word, text=value))
        elif text in valued and position + 1 < len(words):
            position += 1
            found.values.setdefault(text, []).append(words[position])
        elif text[:2] in valued and len(text) > len("-r") and not text.startswith("--"):
            found.values.setdefault(text[:2], []).append(replace(word, text=text[2:]))
        else:
            found.values.setdefault(name, [])
        position += 1
    return found


def _pip(arguments: Arguments, location: SourceLocation) -> InstallRequest:
    at = next((n for n, word in enumerate(arguments.words) if word.text in _PIP_COMMANDS), None)
    if at is None or "--dry-run" in arguments.values:
        return InstallRequest()
    verb, named = arguments.words[at].text, arguments.words[at + 1 :]
    if verb in ("uninstall", "remove"):
        return InstallRequest(removes=frozenset(canonicalize_name(word.text) for word in named))
    index = _index_of(arguments)
    built = {
        part if part.startswith(":") else canonicalize_name(part)
        for word in arguments.of("--no-binary", "--no-binary-package")
        for part in word.text.split(",")
    }
    files = _pip_files(arguments, named if verb == "sync" else [], location)
    installs: list[Install] = []
    unknown = False
    for word in (*(named if verb == "install" else ()), *arguments.of("-e", "--editable")):
        place = replace(location, line=word.line)
        if _is_folder(word.text):
            path, _, extras = word.text.partition("[")
            listed = frozenset(part.strip() for part in extras.rstrip("]").split(",") if part.strip())
            files.append(DependencyFile(FileKind.PROJECT, path, place, extras=listed))
            continue
        found = parse_requirement(word.text, place, known=word.known)
        if found is not None:
            from_source = found.from_source or found.name in built or ":all:" in built
            installs.append(replace(found, from_source=from_source, index_cuda=index))
        else:
            unknown = unknown or not word.known
    return InstallRequest(
        tuple(installs), files=tuple(replace(each, index_cuda=index) for each in files), unknown=unknown
    )


def _pip_files(arguments: Arguments, synced: Sequence[ShellWord], location: SourceLocation) -> list[DependencyFile]:
    found = []
    for word in (*arguments.of("-r", "--requirement", "--requirements"), *synced):
        place = replace(location, line=word.line)
        if word.text.endswith("pyproject.toml"):
            extras = frozenset(each.text for each in arguments.of("--extra")) or _all(arguments, "--all-extras")
            found.append(DependencyFile(FileKind.PROJECT, word.text, place, extras=extras))
        else:
            found.append(DependencyFile(FileKind.REQUIREMENTS, word.text, place))
    found += (
        DependencyFile(FileKind.CONSTRAINTS, word.text, replace(location, line=word.line))
        for word in arguments.of("-c", "--constraint", "--constraints")
    )
    for word in arguments.of("--group"):
        folder, _, group = word.text.rpartition(":")
        place = replace(location, line=word.line)
        groups = frozenset((group,))
        found.append(DependencyFile(FileKind.PROJECT, folder or ".", place, groups=groups, project=False))
    return found


def _all(arguments: Arguments, flag: str) -> frozenset[str]:
    return frozenset(("*",)) if flag in arguments.values else frozenset()


def _uv_project(arguments: Arguments, location: SourceLocation) -> InstallRequest:
    """The installs of ``uv sync`` (a project with its group dev) and ``uv add`` (also the named packages)."""
    verb, *named = arguments.words
    location = replace(location, line=verb.line)
    folder = next((word.text for word in arguments.of("--directory", "--project")), ".")
    without_dev = {"--no-dev", "--no-default-groups", "--only-group"} & set(arguments.values)
    groups = frozenset(word.text for word in arguments.of("--group", "--only-group"))
    project = DependencyFile(
        FileKind.PROJECT,
        folder,
        location,
        extras=frozenset(word.text for word in arguments.of("--extra")) | _all(arguments, "--all-extras"),
        groups=groups | _all(arguments, "--all-groups") | (frozenset() if without_dev else frozenset(("dev",))),
        project="--only-group" not in arguments.values,
    )
    found = [parse_requirement(word.text, location, known=word.known) for word in named if not _is_folder(word.text)]
    return InstallRequest(tuple(each for each in found if each is not None), files=(project,))


def _index_of(arguments: Arguments) -> CudaVersion | None:
    named = [index_cuda(word.text) for word in arguments.of(*_INDEXES)]
    named += [index_cuda(f"/whl/{word.text}") for word in arguments.of("--torch-backend")]
    return next((cuda for cuda in named if cuda is not None), None)


def _is_folder(text: str) -> bool:
    archive = text.endswith((".whl", ".tar.gz", ".zip"))
    return text == "." or (text.startswith((".[", "./", "/", "../")) and not archive)


def _conda(command: Command, location: SourceLocation) -> InstallRequest:
    arguments = read_arguments(command.words[1:])
    verbs = [word.text for word in arguments.words[:2]]
    named = [word for word in arguments.words if word.text not in ("env", "install", "create", "update")]
    if {"remove", "uninstall"} & set(verbs):
        return InstallRequest(removes=frozenset(canonicalize_name(word.text) for word in named[1:]))
    if not {"install", "create", "update"} & set(verbs):
        return InstallRequest()
    listed = arguments.of("-f", "--file")
    files = [
        DependencyFile(FileKind.ENVIRONMENT, word.text, replace(location, line=word.line))
        for word in listed
        if word.text.endswith((".yml", ".yaml"))
    ]
    if not files and verbs[:1] == ["env"]:
        files = [DependencyFile(FileKind.ENVIRONMENT, "environment.yml", location)]  # the default of conda env
    found = [parse_conda_spec(word.text, replace(location, line=word.line)) for word in named]
    unknown = len(files) < len(listed) or not all(word.known for word in named)
    return InstallRequest(tuple(each for each in found if each is not None), files=tuple(files), unknown=unknown)


def _system(command: Command, location: SourceLocation) -> InstallRequest:
    words = [word for word in command.words[1:] if not word.text.startswith("-")]
    words = [word for word in words if word.text not in ("install", "add", "in")]
    installs = [
        Install(
            Manager.SYSTEM,
            re.split(r"[=:<>~]", word.text)[0],
            None,
            frozenset(),
            replace(location, line=word.line),
            word.text,
        )
        for word in words
        if word.known
    ]
    return InstallRequest(tuple(installs), unknown=len(installs) < len(words))

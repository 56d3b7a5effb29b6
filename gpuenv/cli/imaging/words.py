"""The words of ``gpuenv build-image`` made into wishes, machines and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject, get_all, get_both
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.image.choose import Wish
    from gpuenv.matrix.needs import Needs
    from gpuenv.matrix.records import Matrix

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be built, in the words of the command line.

    Attributes:
        kinds: of image.
        every: the whole supported matrix.
        cuda: version of CUDA in the image.
        cupy: version, or line and version.
        python: version of Python in the image.
        arch: architecture.
        base: another base image.
        tag: name of the image; of several, the repository.
        capabilities: compute capabilities to serve.
        labels: ``KEY=VALUE``.
        snapshots: recorded machines to serve.
    """

    kinds: tuple[str, ...]
    every: bool
    cuda: str | None
    cupy: str | None
    python: str | None
    arch: str | None
    base: str | None
    tag: str | None
    capabilities: tuple[str, ...]
    labels: tuple[str, ...]
    snapshots: tuple[Path, ...]


def wishes_of(asked: Asked) -> tuple[Wish, ...]:
    """The wishes, one a kind.

    Raises:
        CommandError: for a word that is not understood.
    """
    from gpuenv.image.choose import DOCKER_PLATFORMS, Wish
    from gpuenv.image.cupy_words import line_and_release
    from gpuenv.image.records import Kind
    from gpuenv.image.reference import split
    from gpuenv.model.versions import ComputeCapability, CudaVersion, PythonVersion

    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(asked.arch or "", asked.arch)
    if arch is not None and f"linux-{arch}" not in DOCKER_PLATFORMS:
        raise CommandError(ExitCode.USAGE, f"--arch {asked.arch}: expected x86_64 or aarch64")
    kinds = [Kind(name) for name in asked.kinds] or (list(Kind) if asked.every else [Kind.WHEELS])
    line, cupy = _read("--cupy", asked.cupy or "", line_and_release)
    if asked.base is not None:
        _read("--base", asked.base, split)
    if asked.tag is not None:
        _read("--tag", asked.tag, _without_digest)
    python = _read("--python", asked.python, PythonVersion.parse) if asked.python else None
    wish = Wish(
        cuda=_read("--cuda", asked.cuda, CudaVersion.parse) if asked.cuda else None,
        line=line,
        cupy=cupy,
        python=replace(python, micro=None) if python else None,
        arch=arch,
        base=asked.base,
        capabilities=tuple(
            _read("--compute-capability", entry, ComputeCapability.parse) for entry in asked.capabilities
        ),
    )
    return tuple(replace(wish, kind=kind) for kind in dict.fromkeys(kinds))


def _read(option: str, text: str, parse: Callable[[str], T]) -> T:
    """What an option says; what is wrong with it is told with its name, for a command has many."""
    try:
        return parse(text)
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"{option} {text}: {error}") from error


def _without_digest(tag: str) -> str:
    from gpuenv.image.reference import split

    if split(tag)[2] is not None:
        raise ValueError("a digest is not given, it comes of the build")
    return tag


def refuse_unreadable(secrets: Mapping[str, Path]) -> None:
    """A secret that cannot be read ends the command before anything is asked.

    Raises:
        CommandError: with the file.
    """
    for path in secrets.values():
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: {error.strerror or error}") from error


def machines_of(asked: Asked, subject: Subject, matrix: Path | None) -> tuple[dict[str, Needs], Matrix]:
    """The machines to be served, and the matrix; of a machine that is given no GPU and no driver, nothing is asked.

    Raises:
        CommandError: when a recording cannot be read, or stands beside --no-probe.
    """
    from gpuenv.matrix.needs import needs_of

    files = asked.snapshots
    if files and subject.no_probe:
        raise CommandError(ExitCode.USAGE, "--snapshot and --no-probe exclude each other")
    # With a CUDA, a wheel or a GPU named, this machine is no more than where the image is built.
    told = asked.every or asked.cuda or asked.cupy or asked.capabilities
    if files:
        machines, rows = get_all(subject, files, matrix)
        return {name: needs_of(facts, rows) for name, facts in machines.items()}, rows
    facts, rows = get_both(replace(subject, no_probe=True) if told and not subject.assume else subject, matrix)
    return {"": needs_of(facts, rows)}, rows


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """The labels that were given.

    Raises:
        CommandError: for what is none, or gpuenv's own.
    """
    pairs = [entry.partition("=") for entry in given]
    bad = next((name for name, sign, _ in pairs if not sign or not name), None)
    if bad is not None:
        raise CommandError(ExitCode.USAGE, f"--label {bad}: expected KEY=VALUE")
    own = next((name for name, _, _ in pairs if name.startswith("io.gpuenv.")), None)
    if own is not None:
        raise CommandError(ExitCode.USAGE, f"--label {own}: gpuenv writes these itself")
    return {name: value for name, _, value in pairs}

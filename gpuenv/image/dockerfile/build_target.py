"""What a Dockerfile would build: the chain of stages behind a target, with what is installed and set in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuenv.image.dockerfile.base_images import BaseImage, base_of
from gpuenv.image.dockerfile.base_python import python_of
from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.build_point import at
from gpuenv.image.dockerfile.dependency_files import apply_constraints, follow
from gpuenv.image.dockerfile.indexes import environment_cuda
from gpuenv.image.dockerfile.install_commands import environment_of, install_request
from gpuenv.image.dockerfile.install_requests import (
    DependencyFile,
    FileKind,
    Install,
    InstallRequest,
    Manager,
    SourceLocation,
)
from gpuenv.image.dockerfile.run_commands import commands_of
from gpuenv.image.dockerfile.shell import Command
from gpuenv.image.dockerfile.stages import Setting, Stage, Step
from gpuenv.matrix.tables import Matrix
from gpuenv.model.versions import PythonVersion

_CUDA_FOLDER = re.compile(r"/(?:usr/?)?|/usr/local/?|(?:/usr/local|/opt)/cuda(?:-[\d.]+)?(?:/.*)?")


_CONSTRAINTS = ("PIP_CONSTRAINT", "UV_CONSTRAINT")  # variables that name files


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A command of a RUN, its stage, its instruction, and the stages of the whole Dockerfile."""

    command: Command
    stage: Stage
    step: Step
    stages: tuple[Stage, ...]

    def lookup(self, name: str) -> str | None:
        """The value of a variable that the command sees; None if unknown."""
        own = self.command.variables
        return own[name] if name in own else self.step.lookup(name)


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """A target of a Dockerfile.

    Attributes:
        file: the Dockerfile, as it is shown.
        stages: those that its image is made of, the oldest first.
        base: the image at their beginning.
        installs: what pip and conda put there, less what was removed.
        system: the packages of the system.
        run_commands: every command, of the stages that it copies from too.
        environment: the variables at its end.
        matrix: the compatibility matrix.
        copied: the images that a folder of CUDA is copied from.
        passed_over: the files to install from that were not looked at, each with the reason.
        kept_out: those that the build context does not have, each with the file that says so.
        missing: those that are not there, behind the file and line that name them.
        service: the service of a compose file that it is for.
        python: the Python of its pip, where that is plain.
    """

    file: str
    stages: tuple[Stage, ...]
    base: BaseImage
    installs: tuple[Install, ...]
    system: tuple[Install, ...]
    run_commands: tuple[RunCommand, ...]
    environment: Mapping[str, Setting]
    matrix: Matrix
    copied: tuple[BaseImage, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)
    kept_out: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[tuple[str, int, str], ...] = ()
    service: str | None = None
    python: PythonVersion | None = None

    @property
    def first(self) -> Stage:
        """The stage that names the base image."""
        return self.stages[0]

    @property
    def cupy(self) -> tuple[Install, ...]:
        """The CuPy that pip installs, including names that are not one of its lines."""
        return tuple(filter(is_cupy_of_pip, self.installs))


def is_cupy_of_pip(install: Install) -> bool:
    """Whether pip installs a CuPy for NVIDIA GPUs, or what is named like one."""
    named = install.name == "cupy" or install.name.startswith("cupy-cuda")
    return named and install.manager is Manager.PIP


def targets(stages: tuple[Stage, ...], wanted: Stage | None) -> tuple[Stage, ...]:
    """The requested stage; else every one that no other starts or copies from, as each may be built."""
    if wanted is not None:
        return (wanted,)
    used = {number for stage in stages for number in (stage.parent, *stage.takes) if number is not None}
    return tuple(stage for stage in stages if stage.number not in used)


def build(target: Stage, stages: tuple[Stage, ...], file: str, context: BuildContext, matrix: Matrix) -> BuildTarget:
    """Evaluates a target."""
    chain = _chain(target, stages)
    behind = _behind(chain, stages)
    order = [*dict.fromkeys([*behind, *chain])]
    run_commands = tuple(entry for stage in order for entry in _commands_of_stage(stage, stages))
    copied = {stage.number for stage in behind if _gives_packages(stage, chain)}
    inside = [entry for entry in run_commands if entry.stage in chain or entry.stage.number in copied]
    there = _installed(inside, file, context)
    base = base_of(chain[0].base or "", matrix)
    return BuildTarget(
        file=file,
        stages=tuple(chain),
        base=base,
        installs=tuple(entry for entry in there if entry.manager is not Manager.SYSTEM),
        system=tuple(
            entry
            for entry in _installed([e for e in run_commands if e.stage in chain], file, context)
            if entry.manager is Manager.SYSTEM
        ),
        run_commands=run_commands,
        environment=target.environment,
        matrix=matrix,
        copied=tuple(base_of(name, matrix) for name in _cuda_copied_from(chain, stages)),
        passed_over=dict(context.passed_over),
        kept_out=dict.fromkeys(context.kept_out, context.ignored_by),
        missing=tuple(dict.fromkeys(context.missing)),
        python=python_of(base, chain, (entry.command for entry in run_commands)),
    )


def _chain(target: Stage, stages: tuple[Stage, ...]) -> list[Stage]:
    chain = [target]
    while chain[0].parent is not None:
        chain.insert(0, stages[chain[0].parent])
    return chain


def _behind(chain: Iterable[Stage], stages: tuple[Stage, ...]) -> list[Stage]:
    """The stages behind a COPY --from, with those that they start from, in their order."""
    left = [number for stage in chain for number in stage.takes]
    found: set[int] = set()
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            stage = stages[number]
            left += stage.takes if stage.parent is None else (*stage.takes, stage.parent)
    return [stages[number] for number in sorted(found)]


def _cuda_copied_from(chain: list[Stage], stages: tuple[Stage, ...]) -> Iterator[str]:
    """The images, also those at the beginning of other stages, whose folder of CUDA is copied."""
    names = {key: stage for stage in stages for key in (stage.name, str(stage.number)) if key}
    for step in (step for each in chain for step in each.steps):
        source = step.instruction.flag("from")
        words = step.instruction.exec_form or step.instruction.body.text.split()
        if step.instruction.keyword != "COPY" or source is None or not any(map(_CUDA_FOLDER.fullmatch, words[:-1])):
            continue
        stage = names.get(source.lower())
        yield source if stage is None else _chain(stage, stages)[0].base or ""


def _gives_packages(stage: Stage, chain: list[Stage]) -> bool:
    """Whether a folder, rather than a single file, is copied from it: an environment may be in there."""
    for step in (step for each in chain for step in each.steps):
        source = step.instruction.flag("from")
        if step.instruction.keyword != "COPY" or source is None:
            continue
        if source.lower() in (stage.name, str(stage.number)):
            words = step.instruction.exec_form or step.instruction.body.text.split()
            if any("." not in word.rsplit("/", 1)[-1].lstrip(".") for word in words[:-1]):
                return True
    return not any(stage.number in each.takes for each in chain)


def _commands_of_stage(stage: Stage, stages: tuple[Stage, ...]) -> Iterator[RunCommand]:
    for step in stage.steps:
        if step.instruction.keyword == "RUN":
            for command in commands_of(step):
                yield RunCommand(command, stage, step, stages)


def _installed(run_commands: list[RunCommand], file: str, context: BuildContext) -> list[Install]:
    """What is installed after all commands, which add and remove."""
    there: list[Install] = []
    for entry in run_commands:
        ask = install_request(entry.command, file, entry.step.instruction.end_line)
        if ask.removes:
            there = [install for install in there if install.name not in ask.removes]
        index = environment_cuda(entry.lookup)
        environment = environment_of(entry.command)
        for each in _with_files(ask, entry, file, context):
            known = each.index_cuda if each.index_cuda is not None else index
            perhaps = each.perhaps or entry.command.perhaps
            there.append(replace(each, perhaps=perhaps, index_cuda=known, environment=environment))
    return there


def _with_files(ask: InstallRequest, entry: RunCommand, file: str, context: BuildContext) -> list[Install]:
    named = (entry.lookup(name) or "" for name in _CONSTRAINTS)
    location = SourceLocation(file, entry.command.words[0].line)
    limiting = [DependencyFile(FileKind.CONSTRAINTS, path, location) for text in named for path in text.split()]
    if not (ask.files or (ask.installs and limiting)):
        return list(ask.installs)
    where = at(entry.stages, entry.stage, entry.step, entry.command.folder, file)
    followed = [(listed, follow(listed, where, context)) for listed in (*ask.files, *limiting)]
    installs = [*ask.installs]
    installs += [i for listed, request in followed if listed.kind is not FileKind.CONSTRAINTS for i in request.installs]
    limits = [i for listed, request in followed if listed.kind is FileKind.CONSTRAINTS for i in request.installs]
    return apply_constraints(installs, limits)

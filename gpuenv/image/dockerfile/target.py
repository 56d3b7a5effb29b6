"""The target of a Dockerfile: its stages, its installs, its commands and its variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpuenv.image.dockerfile.base_images import BaseImage, base_of, python_of
from gpuenv.image.dockerfile.build_context import (
    BuildContext,
    apply_constraints,
    find_source,
    path_of,
    read_dependencies,
)
from gpuenv.image.dockerfile.install_commands import environment_of, install_request
from gpuenv.image.dockerfile.parse import DockerfileError, Instruction
from gpuenv.image.dockerfile.requirements import (
    DependencyFile,
    FileKind,
    Install,
    InstallRequest,
    Manager,
    SourceLocation,
    evaluate_marker,
    index_cuda,
    is_cuda_related,
)
from gpuenv.image.dockerfile.shell import Command
from gpuenv.image.dockerfile.stages import Setting, Stage, Step
from gpuenv.matrix.tables import Matrix
from gpuenv.model.redaction import cut_text
from gpuenv.model.snapshot import architecture
from gpuenv.model.versions import PythonVersion

_CUDA_FOLDER = re.compile(r"/(?:usr/?)?|/usr/local/?|(?:/usr/local|/opt)/cuda(?:-[\d.]+)?(?:/.*)?")
_LONGEST = 60  # characters of a command in a message
_MOST_WORDS = 500_000  # of the commands of all targets: each of 500 stages may start from the same long one
_INDEX_VARIABLES = tuple(
    f"{tool}_{name}"
    for tool in ("PIP", "UV")
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "DEFAULT_INDEX", "INDEX", "FIND_LINKS")
)


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A command of a RUN, with its instruction and its stage."""

    command: Command
    step: Step
    stage: Stage

    def location(self, file: str) -> SourceLocation:
        """The location of the command."""
        return SourceLocation(file, self.command.line, self.step.instruction.end_line)


@dataclass(frozen=True, slots=True)
class UnknownInstall:
    """An install whose packages are unknown, described as ``make install``; ``is_file``, if it is a list of packages.

    Of a command in a condition, ``possible`` are the packages that it may install.
    """

    location: SourceLocation
    what: str
    possible: tuple[Install, ...] = ()
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """A target of a Dockerfile.

    Attributes:
        stages: the stages of its image, the base first.
        installs: the packages of pip and conda that are not removed later.
        removed: the packages that a command removes, perhaps those of the base image.
        system: the packages of the distribution.
        run_commands: all commands, also of stages that the image copies from.
        copied: the images from which a CUDA folder is copied.
        python: the Python of its pip; null if unknown.
        service: the name of the service that it belongs to; null without one.
    """

    file: str
    stages: tuple[Stage, ...]
    base: BaseImage
    installs: tuple[Install, ...]
    removed: frozenset[str]
    system: tuple[Install, ...]
    unknown: tuple[UnknownInstall, ...]
    run_commands: tuple[RunCommand, ...]
    environment: Mapping[str, Setting]
    matrix: Matrix
    copied: tuple[BaseImage, ...] = ()
    python: PythonVersion | None = None
    service: str | None = None

    def location(self, part: Stage | Instruction | Setting) -> SourceLocation:
        """The location of an instruction, a variable or a stage's FROM."""
        return SourceLocation(self.file, part.line, part.end_line)

    @property
    def base_line(self) -> str | None:
        """The CuPy line that the base image has, unless a command removes it."""
        line = self.base.row.line if self.base.row is not None else None
        return line if line not in self.removed else None

    @property
    def cupy(self) -> tuple[Install, ...]:
        """The CuPy installs of pip, including names that look like a wheel line."""
        return tuple(filter(is_cupy, self.installs))


def is_cupy(install: Install) -> bool:
    """Whether pip installs CuPy for NVIDIA GPUs, or a name that looks like a wheel line."""
    named = install.name == "cupy" or install.name.startswith("cupy-cuda")
    return named and install.manager is Manager.PIP


def is_conda_cupy(install: Install) -> bool:
    """Whether conda installs CuPy: conda-forge has it as cupy and cupy-core."""
    return install.manager is Manager.CONDA and install.name in ("cupy", "cupy-core")


def final_stages(stages: tuple[Stage, ...], wanted: Stage | None) -> tuple[Stage, ...]:
    """The wanted stage; without one, every stage that no other stage starts or copies from.

    Raises:
        DockerfileError: if these have too many commands.
    """
    if wanted is not None:
        return (wanted,)
    used = {number for stage in stages for number in (stage.parent, *stage.copies_from) if number is not None}
    found = tuple(stage for stage in stages if stage.number not in used)
    words = [sum(len(command.words) for step in stage.steps for command in step.commands) for stage in stages]
    count = 0
    for target in found:
        chain = _chain(target, stages)
        count += sum(words[stage.number] for stage in {*chain, *_copied_stages(chain, stages)})
        if count > _MOST_WORDS:
            raise DockerfileError(
                f"line {target.line}: more than {_MOST_WORDS} words in the commands of all targets; "
                "check them one by one, with --target"
            )
    return found


def evaluate(target: Stage, stages: tuple[Stage, ...], file: str, context: BuildContext, matrix: Matrix) -> BuildTarget:
    """The target of a stage."""
    chain = _chain(target, stages)
    copied_stages = _copied_stages(chain, stages)
    run_commands = tuple(
        RunCommand(command, step, stage)
        for stage in dict.fromkeys((*copied_stages, *chain))
        for step in stage.steps
        for command in step.commands
    )
    base = base_of(chain[0].base or "", matrix)
    packages = [stage for stage in copied_stages if _gives_packages(stage, chain)]
    inside = _Installed(
        stages, file, context, [run for run in run_commands if run.stage in (*packages, *chain)], matrix
    )
    own = {stage.number for stage in chain}
    return BuildTarget(
        file=file,
        stages=tuple(chain),
        base=base,
        installs=tuple(each for each, _ in inside.found if each.manager is not Manager.SYSTEM),
        removed=frozenset(inside.removed),
        system=tuple(each for each, stage in inside.found if each.manager is Manager.SYSTEM and stage in own),
        unknown=tuple(inside.unknown),
        run_commands=run_commands,
        environment=target.environment,
        matrix=matrix,
        copied=tuple(base_of(name, matrix) for name in _cuda_copied_from(chain, stages)),
        python=python_of(base, chain, (run.command for run in run_commands)),
    )


def _chain(target: Stage, stages: tuple[Stage, ...]) -> list[Stage]:
    chain = [target]
    while chain[0].parent is not None:
        chain.insert(0, stages[chain[0].parent])
    return chain


def _copied_stages(chain: Iterable[Stage], stages: tuple[Stage, ...]) -> list[Stage]:
    """The stages that a target copies from, and the stages that these start from, in order."""
    left = [number for stage in chain for number in stage.copies_from]
    found: set[int] = set()
    while left:
        number = left.pop()
        if number not in found:
            found.add(number)
            stage = stages[number]
            left += stage.copies_from if stage.parent is None else (*stage.copies_from, stage.parent)
    return [stages[number] for number in sorted(found)]


def _copies(chain: Iterable[Stage]) -> Iterator[tuple[str, list[str]]]:
    """The origin and the sources of each COPY --from."""
    for step in (step for stage in chain for step in stage.steps):
        origin = step.instruction.flag("from")
        if step.instruction.keyword == "COPY" and origin is not None:
            yield origin, (step.instruction.exec_form or step.instruction.body.text.split())[:-1]


def _cuda_copied_from(chain: list[Stage], stages: tuple[Stage, ...]) -> Iterator[str]:
    """The images from which a CUDA folder is copied, directly or through a stage."""
    names = {key: stage for stage in stages for key in (stage.name, str(stage.number)) if key}
    for origin, sources in _copies(chain):
        if any(map(_CUDA_FOLDER.fullmatch, sources)):
            stage = names.get(origin.lower())
            yield origin if stage is None else _chain(stage, stages)[0].base or ""


def _gives_packages(stage: Stage, chain: list[Stage]) -> bool:
    """Whether a folder is copied from a stage, which may contain an environment, rather than single files."""
    sources = [words for origin, words in _copies(chain) if origin.lower() in (stage.name, str(stage.number))]
    if any("." not in word.rsplit("/", 1)[-1].lstrip(".") for words in sources for word in words):
        return True
    return not any(stage.number in each.copies_from for each in chain)


def _short_text(command: Command) -> str:
    return cut_text(" ".join(word.text for word in command.words), _LONGEST)


class _Installed:
    """The installed packages after all commands."""

    def __init__(
        self, build: tuple[Stage, ...], file: str, context: BuildContext, runs: list[RunCommand], matrix: Matrix
    ) -> None:
        self.found: list[tuple[Install, int]] = []
        self.removed: set[str] = set()
        self.unknown: list[UnknownInstall] = []
        self._build, self._file, self._context, self._runs, self._matrix = build, file, context, runs, matrix
        self._pythons: dict[int, PythonVersion | None] = {}  # by the number of the stage
        for run in runs:
            self._run(run)

    def _run(self, run: RunCommand) -> None:
        request = install_request(run.command, run.location(self._file))
        installs = self._with_known_markers(run, [*request.installs, *self._of_files(request, run)])
        if run.command.conditional:
            if installs or request.files or request.unknown:
                self._note(run, f"{_short_text(run.command)}, in a condition or a loop", tuple(installs))
            return
        if request.removes:
            self.found = [each for each in self.found if each[0].name not in request.removes]
            self.removed |= request.removes
        if request.unknown:
            self._note(run, _short_text(run.command))
        if not installs:
            return
        named = [index_cuda(run.command.lookup(name) or "") for name in _INDEX_VARIABLES]
        named.append(index_cuda(f"/whl/{run.command.lookup('UV_TORCH_BACKEND')}"))
        index = next((cuda for cuda in named if cuda is not None), None)
        environment = environment_of(run.command)
        self.found += (
            (replace(each, index_cuda=each.index_cuda or index, environment=environment), run.stage.number)
            for each in installs
        )

    def _with_known_markers(self, run: RunCommand, installs: list[Install]) -> list[Install]:
        """The installs whose markers hold; those whose markers are unknown are noted."""
        marked = {each.marker: self._evaluate_marker(each.marker, run.stage) for each in installs if each.marker}
        possible = tuple(each for each in installs if each.marker and marked[each.marker] is None)
        if any(map(is_cuda_related, possible)):
            self._note(run, f"{_short_text(run.command)}, by a marker", possible)
        return [each for each in installs if not each.marker or marked[each.marker]]

    def _evaluate_marker(self, marker: str, stage: Stage) -> bool | None:
        if stage.number not in self._pythons:
            chain = _chain(stage, self._build)
            base = base_of(chain[0].base or "", self._matrix)
            self._pythons[stage.number] = python_of(base, chain, (r.command for r in self._runs if r.stage in chain))
        machine = architecture(stage.platform.split("/")[1]) if stage.platform else None
        return evaluate_marker(marker, self._pythons[stage.number], machine)

    def _note(self, run: RunCommand, what: str, possible: tuple[Install, ...] = (), *, is_file: bool = False) -> None:
        self.unknown.append(UnknownInstall(run.location(self._file), what, possible, is_file))

    def _of_files(self, request: InstallRequest, run: RunCommand) -> list[Install]:
        """The packages in the files of a command, limited by the constraints of the command."""
        limits: list[Install] = []
        found: list[Install] = []
        for listed in (*request.files, *self._constraints(run)):
            if self._context.is_full:
                self._note(run, f"{path_of(listed)}: too many packages are installed before it", is_file=True)
                break
            name = find_source(path_of(listed), run.command.folder, run.step, run.stage, self._build, self._context)
            read, unread = read_dependencies(listed, name, self._context) if name is not None else ([], {})
            (limits if listed.kind is FileKind.CONSTRAINTS else found).extend(read)
            for other, reason in unread.items():
                self._note(run, f"{other}: {reason}", is_file=True)
            if name is None and listed.kind is not FileKind.CONSTRAINTS:
                reason = "too many files are copied" if self._context.is_exhausted else "it is not in the build context"
                self._note(run, f"{path_of(listed)}: {reason}", is_file=True)
        return apply_constraints(found, limits)

    def _constraints(self, run: RunCommand) -> Iterator[DependencyFile]:
        for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT"):
            for path in (run.command.lookup(name) or "").split():
                yield DependencyFile(FileKind.CONSTRAINTS, path, run.location(self._file))

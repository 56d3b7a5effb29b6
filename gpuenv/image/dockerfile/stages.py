"""The stages of a Dockerfile, each step with its variables and its commands.

moby/buildkit, frontend/dockerfile/docs/reference.md (read 2026-11-21): Environment replacement; Understand how ARG and
FROM interact; ARG, Scope: a stage inherits the arguments of the stage that it starts from.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpuenv.image.dockerfile.parse import WORD, DockerfileError, DockerfileLimitError, Instruction, SourceText
from gpuenv.image.dockerfile.shell import SHELLS, Command, ShellOptions, ShellWord, commands, script_position
from gpuenv.image.dockerfile.variables import Expansion, Lookup, TooLongError, is_known, substitute
from gpuenv.image.inspect.image_facts import parse_platform
from gpuenv.model.redaction import cut_text

_FROM = re.compile(r"(\S+)(?:\s+[Aa][Ss]\s+(\S+))?\s*$")
_PAIR = re.compile(r"([A-Za-z_][\w.-]*)=((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\])*)\s*")
_NAME = re.compile(r"([A-Za-z_][\w.-]*)(?:\s+|$)")
_HEREDOC_ONLY = re.compile(r"\s*(?:\d*<<-?['\"]?[\w.-]+['\"]?\s*)+")
# More than any written Dockerfile needs: each stage may be built on every other one, and a setting holds for the rest.
_MOST_STAGES, _MOST_SETTINGS, _MOST_INSTRUCTIONS = 500, 1000, 5000
_MOST_COMMANDS = 50_000  # of all RUNs, counted by what separates them
_SEPARATOR = re.compile(r"[\n;&|(]+")


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable's value, in which unknown variables are not replaced, and its lines."""

    value: str
    line: int
    end_line: int


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An instruction, with the variables and the working directory before it, and the commands of a RUN.

    ``default_shell`` is the last SHELL before it; empty for the default.
    """

    instruction: Instruction
    environment: Mapping[str, Setting]
    arguments: Mapping[str, str]
    workdir: str
    default_shell: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()

    def lookup(self, name: str) -> str | None:
        """The value of a variable; None if unknown."""
        if name in self.environment:
            return self.environment[name].value
        return self.arguments.get(name)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A stage, with its number from 0, the lines of its FROM, and variables, working directory and shell at its end.

    Attributes:
        name: its name after AS, in lower case.
        base: its base image, in which unknown variables are not replaced; null if it starts from a stage.
        uses_default: whether its FROM has a variable that the caller may set.
        platform: the platform in its FROM; null without one.
        parent: the number of the stage in its FROM; null if it starts from an image.
    """

    number: int
    name: str | None
    base: str | None
    uses_default: bool
    platform: str | None
    parent: int | None
    copies_from: tuple[int, ...]
    line: int
    end_line: int
    steps: tuple[Step, ...]
    environment: Mapping[str, Setting]
    arguments: Mapping[str, str]
    workdir: str
    default_shell: tuple[str, ...]


def stages_of(instructions: Sequence[Instruction], given: Mapping[str, str]) -> tuple[Stage, ...]:
    """The stages of a Dockerfile in their order; ``given`` are the caller's values for ARGs.

    Raises:
        DockerfileError: for an instruction before the first FROM, or no FROM.
        DockerfileLimitError: for too many instructions, or if variables expand to too many characters.
    """
    _refuse_too_many(instructions)
    outer: dict[str, str] = {}
    groups: list[list[Instruction]] = []
    for instruction in instructions:
        if instruction.keyword == "FROM":
            groups.append([instruction])
        elif groups:
            groups[-1].append(instruction)
        elif instruction.keyword == "ARG":
            with _limit_at(instruction):
                outer.update(_arguments(instruction, given, outer))
        else:
            raise DockerfileError(f"line {instruction.line}: {instruction.keyword} before the first FROM")
    if not groups:
        raise DockerfileError("line 1: there is no FROM")
    found: list[Stage] = []
    expansion = Expansion()
    for group in groups:
        found.append(_stage(group, found, outer, given, expansion))
    return tuple(found)


@contextmanager
def _limit_at(instruction: Instruction) -> Iterator[None]:
    """Names the line where variables expand to too many characters."""
    try:
        yield
    except TooLongError as error:
        raise DockerfileLimitError(f"line {instruction.line}: {error}") from error


def _refuse_too_many(instructions: Sequence[Instruction]) -> None:
    """Refuses a file with too many stages, variables, instructions or commands."""
    for keywords, most, what in (
        (("FROM",), _MOST_STAGES, "stages"),
        (("ARG", "ENV"), _MOST_SETTINGS, "ARGs and ENVs"),
        ((), _MOST_INSTRUCTIONS, "instructions"),
    ):
        beyond = [each.line for each in instructions if not keywords or each.keyword in keywords][most:]
        if beyond:
            raise DockerfileLimitError(f"line {beyond[0]}: more than {most} {what}")
    count = 0
    for each in instructions:
        if each.keyword == "RUN":
            texts = (each.body, *(heredoc.body for heredoc in each.heredocs))
            count += sum(len(_SEPARATOR.findall(source.text)) for source in texts)
            if count > _MOST_COMMANDS:
                raise DockerfileLimitError(f"line {each.line}: more than {_MOST_COMMANDS} commands")


def _stage(
    group: list[Instruction],
    before: list[Stage],
    outer: Mapping[str, str],
    given: Mapping[str, str],
    expansion: Expansion,
) -> Stage:
    first, *rest = group
    match = _FROM.match(first.body.text.strip())
    if match is None:
        raise DockerfileError(f"line {first.line}: FROM {cut_text(first.body.text.strip(), 40)!r}: expected an image")
    lookup = {**outer, **given}.get
    with _limit_at(first):
        base = substitute(match[1].strip("\"'"), lookup)
        platform = substitute(first.flag("platform") or "", lookup)
    names = {stage.name: stage.number for stage in before if stage.name}
    parent = names.get(base.lower())
    inherited = before[parent] if parent is not None else None
    steps, environment, arguments, workdir, shell = _walk(rest, inherited, outer, given, expansion)
    return Stage(
        number=len(before),
        name=match[2].lower() if match[2] else None,
        base=None if inherited else base,
        uses_default=inherited.uses_default if inherited else "$" in match[1],
        # A stage that starts from another one has its platform, whatever its FROM says.
        platform=inherited.platform if inherited else _platform(platform),
        parent=parent,
        copies_from=tuple(dict.fromkeys(_copied_numbers(steps, names, len(before)))),
        line=first.line,
        end_line=first.end_line,
        steps=tuple(steps),
        environment=environment,
        arguments=arguments,
        workdir=workdir,
        default_shell=shell,
    )


def _platform(text: str) -> str | None:
    """The platform of a FROM; BUILDPLATFORM and its like depend on the builder."""
    try:
        return str(parse_platform(text)) if is_known(text) else None
    except ValueError:
        return None


def _copied_numbers(steps: list[Step], names: Mapping[str, int], count: int) -> Iterator[int]:
    numbers = {str(number) for number in range(count)}
    for step in steps:
        if step.instruction.keyword not in ("COPY", "ADD", "RUN"):
            continue
        mounted = (re.search(r"from=([^,\s]+)", mount) for mount in step.instruction.flags_of("mount"))
        for name in (*step.instruction.flags_of("from"), *(match[1] for match in mounted if match)):
            if name.lower() in names:
                yield names[name.lower()]
            elif name in numbers:
                yield int(name)


def _walk(
    instructions: list[Instruction],
    inherited: Stage | None,
    outer: Mapping[str, str],
    given: Mapping[str, str],
    expansion: Expansion,
) -> tuple[list[Step], Mapping[str, Setting], Mapping[str, str], str, tuple[str, ...]]:
    environment: Mapping[str, Setting] = inherited.environment if inherited else {}
    arguments: Mapping[str, str] = inherited.arguments if inherited else {}
    workdir = inherited.workdir if inherited else "/"
    shell = inherited.default_shell if inherited else ()
    steps = []
    for instruction in instructions:
        with _limit_at(instruction):
            step = Step(instruction, environment, arguments, workdir, shell)
            if instruction.keyword == "RUN":
                step = replace(step, commands=_commands(step, expansion))
            steps.append(step)
            if instruction.keyword == "ARG":
                arguments = {**arguments, **_arguments(instruction, given, outer)}
            elif instruction.keyword == "ENV":
                settings = {
                    name: Setting(substitute(value, step.lookup), line, instruction.end_line)
                    for name, value, line in _pairs(instruction.body)
                }
                environment = {**environment, **settings}
            elif instruction.keyword == "WORKDIR":
                workdir = join_image_path(workdir, substitute(instruction.body.text.strip().strip("\"'"), step.lookup))
            elif instruction.keyword == "SHELL":
                shell = tuple(instruction.exec_form or ())
        if len(environment) + len(arguments) > _MOST_SETTINGS:
            raise DockerfileLimitError(f"line {instruction.line}: more than {_MOST_SETTINGS} ARGs and ENVs")
    return steps, environment, arguments, workdir, shell


def _commands(step: Step, expansion: Expansion) -> tuple[Command, ...]:
    """The commands of a RUN: of its shell form, its heredocs or its exec form."""
    instruction = step.instruction
    words = instruction.exec_form
    if words is not None:
        arguments = words[1:] if _shell_arguments(words[:1]) is not None else []
        end = script_position(arguments)
        if arguments[end:]:
            script = SourceText(arguments[end], ((0, instruction.line),))
            return commands(script, step.lookup, expansion, ShellOptions().after(arguments[:end]))
        return (Command(tuple(ShellWord(word, instruction.line) for word in words), step.lookup),) if words else ()
    options = ShellOptions().after(_shell_arguments(step.default_shell) or ())
    lookup = _lookup_of_shell(step)
    if instruction.heredocs and _HEREDOC_ONLY.fullmatch(instruction.body.text) is not None:
        found: list[Command] = []
        for script in (heredoc.body for heredoc in instruction.heredocs):
            interpreter = re.match(r"#!(.*)", script.text)
            given = _shell_arguments(interpreter[1].split()) if interpreter is not None else ()
            if given is not None:
                own = options if interpreter is None else ShellOptions().after(given)
                found += commands(script, lookup, expansion, own)
        return tuple(found)
    return commands(_with_heredocs(instruction), lookup, expansion, options)


def _lookup_of_shell(step: Step) -> Lookup:
    """The lookup of a step's commands; the shell ``conda run -n NAME bash`` activates an environment."""
    pairs = zip(step.default_shell, step.default_shell[1:], strict=False) if "run" in step.default_shell else ()
    name = next((value for option, value in pairs if option in ("-n", "--name", "-p", "--prefix")), None)
    return step.lookup if name is None else lambda key: name if key == "CONDA_DEFAULT_ENV" else step.lookup(key)


def _shell_arguments(words: Sequence[str]) -> Sequence[str] | None:
    """The words after the shell in a command line such as ``conda run -n NAME bash -e``; None without a shell."""
    at = next((n for n, word in enumerate(words) if word.rsplit("/", 1)[-1] in SHELLS), None)
    return words[at + 1 :] if at is not None else None


def _with_heredocs(instruction: Instruction) -> SourceText:
    """The text of an instruction, followed by its heredocs."""
    text, starts = instruction.body.text, instruction.body.starts
    for name, body in ((heredoc.name, heredoc.body) for heredoc in instruction.heredocs):
        text += "\n"
        starts += tuple((len(text) + offset, line) for offset, line in body.starts)
        text += body.text + name
    return SourceText(text, starts)


def join_image_path(folder: str, path: str) -> str:
    """A path in the image, relative to a folder."""
    whole = posixpath.normpath(posixpath.join(folder, path))
    return whole[1:] if whole.startswith("//") else whole  # POSIX lets two slashes mean something else; Linux does not


def _arguments(instruction: Instruction, given: Mapping[str, str], outer: Mapping[str, str]) -> dict[str, str]:
    """The values of an ARG: the caller's, its default, or that of an ARG before the first FROM."""
    found: dict[str, str] = {}
    for word in WORD.findall(instruction.body.text):
        name, equals, default = word.partition("=")
        value = given.get(name)
        if value is None:
            value = substitute(_unquote(default), {**outer, **found}.get) if equals else outer.get(name)
        if value and is_known(value):  # an empty default stands for a value that the caller must give
            found[name] = value
    return found


def _pairs(body: SourceText) -> Iterator[tuple[str, str, int]]:
    """Name, value and line of each pair in an ENV, in its form with an equals sign or in the old one."""
    text = body.text
    position = len(text) - len(text.lstrip())
    if _PAIR.match(text, position) is None:
        match = _NAME.match(text, position)
        if match is not None:
            yield match[1], _unquote(text[match.end() :].strip()), body.line_at(position)
        return
    while (found := _PAIR.match(text, position)) is not None:
        yield found[1], _unquote(found[2]), body.line_at(position)
        position = found.end()


def _unquote(text: str) -> str:
    """A value without the quotes around it or its parts, and with its escaped blanks."""
    return re.sub(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\\(\s)", lambda match: "".join(match.groups("")), text)

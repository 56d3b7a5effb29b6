"""The commands of a RUN, in whichever form it is written."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuenv.image.dockerfile.docker_parse import SourceText
from gpuenv.image.dockerfile.shell import Command, ShellWord, commands
from gpuenv.image.dockerfile.stages import Step

_MARKERS = re.compile(r"\s*(?:\d*<<-?['\"]?[\w.-]+['\"]?\s*)+")


@lru_cache(maxsize=5000)  # every rule looks at the same ones
def commands_of(step: Step) -> tuple[Command, ...]:
    """The simple commands of a RUN: of a shell's text, of heredocs, of the form in JSON."""
    instruction = step.instruction
    words = instruction.exec_form
    if words is not None:
        return _exec(words, instruction.line, step) if words else ()
    scripts = [heredoc.body for heredoc in instruction.heredocs]
    if scripts and _MARKERS.fullmatch(instruction.body.text):
        return tuple(command for script in scripts if _is_shell(script) for command in commands(script, step.lookup))
    found = commands(instruction.body, step.lookup)
    if scripts and found and found[0].program in ("sh", "bash", "dash"):
        found += tuple(command for script in scripts for command in commands(script, step.lookup))
    return found


def _exec(words: list[str], line: int, step: Step) -> tuple[Command, ...]:
    command = Command(tuple(ShellWord(word, line) for word in words))
    if command.program in ("sh", "bash", "dash") and len(words) > 2 and words[1].endswith("c"):  # noqa: PLR2004 - sh -c TEXT
        return commands(SourceText(words[2], ((0, line),)), step.lookup)
    return (command,)


def _is_shell(script: SourceText) -> bool:
    return not script.text.startswith("#!") or re.match(r"#!.*\b(?:ba|da|z)?sh\b", script.text) is not None
